//! Stands in for what an older C library lacks and the standard library links.
//!
//! `toolhost build` sets the flag for toolchains that build the standard library from its
//! sources against the system's C library.

#![expect(unsafe_code, reason = "the C library's names and types")]

use std::ffi::c_char;
use std::ptr;

/// `std::fs::canonicalize` fails with this, instead of failing every build.
#[unsafe(no_mangle)]
extern "C" fn realpath(_path: *const c_char, _resolved: *mut c_char) -> *mut c_char {
    ptr::null_mut()
}
