//! The tests of the whole: real components, the real program, data in and text out.

mod availability;
mod batch;
mod calls;
mod cli;
mod compiling;
mod contract;
mod doctor;
mod egress;
mod explain;
mod files;
mod formats;
mod grants;
mod hooks;
mod layering;
mod limits;
mod loading;
mod misbehaving;
mod readme;
mod registry;
mod scripts;
mod serve;
mod sessions;
mod support;
mod toolsets;
mod vectors;
mod wrong;
