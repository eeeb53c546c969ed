#!/bin/sh
# Builds the runners of scripts, as far as this machine can: runners.sh TOOLS OUT AGAIN
#
# What builds them is installed below TOOLS, unless it is there; OUT gets python.wasm and
# javascript.wasm. What is missing is said, with what to do before the command AGAIN; it is no failure,
# since only scripts need it. A second run with unchanged sources does nothing.
set -u

[ $# = 3 ] || { echo "usage: runners.sh TOOLS OUT AGAIN" >&2; exit 2; }
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
tools=$1 out=$2 again=$3
say() { printf '%s\n' "$*" >&2; }

runner() { # language, its name for people
    missing=$(sh "$here/../plugins/setup.sh" --check "$1" 2>&1) || {
        say "No runner for $2 scripts: $missing Then run \`$again\` again."
        return
    }
    [ -f "$out/$1.wasm" ] || say "Building the runner of $2 scripts; the first time this takes some minutes, most of it for getting its tools."
    said=$(sh "$here/$1/runner.sh" "$tools/$1" "$out/$1.wasm" 2>&1) || {
        printf '%s\n' "$said" | tail -n 5 >&2
        say "No runner for $2 scripts, see above. To try again: sh $here/$1/runner.sh $tools/$1 $out/$1.wasm"
    }
}

runner python Python
runner javascript JavaScript
