#!/bin/sh
# Installs what runs and builds scripts into the user's folder: install.sh TOOLS RUNNERS FOLDER
#
# The runners, with the record of what was built, and the SDKs are copied. The tools are large, so FOLDER gets links to them; where
# they are gone one day, `toolhost build` says how to get them again.
set -eu
# What runs as this user, nobody else may change.
umask 022

[ $# = 3 ] || { echo "usage: install.sh TOOLS RUNNERS FOLDER" >&2; exit 2; }
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

mkdir -p "$3/runners" "$3/tools"
for language in python javascript; do
    if [ -f "$2/$language.wasm" ]; then
        sh "$root/sdk/record.sh" copy "$2/$language.wasm" "$3/runners/$language.wasm"
        echo "installed $3/runners/$language.wasm"
    fi
    [ ! -L "$3/tools/$language" ] || rm "$3/tools/$language"
    if [ -d "$1/$language" ] && [ ! -e "$3/tools/$language" ]; then ln -s "$1/$language" "$3/tools/$language"; fi
done
for shared in sdk wit; do
    rm -rf "${3:?}/$shared"
    cp -R "$root/$shared" "$3/$shared"
done
# What the packages of the Rust SDK have in common with the others.
sed 's|^members = .*|members = ["rust", "rust/macros"]|; s|^exclude = .*|exclude = []|' \
    "$root/Cargo.toml" > "$3/sdk/Cargo.toml"
find "$3/sdk" -name __pycache__ -prune -exec rm -rf {} +
