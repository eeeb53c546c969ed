//! What a plugin runs. It is there when the plugin was loaded; of a plugin that is published from a
//! record, it is loaded as soon as something of it is to run.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::OnceCell;

use super::Prepared;
use crate::adapter::GuestQuestion;
use crate::instance::Instance;
use crate::instance::call::CallSetup;
use crate::instance::script::GuestScript;
use crate::link::Linked;
use crate::load_error::LoadError;
use toolhost_core::tool::{CallError, Code};

/// A linked component, and the script it runs, if it is a runner.
pub(crate) struct Program {
    pub(crate) linked: Arc<Linked>,
    pub(crate) script: Option<GuestScript>,
}

/// The program of a plugin, and how it is loaded if it is not there yet.
pub(crate) struct LazyProgram {
    program: OnceCell<Arc<Program>>,
    recorded: Option<Box<dyn LoadLater>>,
}

/// Loads a program that is recorded.
pub(crate) trait LoadLater: Send + Sync {
    /// Loads it, for the plugin that it is of.
    fn load<'a>(
        &'a self,
        plugin: &'a Arc<Prepared>,
    ) -> BoxFuture<'a, Result<Arc<Program>, LoadError>>;
}

impl LazyProgram {
    pub(crate) fn loaded(program: Program) -> LazyProgram {
        LazyProgram { program: OnceCell::new_with(Some(Arc::new(program))), recorded: None }
    }

    pub(crate) fn recorded(later: impl LoadLater + 'static) -> LazyProgram {
        LazyProgram { program: OnceCell::new(), recorded: Some(Box::new(later)) }
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }
}

impl Program {
    /// Asks something of a fresh instance, which is dropped with the answer.
    ///
    /// # Errors
    /// If the guest was stopped, or crashed.
    ///
    /// # Cancel safety
    /// Dropping the future stops the guest.
    pub(crate) async fn ask<T>(
        &self,
        setup: CallSetup,
        question: GuestQuestion<T>,
    ) -> Result<T, CallError> {
        let Linked { engine, pre, .. } = &*self.linked;
        let opened = Instance::open(engine, self.script.clone()).await;
        let mut instance =
            opened.map_err(|error| CallError::new(Code::Internal, error.to_string()))?;
        // Code that a component runs as it is made has the authority of the call.
        instance.begin(setup);
        let answer = match instance.instantiate(pre).await {
            Ok(()) => question(&mut instance).await,
            Err(error) => Err(error),
        };
        instance.ended(answer)
    }
}

impl Prepared {
    /// The plugin's program, loaded now if it is not there yet. Whoever comes meanwhile waits for the
    /// same load.
    ///
    /// # Errors
    /// If it cannot be loaded any more, or its bytes are not those that were recorded.
    ///
    /// # Cancel safety
    /// Dropping the future stops the load, unless others wait for it.
    pub(crate) async fn program(self: &Arc<Self>) -> Result<Arc<Program>, LoadError> {
        let load = || async {
            match &self.program.recorded {
                Some(later) => later.load(self).await,
                None => Err(LoadError::Internal("a plugin without a program".to_owned())),
            }
        };
        self.program.program.get_or_try_init(load).await.cloned()
    }
}
