#!/bin/sh
# Builds the runner of JavaScript and TypeScript scripts: runner.sh TOOLS OUT.wasm
#
# What builds it is installed below TOOLS, in versions of its own, unless it is there. A second run
# with unchanged sources does nothing. Beside the runner, OUT.sha256 records which bytes were built: see
# ../record.sh.
set -eu
# What runs as this user, nobody else may change.
umask 022

[ $# = 2 ] || { echo "usage: runner.sh TOOLS OUT.wasm" >&2; exit 2; }
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
wit=$here/../../wit
sh "$here/tools.sh" "$1"
tools=$(CDPATH='' cd -- "$1" && pwd)
stamp=$(cat "$here"/*.sh "$here"/build.mjs "$here"/index.js "$here"/src/*.js "$here"/component/*.js "$here"/wit/*.wit "$wit"/*.wit | cksum)

if [ "$(cat "$2.stamp" 2>/dev/null)" = "$stamp" ] && sh "$here/../record.sh" check "$2"; then
    exit 0
fi
mkdir -p "$(dirname -- "$2")"
node "$here/build.mjs" --runner --tools "$tools" --wit "$wit" --out "$2.new" --quiet
sh "$here/../record.sh" put "$2.new" "$2"
printf '%s' "$stamp" > "$2.stamp"
