#!/bin/sh
# Tests the SDK, its template and the plugins in Python on this machine: test.sh TOOLS
#
# Their Python is the one below TOOLS. Nothing is written beside the sources.
set -eu

[ $# = 1 ] || { echo "usage: test.sh TOOLS" >&2; exit 2; }
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
sh "$here/tools.sh" "$1"
python=$(CDPATH='' cd -- "$1" && pwd)/bin/python
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$here"

template=$(mktemp -d)
trap 'rm -rf "$template"' EXIT
for file in "$here"/template/*; do
    sed 's/{{name}}/my-words/g; s/{{ident}}/my_words/g' "$file" > "$template/$(basename -- "$file")"
done

for tests in "$here/tests" "$here/../../plugins/csv-query" "$template"; do
    (cd "$tests" && "$python" -m unittest --quiet)
done
