#!/bin/sh
# Builds the guests of script languages: build.sh OUT TOOLS. The tools that do it are installed below
# TOOLS, unless they are there; a second run with unchanged sources does nothing.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
wit=$here/../../../wit
sdk=$here/../../../sdk
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
tools=$2
stamp=$(cat "$here"/*.sh "$here"/*.py "$here"/*.js "$wit"/*.wit | cksum)

sh "$here/../../../plugins/setup.sh" python javascript

if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ] && [ -f "$out/words-py.wasm" ] && [ -f "$out/words-js.wasm" ]; then
    exit 0
fi

sh "$sdk/python/tools.sh" "$tools/python"
"$tools/python/bin/componentize-py" -d "$wit" -w plugin-full \
    componentize -p "$here" words_py -o "$out/words-py.part"
mv "$out/words-py.part" "$out/words-py.wasm"

sh "$sdk/javascript/tools.sh" "$tools/javascript"
# Beside the packages, where it finds them.
cat > "$tools/javascript/guest.mjs" <<'JS'
import { componentize } from '@bytecodealliance/componentize-js';
import { writeFile } from 'node:fs/promises';

const [sourcePath, witPath, out] = process.argv.slice(2);
const { component } = await componentize({ sourcePath, witPath, worldName: 'plugin-full' });
await writeFile(out, component);
JS
node "$tools/javascript/guest.mjs" "$here/words_js.js" "$wit" "$out/words-js.part"
mv "$out/words-js.part" "$out/words-js.wasm"

printf '%s' "$stamp" > "$out/stamp"
