//! What belongs to one call, besides the memory of the instance that runs it: who may do what until
//! when, where it is counted, and what the call has come to.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::component::ResourceTable;
use wasmtime_wasi::WasiCtx;

use super::log::GuestLog;
use super::progress::GuestProgress;
use super::wasi::{StderrTail, base, context};
use crate::call_log::CallLog;
use crate::clock::Running;
use crate::engine::Engine;
use crate::memory::GuestMemory;
use crate::redaction::Redaction;
use crate::rights::{NoLongerThere, Rights};
use toolhost_core::limits::Limits;
use toolhost_core::tool::{Meter, ProgressSink};

/// What is known of a call before it begins.
pub(crate) struct CallSetup {
    /// The id of its plugin, for logs.
    pub(crate) plugin: Arc<str>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) redaction: Arc<Redaction>,
    pub(crate) meter: Arc<Meter>,
    /// Who hears of progress, if anyone.
    pub(crate) progress: Option<ProgressSink>,
    /// The JSON text that a tool is called with, if it is one that is called.
    pub(crate) arguments: Option<Arc<str>>,
    /// When it is stopped, if its caller says so.
    pub(crate) deadline: Option<Instant>,
    /// What the guest may hand over in one go, its result included.
    pub(crate) transfer_bytes_max: u64,
    /// It is probed: all that it tries is remembered.
    pub(crate) is_probed: bool,
    /// It runs `register`.
    pub(crate) registers: bool,
}

impl CallSetup {
    /// Of no call: nothing may be done.
    pub(crate) fn none() -> CallSetup {
        CallSetup {
            plugin: Arc::default(),
            rights: Arc::default(),
            redaction: Arc::default(),
            meter: Arc::default(),
            progress: None,
            arguments: None,
            deadline: None,
            transfer_bytes_max: 0,
            is_probed: false,
            registers: false,
        }
    }
}

/// The state of one call.
pub(crate) struct CallState {
    pub(crate) meter: Arc<Meter>,
    pub(crate) call_log: Arc<CallLog>,
    pub(super) lines: GuestLog,
    pub(super) progress: GuestProgress,
    pub(super) stderr: StderrTail,
    /// It runs `register`.
    pub(super) registers: bool,
    pub(super) transfer_bytes_max: u64,
    arguments: Option<Arc<str>>,
    deadline: Option<Instant>,
    is_probed: bool,
    /// Made on first use.
    wasi: Option<WasiCtx>,
    pub(super) no_longer_there: Option<NoLongerThere>,
    /// What kinds of authority keep of the call; at most one of each type.
    parts: Vec<Box<dyn Any + Send>>,
    _clock: Running,
}

/// What a kind of authority keeps of one call, made when the guest first asks for anything of it.
pub(crate) trait CallPart: Any + Send {
    fn new(call: &CallBasics<'_>) -> Self;
}

/// What a part of a call is made of.
pub(crate) struct CallBasics<'a> {
    pub(crate) call_log: &'a Arc<CallLog>,
    pub(crate) memory: &'a Arc<GuestMemory>,
    pub(crate) limits: &'a Limits,
    pub(crate) arguments: Option<&'a str>,
    pub(crate) is_probed: bool,
}

/// A part of a call, and what stands beside it.
pub(crate) struct PartView<'a, P> {
    pub(crate) part: &'a mut P,
    pub(crate) table: &'a mut ResourceTable,
    pub(crate) call_log: &'a Arc<CallLog>,
    pub(crate) memory: &'a Arc<GuestMemory>,
}

impl CallState {
    pub(super) fn new(engine: &Engine, setup: CallSetup) -> CallState {
        let CallSetup { plugin, rights, redaction, meter, progress, arguments, deadline, .. } =
            setup;
        let limits = &engine.limits;
        CallState {
            call_log: CallLog::new(&plugin, rights, &redaction, &meter, limits),
            meter,
            lines: GuestLog::new(&plugin, limits),
            progress: GuestProgress::new(progress, limits),
            stderr: StderrTail::new(limits.stderr_bytes_max.as_usize()),
            registers: setup.registers,
            transfer_bytes_max: setup.transfer_bytes_max,
            arguments,
            deadline,
            is_probed: setup.is_probed,
            wasi: None,
            no_longer_there: None,
            parts: Vec::new(),
            _clock: engine.run_clock(),
        }
    }

    /// How long it may take at most from now on; nothing if its caller has not said.
    pub(crate) fn time_left(&self) -> Duration {
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        self.deadline.map(left).unwrap_or_default()
    }

    /// Its context of WASI.
    pub(super) fn wasi(&mut self) -> &mut WasiCtx {
        let CallState { wasi, stderr, call_log, no_longer_there, .. } = self;
        open(wasi, stderr, &call_log.rights, no_longer_there)
    }

    pub(super) fn part<'a, P: CallPart>(
        &'a mut self,
        memory: &'a Arc<GuestMemory>,
        limits: &Limits,
        table: &'a mut ResourceTable,
    ) -> PartView<'a, P> {
        let place = self.place_of::<P>(memory, limits);
        let part = self.parts[place].downcast_mut().expect("the place is one of this type");
        PartView { part, table, call_log: &self.call_log, memory }
    }

    pub(super) fn part_and_wasi<'a, P: CallPart>(
        &'a mut self,
        memory: &'a Arc<GuestMemory>,
        limits: &Limits,
        table: &'a mut ResourceTable,
    ) -> (PartView<'a, P>, &'a mut WasiCtx, Option<&'a NoLongerThere>) {
        let place = self.place_of::<P>(memory, limits);
        let CallState { parts, wasi, stderr, call_log, no_longer_there, .. } = self;
        let wasi = open(wasi, stderr, &call_log.rights, no_longer_there);
        let part = parts[place].downcast_mut().expect("the place is one of this type");
        (PartView { part, table, call_log, memory }, wasi, no_longer_there.as_ref())
    }

    /// The place of a part, which is made if it is not there yet.
    fn place_of<P: CallPart>(&mut self, memory: &Arc<GuestMemory>, limits: &Limits) -> usize {
        if let Some(place) = self.parts.iter().position(|part| (**part).is::<P>()) {
            return place;
        }
        let part = P::new(&CallBasics {
            call_log: &self.call_log,
            memory,
            limits,
            arguments: self.arguments.as_deref(),
            is_probed: self.is_probed,
        });
        self.parts.push(Box::new(part));
        self.parts.len() - 1
    }
}

/// The context of WASI, made now if it is not there yet: without what was granted, if that cannot be
/// had any more.
fn open<'a>(
    wasi: &'a mut Option<WasiCtx>,
    stderr: &StderrTail,
    rights: &Rights,
    no_longer_there: &mut Option<NoLongerThere>,
) -> &'a mut WasiCtx {
    wasi.get_or_insert_with(|| {
        context(stderr, rights).unwrap_or_else(|error| {
            *no_longer_there = Some(error);
            base(stderr).build()
        })
    })
}
