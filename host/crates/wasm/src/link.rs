//! From a component's bytes to what can be instantiated: compiled once, linked, and shared by all
//! copies of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use semver::Version;
use tokio::sync::{SemaphorePermit, watch};
use wasmtime::component::{InstancePre, Linker};

use super::account::{Account, Standing};
use super::adapter::{self, Adapted, Offers, Recognised};
use super::candidate::Candidate;
use super::capability;
use super::compile::cache::{CompiledCode, InUse};
use super::compile::{self, Compiler, Named};
use super::dev_builds::OwnBuilds;
use super::engine::{self, Engine, EngineError};
use super::instance::{self, Guest};
use super::load_error::{self, LoadError};
use super::load_queue::{LoadQueue, Use};
use super::read;
use super::surface::{self, ComponentSurface};

/// A component that is compiled and linked.
pub(super) struct Linked {
    pub(super) engine: Arc<Engine>,
    pub(super) digest: Arc<str>,
    pub(super) contract: Version,
    pub(super) surface: ComponentSurface,
    pub(super) offers: Offers,
    pub(super) pre: InstancePre<Guest>,
    pub(super) adapted: Box<dyn Adapted>,
    _in_use: Option<InUse>,
}

/// An engine, and what its guests may import.
struct EngineLinker {
    engine: Arc<Engine>,
    linker: Linker<Guest>,
}

/// Compiles and links, and knows what is in use.
pub(super) struct Links {
    usual: Arc<EngineLinker>,
    pub(super) compiler: Compiler,
    pub(super) own_builds: OwnBuilds,
    /// Where own builds run: started when there is the first one; none where it does not start.
    quick: OnceLock<Option<Arc<EngineLinker>>>,
    /// What is being compiled at this moment, or waits for that: plugins by id, and runners.
    pub(super) now_compiling: watch::Sender<BTreeSet<String>>,
    /// Components that are in use, by digest.
    in_use: Mutex<HashMap<Arc<str>, Weak<Linked>>>,
}

impl EngineLinker {
    /// Links everything that any guest may import; what refuses is the authority of each call.
    fn new(engine: Arc<Engine>) -> Result<EngineLinker, EngineError> {
        let mut linker = Linker::new(&engine.wasmtime);
        let linked = instance::link(&mut linker)
            .and_then(|()| capability::link(&mut linker))
            .and_then(|()| adapter::link(&mut linker));
        linked.map_err(engine::refused)?;
        Ok(EngineLinker { engine, linker })
    }
}

impl Links {
    pub(super) fn new(engine: Arc<Engine>) -> Result<Links, EngineError> {
        Ok(Links {
            usual: Arc::new(EngineLinker::new(engine)?),
            compiler: Compiler::default(),
            own_builds: OwnBuilds::default(),
            quick: OnceLock::new(),
            now_compiling: watch::Sender::default(),
            in_use: Mutex::default(),
        })
    }

    /// What compiles this component in no time, if it is an own build.
    fn quick(&self, digest: &str) -> Option<Arc<EngineLinker>> {
        if !self.own_builds.has(digest) {
            return None;
        }
        let start = || {
            let started = self.usual.engine.start_quick();
            started
                .and_then(|engine| EngineLinker::new(Arc::new(engine)))
                .inspect_err(|error| tracing::debug!(%error, "builds are compiled as all others"))
                .ok()
                .map(Arc::new)
        };
        self.quick.get_or_init(start).clone()
    }

    /// Compiles a component, or gets its code from the cache, and links it. What was compiled
    /// before waits for nothing that is compiled now; and what waits to be compiled is not held
    /// meanwhile, but read again.
    pub(super) async fn link(
        &self,
        turns: &LoadQueue,
        (used_as, name): (Use, &str),
        (file, bytes): (&Candidate, Vec<u8>),
        reading: SemaphorePermit<'_>,
        account: &Account<'_>,
    ) -> Result<Arc<Linked>, LoadError> {
        let digest = compile::digest(&bytes);
        let surface = surface::read(&bytes)?;
        // Before anything is compiled.
        adapter::recognise(&surface.imports, &surface.exports)?;
        if let Some(linked) = self.linked(&digest, &surface, account).await? {
            return Ok(linked);
        }
        let length = bytes.len() as u64;
        drop((bytes, reading));
        let _named = Named::new(&self.now_compiling, name);
        let _permit = turns.compile(used_as, account.standing(), length).await?;
        // What makes way for it in the cache must not be what others are about to use.
        turns.others_have_read(account.standing()).await?;
        // A copy of it may have been compiled meanwhile.
        if let Some(linked) = self.linked(&digest, &surface, account).await? {
            return Ok(linked);
        }
        let bytes: Arc<[u8]> = read::component(&file.place, &file.path, length).await?.into();
        if compile::digest(&bytes) != digest {
            return Err(LoadError::Changing);
        }
        if let Some(quick) = self.quick(&digest) {
            let compiling =
                self.compiler.compile(&quick.engine, Arc::clone(&bytes), &digest, account);
            match compiling.await {
                Ok(code) => return self.linked_of(&quick, code, digest, surface, account),
                Err(error) => tracing::debug!(%error, "what compiles quickly does not know all"),
            }
        }
        let code = self.compiler.compile(&self.usual.engine, bytes, &digest, account).await?;
        self.linked_of(&self.usual, code, digest, surface, account)
    }

    /// Tells whether a component with this digest needs not be compiled.
    pub(super) fn is_compiled(&self, digest: &str) -> bool {
        self.known().get(digest).is_some_and(|linked| linked.strong_count() > 0)
            || self.compiler.has(&self.usual.engine, digest)
    }

    /// Keeps the code of a component from being evicted, as long as the returned value lives.
    pub(super) fn uses(&self, digest: &str, standing: Standing) -> Option<InUse> {
        self.compiler.uses(&self.usual.engine, digest, standing)
    }

    /// A component that needs not be compiled: it is in use already, or its code is kept.
    async fn linked(
        &self,
        digest: &Arc<str>,
        surface: &ComponentSurface,
        account: &Account<'_>,
    ) -> Result<Option<Arc<Linked>>, LoadError> {
        if let Some(linked) = self.known().get(digest).and_then(Weak::upgrade) {
            return Ok(Some(linked));
        }
        let engine = &self.usual.engine;
        let Some(code) = self.compiler.kept(engine, digest, account.standing()).await? else {
            return Ok(None);
        };
        self.linked_of(&self.usual, code, Arc::clone(digest), surface.clone(), account).map(Some)
    }

    fn linked_of(
        &self,
        with: &EngineLinker,
        code: CompiledCode,
        digest: Arc<str>,
        surface: ComponentSurface,
        account: &Account<'_>,
    ) -> Result<Arc<Linked>, LoadError> {
        account.map(code.bytes)?;
        let misfit = |error: wasmtime::Error| LoadError::Link(load_error::reason(&error));
        let Recognised { adapter, contract, offers } =
            adapter::recognise(&surface.imports, &surface.exports)?;
        let pre = with.linker.instantiate_pre(&code.component).map_err(misfit)?;
        let adapted = adapter.adapt(offers, &pre).map_err(misfit)?;
        let linked = Arc::new(Linked {
            engine: Arc::clone(&with.engine),
            digest: Arc::clone(&digest),
            contract,
            surface,
            offers,
            pre,
            adapted,
            _in_use: code.in_use,
        });
        let mut known = self.known();
        known.retain(|_, linked| linked.strong_count() > 0);
        known.insert(digest, Arc::downgrade(&linked));
        Ok(linked)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Arc<str>, Weak<Linked>>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::authority::Authority;
    use crate::capability::{Given, Shares, Values};
    use crate::instance::Instance;
    use crate::instance::call::CallSetup;
    use toolhost_core::limits::Limits;
    use toolhost_core::tool::{Meter, Need};
    use toolhost_policy::capability::{Grants, Kind};
    use toolhost_state::secret::SecretValue;

    /// Asks for the secret `KEY` as it is made, and whenever `now` is called.
    const ASKS: &str = r#"(component
        (import "toolhost:plugin/secrets@0.1.0" (instance $secrets
            (export "present" (func (param "name" string) (result bool)))))
        (core module $memory (memory (export "memory") 1) (data (i32.const 0) "KEY"))
        (core instance $memory (instantiate $memory))
        (core func $present
            (canon lower (func $secrets "present") (memory (core memory $memory "memory"))))
        (core module $main
            (import "host" "present" (func $present (param i32 i32) (result i32)))
            (global $early (mut i32) (i32.const 9))
            (func $start (global.set $early (call $present (i32.const 0) (i32.const 3))))
            (start $start)
            (func (export "early") (result i32) (global.get $early))
            (func (export "now") (result i32) (call $present (i32.const 0) (i32.const 3))))
        (core instance $main (instantiate $main
            (with "host" (instance (export "present" (func $present))))))
        (func (export "early") (result u32) (canon lift (core func $main "early")))
        (func (export "now") (result u32) (canon lift (core func $main "now"))))"#;

    /// The setup of a call that may use the secret `KEY`.
    fn setup(meter: &Arc<Meter>) -> CallSetup {
        let needs = vec![Need {
            kind: "secrets".to_owned(),
            value: r#"{"name": "KEY", "hosts": ["a.example"], "header": "x-key"}"#.to_owned(),
            tools: Vec::new(),
            reason: String::new(),
        }];
        let kind = Kind::of_key("secrets").expect("a kind");
        let mut grants = Grants::default();
        grants.add(kind, "KEY@a.example:header=x-key", None).expect("a grant");
        let value = SecretValue::new("s3cr3t-key".to_owned()).expect("a value");
        let values = Values { secrets: [("KEY".to_owned(), value)].into(), ..Values::default() };
        let (grants, values, shares) = (&grants, &values, &Shares::default());
        let given = Given { words: "p", grants, exclusive: &[], values, shares };
        let (authority, problems) = Authority::new(needs, &[], false, &given);
        assert_eq!(problems, [""; 0]);
        CallSetup {
            rights: authority.of_hooks(),
            meter: Arc::clone(meter),
            transfer_bytes_max: 1 << 20,
            ..CallSetup::none()
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn an_instance_is_made_before_its_call_is_known() {
        let engine = Engine::start(Arc::new(Limits::default()), 1).expect("an engine");
        let with = EngineLinker::new(Arc::new(engine)).expect("a linker");
        let bytes = wat::parse_str(ASKS).expect("valid WAT");
        let component = wasmtime::component::Component::new(&with.engine.wasmtime, bytes);
        let pre = with.linker.instantiate_pre(&component.expect("a component"));
        let mut instance = Instance::open(&with.engine, None).await.expect("a store");
        instance.instantiate(&pre.expect("what it imports")).await.expect("an instance");
        let meter = Arc::new(Meter::default());
        assert_eq!(meter.usage().memory_bytes, 0);
        instance.begin(setup(&meter));
        // What is there already counts for the call.
        assert!(meter.usage().memory_bytes >= 64 << 10, "{:?}", meter.usage());
        let exports = instance.exports().expect("made");
        let mut answers = Vec::new();
        for function in ["early", "now"] {
            let function = exports.get_typed_func::<(), (u32,)>(&mut instance, function);
            let called = function.expect("exported").call_async(&mut instance, ()).await;
            answers.push(called.expect("an answer").0);
        }
        // As long as there was no call, there was no authority.
        assert_eq!(answers, [0, 1]);
    }
}
