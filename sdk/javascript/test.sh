#!/bin/sh
# Tests the SDK, its templates and the plugins in JavaScript on this machine: test.sh TOOLS
#
# They are copied below TOOLS, where what they import is installed; nothing is written elsewhere.
set -eu

[ $# = 1 ] || { echo "usage: test.sh TOOLS" >&2; exit 2; }
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
sh "$here/tools.sh" "$1"
tools=$(CDPATH='' cd -- "$1" && pwd)

rm -rf "$tools/test"
mkdir -p "$tools/test/node_modules"
cp -R "$here" "$tools/test/node_modules/toolhost-sdk"
cp -R "$here/../../plugins/html-to-markdown" "$tools/test/html-to-markdown"
for template in template template-typescript; do
    mkdir "$tools/test/$template"
    for file in "$here/$template"/*; do
        sed 's/{{name}}/my-words/g; s/{{ident}}/my_words/g' "$file" > "$tools/test/$template/$(basename -- "$file")"
    done
done

cd "$tools/test/node_modules/toolhost-sdk"
node --test test/build.test.js test/jsdoc.test.js test/plugin.test.js test/script.test.js
cd "$tools/test/html-to-markdown"
node --test
cd "$tools/test/template"
node --test
cd "$tools/test/template-typescript"
node --import toolhost-sdk/typescript --test plugin.test.ts
