#!/bin/sh
# Builds with cargo, and says on one line how far it is: build.sh CARGO-ARGUMENTS
#
# Left alone, cargo says nothing or hundreds of lines. On a terminal one line is drawn anew; elsewhere
# there is a line for each tenth. Warnings and errors are shown as they are; the exit code is cargo's.
set -u

carriage_return=$(printf '\r')
clear='' drawn=0
if [ -t 2 ]; then clear=$(printf '\r\033[K'); fi

{
    CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 cargo build "$@" 2>&1
    printf '%sexit %s\n' "$carriage_return" "$?"
} | {
    tenth=0
    while IFS= read -r line; do
        # The bar: "Building [==>   ] 12/345: some, crates", in front of what comes after it.
        case $line in
            *' Building ['*'] '[0-9]*/[0-9]*)
                rest=${line##*'] '}
                count=${rest%%[!0-9/]*}
                done=${count%/*} all=${count#*/}
                now=$((done * 10 / (all > 0 ? all : 1)))
                if [ -n "$clear" ]; then
                    printf '%sBuilding: %s of %s crates' "$clear" "$done" "$all" >&2
                    drawn=1
                elif [ "$now" -gt "$tenth" ]; then
                    echo "Building: $done of $all crates" >&2
                    tenth=$now
                fi
                ;;
        esac
        text=${line##*"$carriage_return"}
        case $text in
            'exit '*)
                if [ "$drawn" = 1 ]; then printf '%s' "$clear" >&2; fi
                exit "${text#exit }"
                ;;
            *' Compiling '* | *' Building '* | *' Finished '* | *' Fresh '* | *' Downloading '* | *' Downloaded '*) ;;
            *' Updating '* | *' Locking '* | *' Adding '* | *' Blocking '*) ;;
            *)
                if [ "$drawn" = 1 ]; then printf '%s' "$clear" >&2; drawn=0; fi
                printf '%s\n' "$text" >&2
                ;;
        esac
    done
}
