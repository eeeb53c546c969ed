//! Rules, pure: what plugins need and are granted, which tools a session has, which texts a person
//! should see, how two builds differ.

pub mod capability;
pub mod diff;
pub mod guardrails;
pub mod review;
pub mod toolset;
