//! Whose a plugin is: what it is granted, what it is trusted with, what strangers may cost.

mod building;
mod grants;
pub(crate) mod pins;
mod strange_files;
mod strangers;
