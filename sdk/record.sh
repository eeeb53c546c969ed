#!/bin/sh
# Which bytes of a runner were built here. A host runs scripts only with a runner whose digest is
# recorded in a file beside it, which nobody but its user and root can change.
#
#   record.sh put FILE RUNNER.wasm    records the bytes of FILE, and puts it there as RUNNER.wasm
#   record.sh copy RUNNER.wasm TO     copies a runner with its record
#   record.sh check RUNNER.wasm       fails unless its bytes are the recorded ones
#
# RUNNER.wasm.sha256 has a digest a line: that of the build before, which serves until this one is in
# place, and that of this one.
set -eu

usage() { echo "usage: record.sh put FILE RUNNER | copy RUNNER TO | check RUNNER" >&2; exit 2; }

digest() {
    if command -v sha256sum >/dev/null 2>&1; then sha256sum < "$1"; else shasum -a 256 < "$1"; fi | cut -d ' ' -f 1
}

# The runner, its record, and their folder if it is one of runners.
places() {
    printf '%s\n' "$1" "$1.sha256"
    folder=$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd)
    case $folder in */runners) printf '%s\n' "$folder" ;; esac
}

# Nobody else may write there.
close() { places "$1" | while IFS= read -r place; do chmod go-w "$place"; done; }

is_closed() {
    open=$(places "$1" | while IFS= read -r place; do find "$place" -prune \( -perm -020 -o -perm -002 \); done)
    [ -z "$open" ]
}

# Adds the digests on stdin to the last one of a record.
record() {
    { tail -n 1 "$1.sha256" 2>/dev/null || true; cat; } > "$1.sha256.part"
    mv "$1.sha256.part" "$1.sha256"
}

case ${1-} in
    put)
        [ $# = 3 ] || usage
        digest "$2" | record "$3"
        mv "$2" "$3"
        close "$3"
        ;;
    copy)
        [ $# = 3 ] || usage
        cp "$2" "$3.part"
        if [ -f "$2.sha256" ]; then tail -n 1 "$2.sha256" | record "$3"; fi
        mv "$3.part" "$3"
        [ ! -f "$3.sha256" ] || close "$3"
        ;;
    check)
        [ $# = 2 ] || usage
        [ -f "$2" ] && [ -f "$2.sha256" ] || exit 1
        is_closed "$2" || exit 1
        digest "$2" | grep -qxF -f - "$2.sha256"
        ;;
    *) usage ;;
esac
