#!/bin/sh
# Installs what builds components of Python, unless it is there: tools.sh TOOLS
set -eu

[ $# = 1 ] || { echo "usage: tools.sh TOOLS" >&2; exit 2; }
packages='componentize-py==0.25.1 tzdata==2025.2'
# A link to a folder that is gone.
[ ! -L "$1" ] || [ -e "$1" ] || rm -f "$1"
mkdir -p "$1"
[ "$(cat "$1/packages" 2>/dev/null)" = "$packages" ] && [ -x "$1/bin/componentize-py" ] && exit 0
[ -x "$1/bin/pip" ] || python3 -m venv "$1"
# shellcheck disable=SC2086
"$1/bin/pip" install --quiet --disable-pip-version-check $packages
printf '%s' "$packages" > "$1/packages"
