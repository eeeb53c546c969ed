#!/bin/sh
# Installs the packages of others that tests run against below OUT: packages.sh OUT. These are the
# types of model vendors and the official MCP clients. A second run with the same versions does
# nothing. Two runs at once are for the caller to prevent.
set -eu

python_packages='openai==3.54.0 anthropic==2.12.0 google-genai==3.4.0 jsonschema==4.26.0 mcp==2.3.0'
node_packages='@modelcontextprotocol/sdk@1.32.2'

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
wanted="$python_packages $node_packages"

say() { printf '%s\n' "$*" >&2; }

sh "$here/../../plugins/setup.sh" python javascript

# The stamp is written last, so that an interrupted run is done again.
[ "$(cat "$out/stamp" 2>/dev/null)" != "$wanted" ] || exit 0
rm -f "$out/stamp"

python3 -m venv --clear "$out/python" || {
    say "Python cannot make a virtual environment in $out/python (Debian: apt-get install python3-venv)."
    exit 1
}
# Each word is a package.
# shellcheck disable=SC2086
"$out/python/bin/pip" install --quiet --disable-pip-version-check $python_packages || {
    say "pip could not install: $python_packages"
    exit 1
}

rm -rf "$out/javascript"
mkdir -p "$out/javascript"
# shellcheck disable=SC2086
npm install --silent --no-fund --no-audit --prefix "$out/javascript" $node_packages || {
    say "npm could not install: $node_packages"
    exit 1
}

printf '%s' "$wanted" > "$out/stamp"
