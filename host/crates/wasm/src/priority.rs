//! Which threads have a core first. On Linux this is of a thread; elsewhere it would be of the whole
//! process, so nothing is done there.

/// For threads that are to run only where no other of this process wants to: the kernel counts a core
/// that runs such a thread as one that is free. Where it does not know that, they are nicer at least.
pub(super) fn be_idle() {
    #[cfg(target_os = "linux")]
    if let Err(error) = linux::be_idle().or_else(|_| linux::be_nicer()) {
        warn_once(&error);
    }
}

/// For threads that get their share, if a small one: others go first, and such a thread leaves its
/// core as soon as another has woken.
pub(super) fn be_nicer() {
    #[cfg(target_os = "linux")]
    if let Err(error) = linux::be_nicer() {
        warn_once(&error);
    }
}

#[cfg(target_os = "linux")]
fn warn_once(error: &std::io::Error) {
    static WARNED: std::sync::Once = std::sync::Once::new();
    WARNED.call_once(|| tracing::warn!(%error, "long calls have the priority of short ones"));
}

/// For a thread that has little to do, and on time: it waits for none that has more to do.
pub(super) fn be_prompt() {
    #[cfg(target_os = "linux")]
    if let Err(error) = linux::be_prompt() {
        tracing::debug!(%error, "guests yield when the kernel comes by");
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{Error, Result};
    use std::time::Duration;

    use rustix::process::{getpriority_process, setpriority_process};

    /// By how much the threads of long guests are nicer than others: a tenth of the weight.
    const NICER_BY: i32 = 10;
    /// For how long a thread is protected from others that have woken: the least there is. Without,
    /// it would be some milliseconds, also against threads of higher priority; and who asks for less
    /// than the one that has the core is let in sooner.
    const SLICE: Duration = Duration::from_micros(100);

    pub(super) fn be_nicer() -> Result<()> {
        let nice = (getpriority_process(None)? + NICER_BY).min(19);
        // Kernels before 3.14 do not know it, and those before 6.12 no slices.
        set(libc::SCHED_OTHER, nice).or_else(|_| Ok(setpriority_process(None, nice)?))
    }

    pub(super) fn be_prompt() -> Result<()> {
        // Whoever runs all of toolhost by another rule knows better.
        #[expect(unsafe_code, reason = "no crate has this system call")]
        // SAFETY: it has no arguments but a number.
        let policy = unsafe { libc::sched_getscheduler(0) };
        if policy != libc::SCHED_OTHER {
            return Ok(());
        }
        set(libc::SCHED_OTHER, getpriority_process(None)?)
    }

    pub(super) fn be_idle() -> Result<()> {
        set(libc::SCHED_IDLE, 0)
    }

    #[expect(unsafe_code, reason = "no crate has this system call with a slice")]
    fn set(policy: i32, nice: i32) -> Result<()> {
        /// `struct sched_attr` of the kernel, in its first version.
        #[repr(C)]
        struct Attributes {
            size: u32,
            policy: u32,
            flags: u64,
            nice: i32,
            priority: u32,
            runtime: u64,
            deadline: u64,
            period: u64,
        }
        let attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            policy: policy.cast_unsigned(),
            flags: 0,
            nice,
            priority: 0,
            runtime: SLICE.as_nanos() as u64,
            deadline: 0,
            period: 0,
        };
        // SAFETY: the kernel reads as many bytes as `size` says, which is all of the structure.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }
}
