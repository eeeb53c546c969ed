#!/bin/sh
# Builds the guests of script languages: build.sh OUT. The tools that do it are installed below
# OUT, in versions of their own; a second run with unchanged sources does nothing.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
wit=$here/../../../wit
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
stamp=$(cat "$here"/*.sh "$here"/*.py "$here"/*.js "$wit"/*.wit | cksum)

sh "$here/../../../plugins/setup.sh" python javascript

if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ] && [ -f "$out/words-py.wasm" ] && [ -f "$out/words-js.wasm" ]; then
    exit 0
fi

[ -x "$out/python/bin/componentize-py" ] || {
    python3 -m venv "$out/python"
    "$out/python/bin/pip" install --quiet --disable-pip-version-check componentize-py==0.25.1
}
"$out/python/bin/componentize-py" -d "$wit" -w plugin-full \
    componentize -p "$here" words_py -o "$out/words-py.part"
mv "$out/words-py.part" "$out/words-py.wasm"

[ -d "$out/javascript/node_modules/@bytecodealliance/componentize-js" ] || {
    mkdir -p "$out/javascript"
    npm install --silent --no-fund --no-audit --prefix "$out/javascript" \
        @bytecodealliance/componentize-js@0.23.0
}
cat > "$out/javascript/build.mjs" <<'JS'
import { componentize } from '@bytecodealliance/componentize-js';
import { writeFile } from 'node:fs/promises';

const [sourcePath, witPath, out] = process.argv.slice(2);
const { component } = await componentize({ sourcePath, witPath, worldName: 'plugin-full' });
await writeFile(out, component);
JS
node "$out/javascript/build.mjs" "$here/words_js.js" "$wit" "$out/words-js.part"
mv "$out/words-js.part" "$out/words-js.wasm"

printf '%s' "$stamp" > "$out/stamp"
