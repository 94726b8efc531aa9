# bash completion for the kd tools. Options and choices come from the tool itself (kd-TOOL --complete: lines of an option,
# a tab, and what it takes, as a|b|c or a word like FILE), so they are never stale.
_kd()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} option takes
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$1" --complete 2>/dev/null | cut -f 1)" -- "$word")
        return
    fi
    while IFS=$'\t' read -r option takes; do
        if [[ $option == "$before" && $takes == *'|'* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "${takes//|/ }" -- "$word"; if [[ "|$takes|" == *'|FILE|'* ]]; then compgen -f -- "$word"; fi)
            return
        fi
    done < <("$1" --complete 2>/dev/null)
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _kd kd-denoise kd-fid kd-grid kd-info kd-init kd-loglik kd-prep kd-sample kd-train
