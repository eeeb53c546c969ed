#!/bin/sh
# Installs what builds components of JavaScript, unless it is there: tools.sh TOOLS
set -eu

[ $# = 1 ] || { echo "usage: tools.sh TOOLS" >&2; exit 2; }
packages='@bytecodealliance/componentize-js@0.23.0 esbuild@0.28.2 sucrase@3.35.1 zod@4.6.7'
# A link to a folder that is gone.
[ ! -L "$1" ] || [ -e "$1" ] || rm -f "$1"
mkdir -p "$1"
[ "$(cat "$1/packages" 2>/dev/null)" = "$packages" ] && exit 0
# shellcheck disable=SC2086
npm install --silent --no-fund --no-audit --prefix "$1" $packages
printf '%s' "$packages" > "$1/packages"
