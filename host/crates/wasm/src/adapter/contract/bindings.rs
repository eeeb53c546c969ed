//! The host's side of `wit/`, generated.
//!
//! The optional interfaces have worlds of their own, so that a component without them still
//! fits the bindings of the required world.

pub(crate) mod base {
    wasmtime::component::bindgen!({
        world: "plugin",
        path: "../../../wit",
        imports: { "toolhost:plugin/kv": async | trappable, default: trappable },
        exports: { default: async },
    });
}

pub(crate) mod availability {
    wasmtime::component::bindgen!({
        world: "with-availability",
        path: "../../../wit",
        exports: { default: async },
    });

    pub(crate) use exports::toolhost::plugin::availability::GuestIndices;
}

pub(crate) mod schema_override {
    wasmtime::component::bindgen!({
        world: "with-schema-override",
        path: "../../../wit",
        exports: { default: async },
    });

    pub(crate) use exports::toolhost::plugin::schema_override::GuestIndices;
}

pub(crate) mod hooks {
    wasmtime::component::bindgen!({
        world: "with-hooks",
        path: "../../../wit",
        exports: { default: async },
    });

    pub(crate) use exports::toolhost::plugin::hooks::{
        Decision, GuestIndices, HookedCall, HookedOutcome,
    };
}

pub(crate) mod script {
    wasmtime::component::bindgen!({
        world: "with-script",
        path: "../../../wit",
        imports: { default: trappable },
    });

    pub(crate) use self::toolhost::plugin::script::{Host, Module};
}

pub(crate) use base::toolhost::plugin::types;
pub(crate) use base::{Plugin, PluginPre};
