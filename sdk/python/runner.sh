#!/bin/sh
# Builds the runner of Python scripts: runner.sh TOOLS OUT.wasm. What it is built with is installed
# below TOOLS, in versions of its own, if it is missing; a second run with unchanged sources does
# nothing. Beside the runner, OUT.wasm.sha256 records which bytes were built: see ../record.sh.
set -eu
# What runs as this user, nobody else may change.
umask 022

[ $# -eq 2 ] || { echo "usage: runner.sh TOOLS OUT.wasm" >&2; exit 2; }
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
sh "$here/tools.sh" "$1"
mkdir -p "$(dirname -- "$2")"
tools=$(CDPATH='' cd -- "$1" && pwd)
out=$(CDPATH='' cd -- "$(dirname -- "$2")" && pwd)/$(basename -- "$2")
wit=$here/../../wit
stamp=$(cat "$here"/*.sh "$here"/toolhost/*.py "$here"/toolhost/component/*.py "$here"/wit/*.wit "$here"/wit/deps/*.wit "$wit"/*.wit | cksum)

if [ "$(cat "$out.stamp" 2>/dev/null)" = "$stamp" ] && sh "$here/../record.sh" check "$out"; then
    exit 0
fi

# Only the package: what else is beside it has no place in the runner.
stage=$(mktemp -d "$tools/stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT
cp -r "$here/toolhost" "$stage/toolhost"
mv "$stage/toolhost/component" "$stage/component"
cp -r "$("$tools/bin/python" -c 'import os, tzdata; print(os.path.dirname(tzdata.__file__))')" "$stage/tzdata"
find "$stage" -name __pycache__ -prune -exec rm -rf {} +

"$tools/bin/componentize-py" --quiet \
    -d "$wit" -d "$here/wit" -w toolhost:python/python-runner \
    componentize -p "$stage" -p "$stage/component" toolhost_runner -o "$out.part"
sh "$here/../record.sh" put "$out.part" "$out"
printf '%s' "$stamp" > "$out.stamp"
