#!/bin/sh
# Gets what building guests takes, if it is missing: plugins/setup.sh [--check] rust|python|javascript...
#
# Rust needs a WebAssembly target: rustup's, or else Debian's packages. As root Debian's packages
# are installed directly, otherwise after asking; with --check nothing is installed, and what is
# missing is said.
set -eu

may_install=true
[ "${1-}" != --check ] || { may_install=false; shift; }

say() { printf '%s\n' "$*" >&2; }

debian_install() { # what it is for, then the packages
    purpose=$1
    shift
    $may_install || return 1
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ]; then
        sudo=
    else
        command -v sudo >/dev/null 2>&1 || return 1
        # Without a terminal there is nobody to ask.
        [ -t 0 ] || return 1
        printf 'Install %s for %s with sudo? [y/N] ' "$*" "$purpose" >&2
        read -r answer
        case $answer in [yY]*) sudo=sudo ;; *) return 1 ;; esac
    fi
    say "Installing for $purpose: $*"
    $sudo apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq "$@" >&2
}

host_rust() {
    command -v cargo >/dev/null 2>&1 && command -v cc >/dev/null 2>&1 && return 0
    say "toolhost needs a Rust toolchain (1.95 or later) and a C compiler."
    say "Install Rust with rustup, and a C compiler with your system's packages, then run this again."
    exit 1
}

# A toolchain along PATH that has the target.
has_target() {
    libdir=$(rustc --print target-libdir --target "$1" 2>/dev/null) || return 1
    ls "$libdir"/libstd-*.rlib >/dev/null 2>&1
}

has_debian_sources() {
    [ -x /usr/bin/cargo ] && [ -x /usr/bin/rustc ] && [ -d /usr/lib/wasm32-wasi ] || return 1
    [ -f "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library/std/Cargo.toml" ] || return 1
    ls /usr/bin/wasm-ld-* /usr/bin/wasm-ld >/dev/null 2>&1
}

rust() {
    host_rust
    has_target wasm32-wasip2 || has_target wasm32-wasip1 || has_debian_sources && return 0
    if command -v rustup >/dev/null 2>&1; then
        say "Adding the target wasm32-wasip2 with rustup."
        if rustup target add wasm32-wasip2 >&2 && has_target wasm32-wasip2; then return 0; fi
        say "rustup could not add the target; trying the system's packages."
    fi
    linker=$(apt-cache search --names-only '^lld-[0-9]+$' 2>/dev/null | sort -t- -k2 -n | tail -n 1 | cut -d' ' -f1) || linker=
    debian_install "building plugins" rustc-web cargo-web rust-web-src wasi-libc "${linker:-lld}" || true
    has_debian_sources && return 0
    say "No Rust toolchain for WebAssembly. Install one of:"
    say "  rustup target add wasm32-wasip2"
    say "  apt-get install rustc-web cargo-web rust-web-src wasi-libc lld   (Debian)"
    exit 1
}

has_python() { python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

python() {
    has_python || debian_install "building Python guests" python3 python3-venv || true
    has_python || { say "Python 3.10 or later with venv is missing; install it (Debian: apt-get install python3 python3-venv)."; exit 1; }
}

has_node() { command -v npm >/dev/null 2>&1 && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' >/dev/null 2>&1; }

javascript() {
    has_node || debian_install "building JavaScript guests" nodejs npm || true
    has_node || { say "Node.js 20 or later with npm is missing; install it (Debian: apt-get install nodejs npm)."; exit 1; }
}

for what in "$@"; do
    case $what in
        rust | python | javascript) $what ;;
        *) say "usage: plugins/setup.sh [--check] rust|python|javascript..."; exit 2 ;;
    esac
done
