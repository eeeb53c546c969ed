//! What one tool may use: worked out once, when its plugin is granted something, and shared by
//! all its calls. It knows no kind of authority in particular.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use wasmtime_wasi::WasiCtxBuilder;

use toolhost_core::tool::Held;
use toolhost_policy::capability::{Exclusive, Kind, Sides};

/// What one tool may use of one kind of authority.
pub(super) trait Right: Any + fmt::Debug + Send + Sync {
    /// The kind.
    fn kind(&self) -> Kind;

    /// Tells whether it may use anything at all.
    fn is_held(&self) -> bool;

    /// Says what it may use to whoever decides by that.
    fn tell(&self, _held: &mut Held) {}

    /// Puts into a context of WASI what that has of it.
    ///
    /// # Errors
    /// If what was granted cannot be had any more.
    fn open(&self, _builder: &mut WasiCtxBuilder) -> Result<(), NoLongerThere> {
        Ok(())
    }
}

/// What was granted, and cannot be had any more.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what} is gone")]
pub(super) struct NoLongerThere {
    pub(super) what: &'static str,
    /// As the system says it, for the log.
    pub(super) reason: String,
}

/// What one tool may use besides its own memory; by default nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Rights {
    /// At most one of each kind.
    rights: Vec<Arc<dyn Right>>,
    /// Kinds that are asked for, granted or not.
    asks: Vec<Kind>,
    exclusive: Vec<Exclusive>,
    /// What commands call the plugin.
    words: Arc<str>,
}

impl Rights {
    /// The rights of a tool of the plugin that commands call `words`.
    pub(super) fn new(
        words: &Arc<str>,
        exclusive: &[Exclusive],
        asks: Vec<Kind>,
        rights: Vec<Arc<dyn Right>>,
    ) -> Rights {
        Rights { rights, asks, exclusive: exclusive.to_vec(), words: Arc::clone(words) }
    }

    /// The right of one type; each kind has a type of its own.
    pub(super) fn get<T: Right + Default>(&self) -> Arc<T> {
        let any = |right: &Arc<dyn Right>| Arc::clone(right) as Arc<dyn Any + Send + Sync>;
        let found = self.rights.iter().find(|right| (&***right as &dyn Any).is::<T>());
        found.and_then(|right| any(right).downcast().ok()).unwrap_or_default()
    }

    /// Has this right in place of the one of its kind.
    pub(super) fn replace(&mut self, right: Arc<dyn Right>) {
        self.rights.retain(|known| known.kind() != right.kind());
        self.rights.push(right);
    }

    /// Tells whether a kind is asked for, granted or not.
    pub(super) fn asks(&self, kind: Kind) -> bool {
        self.asks.contains(&kind)
    }

    /// What commands call the plugin.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// The sides of a call with these rights, of which it has touched none.
    pub(super) fn sides(&self) -> Sides {
        let held = self.rights.iter().filter(|right| right.is_held());
        let held: Vec<Kind> = held.map(|right| right.kind()).collect();
        Sides::new(&self.exclusive, &held)
    }

    /// What is held, for whoever decides by that.
    pub(super) fn held(&self) -> Held {
        let mut held = Held::default();
        self.rights.iter().for_each(|right| right.tell(&mut held));
        held
    }

    /// Puts into a context of WASI what that has of them.
    ///
    /// # Errors
    /// If what was granted cannot be had any more.
    pub(super) fn open(&self, builder: &mut WasiCtxBuilder) -> Result<(), NoLongerThere> {
        self.rights.iter().try_for_each(|right| right.open(builder))
    }
}
