//! Writing plugins: scaffolds, builds, checks, in three languages.

pub(crate) mod authors;
mod check;
mod dev;
mod javascript;
pub(crate) mod python;
mod weather;
