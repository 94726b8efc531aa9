# bash completion for the kd tools. Options come from the tool itself (kd-TOOL --complete), so they are never stale.
_kd()
{
    local word=${COMP_WORDS[COMP_CWORD]}
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$1" --complete 2>/dev/null)" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -o filenames -F _kd kd-denoise kd-grid kd-info kd-init kd-prep kd-sample kd-train
