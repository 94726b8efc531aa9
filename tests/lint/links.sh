#!/bin/bash
# What a text refers to exists: the targets of links in Markdown, paths of this tree wherever one is written (comments, scripts,
# man pages, messages), and headers and sources named as #include names them (op/op.h for lib/op/op.h). A README is named by its
# path. Placeholders in capitals (tests/op/NAME.c), globs, and names that a variable or %s completes are not checked.
set -u
places='tests|lib|formats|examples|tools|docs'
# the folders of lib/
modules=$(for d in lib/*/; do if [ -d "$d" ]; then basename "$d"; fi; done | paste -s -d '|')

mapfile -t files < <(
    find . \( -name .git -o -name 'build*' -o -name shared -o -path ./tests/fuzz/corpus -o -path './tests/cli/*.std*' \) -prune -o -type f \
        \( -name '*.[chly1]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' -o -name '*.md' -o -name '*.sh' -o -name '*.bash' \
        -o -name '*.py' -o -name Makefile -o -name '*.mk' -o -path './.ci/*' -o -path ./tests/run \) -print |
        sed 's|^\./||' | grep -vE '^tests/lint/(links|links_finds|runner)\.sh$' | sort)
if [ ${#files[@]} -eq 0 ]; then exit 0; fi

# A line for each reference: FILE:LINE, TAB, kind, TAB, what is referred to
references() {
    awk -v places="$places" -v modules="$modules" '
    BEGIN {
        name = "[A-Za-z0-9_.*?{},@%$<>+-]"
        path = "(" places ")/" name "*(/" name "*)*"
        header = "(" modules ")/[a-z0-9_/]+\\.[chl]"
    }
    # Each match of `what` in the line, unless it is a part of a longer path or word
    function each(kind, what,   rest, before, start, word) {
        for (rest = $0; match(rest, what); rest = substr(rest, RSTART + RLENGTH)) {
            before = RSTART > 1 ? substr(rest, RSTART - 1, 1) : ""
            word = substr(rest, RSTART, RLENGTH)
            if (before ~ /[A-Za-z0-9_.\/}$*+~-]/) continue
            # "tests/golden/NAME" where the sources append to a string
            start = kind == "path" && substr(rest, RSTART + RLENGTH, 1) == "\"" ? "start" : kind
            print FILENAME ":" FNR "\t" start "\t" word
        }
    }
    FNR == 1 { fenced = 0; markdown = FILENAME ~ /\.md$/ }
    markdown && /^ *```/ { fenced = !fenced }
    markdown && !fenced {
        for (rest = $0; match(rest, /\]\([^)]*\)/); rest = substr(rest, RSTART + RLENGTH))
            print FILENAME ":" FNR "\tlink\t" substr(rest, RSTART + 2, RLENGTH - 3)
    }
    # a man page writes - as \-
    FILENAME ~ /\.1$/ { gsub(/\\-/, "-"); gsub(/\\f[A-Z]/, "") }
    $0 ~ path { each("path", path) }
    $0 ~ header { each("header", header) }
    /README/ {
        for (rest = $0; match(rest, /README[.a-z]*/); rest = substr(rest, RSTART + RLENGTH))
            if (substr(rest, RSTART, RLENGTH) !~ /^README\.(md|txt)/) print FILENAME ":" FNR "\tREADME\t"
    }' "${files[@]}"
}

bad=0
complain() { echo "$1: $2"; bad=1; }
while IFS=$'\t' read -r at kind what; do
    case $kind in
    link)
        what=${what%% *}
        what=${what%%#*}
        if [[ -z $what || $what == *://* || $what == mailto:* ]]; then continue; fi
        if [ ! -e "$(dirname "${at%:*}")/$what" ]; then complain "$at" "link to $what: there is no such file"; fi ;;
    path | start)
        what=${what%.o}                                                 # of an object file in build/
        while [[ $what == *[.,?-] ]]; do what=${what%?}; done            # the end of a sentence
        if [[ $what == *[][*?{}@%\$\<\>+]* ]]; then continue; fi
        if [ -e "$what" ] || { [ "$kind" = start ] && compgen -G "$what*" >/dev/null; }; then continue; fi
        if [[ ${what//README/} =~ [A-Z][A-Z] || $what =~ (^|[/._-])[NM]([/._-]|$) ]]; then continue; fi
        complain "$at" "$what: there is no such file" ;;
    header)
        if [ ! -e "lib/$what" ]; then complain "$at" "$what: there is no lib/$what"; fi ;;
    README)
        complain "$at" "a README without its path: write README.md or FOLDER/README.md" ;;
    esac
done < <(references)
exit $bad
