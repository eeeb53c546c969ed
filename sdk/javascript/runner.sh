#!/bin/sh
# Builds the runner of JavaScript and TypeScript scripts: runner.sh TOOLS OUT.wasm
#
# What builds it is installed below TOOLS, in versions of its own, unless it is there. A second run
# with unchanged sources does nothing.
set -eu

[ $# = 2 ] || { echo "usage: runner.sh TOOLS OUT.wasm" >&2; exit 2; }
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
wit=$here/../../wit
sh "$here/tools.sh" "$1"
tools=$(CDPATH='' cd -- "$1" && pwd)
stamp=$(cat "$here"/*.sh "$here"/build.mjs "$here"/index.js "$here"/src/*.js "$here"/component/*.js "$here"/wit/*.wit "$wit"/*.wit | cksum)

if [ "$(cat "$2.stamp" 2>/dev/null)" = "$stamp" ] && [ -f "$2" ]; then
    exit 0
fi
mkdir -p "$(dirname -- "$2")"
node "$here/build.mjs" --runner --tools "$tools" --wit "$wit" --out "$2" --quiet
printf '%s' "$stamp" > "$2.stamp"
