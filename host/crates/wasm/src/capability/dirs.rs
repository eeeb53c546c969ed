//! Directories: which are open for a guest, and the files in them.

pub(crate) mod directories;
pub(crate) mod files;
pub(crate) mod roots;
