#!/bin/sh
# Builds the runner of Python scripts: runner.sh TOOLS OUT.wasm. What it is built with is installed
# below TOOLS, in versions of its own, if it is missing; a second run with unchanged sources does
# nothing.
set -eu

componentize_py=0.25.1
tzdata=2025.2

[ $# -eq 2 ] || { echo "usage: runner.sh TOOLS OUT.wasm" >&2; exit 2; }
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1" "$(dirname -- "$2")"
tools=$(CDPATH='' cd -- "$1" && pwd)
out=$(CDPATH='' cd -- "$(dirname -- "$2")" && pwd)/$(basename -- "$2")
wit=$here/../../wit
stamp=$(cat "$here/runner.sh" "$here"/toolhost/*.py "$here"/toolhost/component/*.py "$here"/wit/*.wit "$here"/wit/deps/*.wit "$wit"/*.wit | cksum)

if [ -f "$out" ] && [ "$(cat "$out.stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

if [ "$(cat "$tools/python/toolhost-versions" 2>/dev/null)" != "$componentize_py $tzdata" ]; then
    [ -x "$tools/python/bin/pip" ] || python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet --disable-pip-version-check \
        "componentize-py==$componentize_py" "tzdata==$tzdata"
    printf '%s' "$componentize_py $tzdata" > "$tools/python/toolhost-versions"
fi

# Only the package: what else is beside it has no place in the runner.
stage=$(mktemp -d "$tools/stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT
cp -r "$here/toolhost" "$stage/toolhost"
mv "$stage/toolhost/component" "$stage/component"
cp -r "$("$tools/python/bin/python" -c 'import os, tzdata; print(os.path.dirname(tzdata.__file__))')" "$stage/tzdata"
find "$stage" -name __pycache__ -prune -exec rm -rf {} +

"$tools/python/bin/componentize-py" --quiet \
    -d "$wit" -d "$here/wit" -w toolhost:python/python-runner \
    componentize -p "$stage" -p "$stage/component" toolhost_runner -o "$out.part"
mv "$out.part" "$out"
printf '%s' "$stamp" > "$out.stamp"
