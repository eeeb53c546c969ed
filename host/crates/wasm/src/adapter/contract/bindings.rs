//! The host's side of `wit/`, generated: what components of the contract export.
//!
//! The optional interfaces have worlds of their own, so that a component without them still
//! fits the bindings of the required world. What guests import is bound where it is provided.

mod base {
    wasmtime::component::bindgen!({
        world: "plugin",
        path: "../../../wit",
        imports: { default: trappable },
        exports: { default: async },
    });
}

pub(super) mod availability {
    wasmtime::component::bindgen!({
        world: "with-availability",
        path: "../../../wit",
        exports: { default: async },
    });

    pub(crate) use exports::toolhost::plugin::availability::GuestIndices;
}

pub(super) mod schema_override {
    wasmtime::component::bindgen!({
        world: "with-schema-override",
        path: "../../../wit",
        exports: { default: async },
    });

    pub(crate) use exports::toolhost::plugin::schema_override::GuestIndices;
}

pub(super) mod hooks {
    wasmtime::component::bindgen!({
        world: "with-hooks",
        path: "../../../wit",
        exports: { default: async },
    });

    pub(crate) use exports::toolhost::plugin::hooks::{
        Decision, GuestIndices, HookedCall, HookedOutcome,
    };
}

pub(super) use base::PluginIndices;
pub(super) use base::toolhost::plugin::types;
