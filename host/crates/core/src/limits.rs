//! Every bound of the host: its default, its unit, its reason, and how far an operator may
//! raise it.
//!
//! The table below is the only place with default numbers. `[limits]` in `toolhost.toml` sets
//! values by the names used here; sizes are in bytes, times are durations.

use std::time::Duration;

use bytesize::ByteSize;
use thiserror::Error;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Tells how the values of a limit are written: a count, a size in bytes, or a duration.
trait Value: Copy + PartialOrd {
    const SHAPE: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn show(self) -> String;
    /// The stricter of two.
    fn narrowed(self, other: Self) -> Self {
        if other < self { other } else { self }
    }
}

/// A number of things, such as tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub usize);

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The size as a length of something in memory.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A size in bytes that may be left to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryShare {
    /// At most so much, and half of the machine's memory.
    Bytes(Bytes),
    /// Half of the machine's memory, or of the container's if that is less.
    Half,
}

/// A time that protects the host: the longer, the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guard(pub Duration);

impl Value for Count {
    const SHAPE: &'static str = "a whole number such as `16`";

    fn parse(text: &str) -> Option<Count> {
        text.parse().ok().map(Count)
    }

    fn show(self) -> String {
        self.0.to_string()
    }
}

impl Value for Bytes {
    const SHAPE: &'static str = "a number of bytes or a text such as \"64 MiB\"";

    fn parse(text: &str) -> Option<Bytes> {
        text.parse::<ByteSize>().ok().map(|size| Bytes(size.as_u64()))
    }

    fn show(self) -> String {
        ByteSize(self.0).display().iec().to_string()
    }
}

impl Value for Duration {
    const SHAPE: &'static str = "a duration such as \"5s\" or \"250ms\"";

    fn parse(text: &str) -> Option<Duration> {
        humantime::parse_duration(text).ok()
    }

    fn show(self) -> String {
        humantime::format_duration(self).to_string()
    }
}

impl Value for MemoryShare {
    const SHAPE: &'static str = "`half`, a number of bytes or a text such as \"64 MiB\"";

    fn parse(text: &str) -> Option<MemoryShare> {
        if text == "half" {
            Some(MemoryShare::Half)
        } else {
            Bytes::parse(text).map(MemoryShare::Bytes)
        }
    }

    fn show(self) -> String {
        match self {
            MemoryShare::Bytes(bytes) => bytes.show(),
            MemoryShare::Half => "half".to_owned(),
        }
    }
}

impl Value for Guard {
    const SHAPE: &'static str = Duration::SHAPE;

    fn parse(text: &str) -> Option<Guard> {
        Duration::parse(text).map(Guard)
    }

    fn show(self) -> String {
        self.0.show()
    }

    fn narrowed(self, other: Guard) -> Guard {
        self.max(other)
    }
}

/// Why a limit cannot be set.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LimitError {
    /// There is no limit of this name.
    #[error("there is no limit `{0}`")]
    Unknown(String),
    /// The text is not a value of the limit's kind.
    #[error("`{name}` is {given}, which is not {shape}")]
    Shape {
        /// The limit.
        name: &'static str,
        /// What was given.
        given: String,
        /// What is allowed, in words.
        shape: &'static str,
    },
    /// The value lies outside of what an operator may choose.
    #[error("`{name}` is {given}; allowed is {least} to {most}")]
    Range {
        /// The limit.
        name: &'static str,
        /// What was given.
        given: String,
        /// The smallest value allowed.
        least: String,
        /// The largest value allowed.
        most: String,
    },
}

/// One row of the table, for documentation and listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRow {
    /// The limit's name, as in `toolhost.toml`.
    pub name: &'static str,
    /// What it bounds.
    pub meaning: &'static str,
    /// The value in force.
    pub value: String,
    /// The smallest value an operator may choose.
    pub least: String,
    /// The largest value an operator may choose.
    pub most: String,
}

macro_rules! limits {
    ($( $(#[doc = $meaning:literal])+ $name:ident: $kind:ty = $default:expr, $least:expr => $most:expr; )*) => {
        /// The bounds of one host. [`Limits::default`] is what an operator gets who says nothing.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits {
            $( $(#[doc = $meaning])+ pub $name: $kind, )*
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $( $name: $default, )* }
            }
        }

        impl Limits {
            /// The names of all limits, in the order of the table.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($name) ),*];

            /// Sets the limit `name` from its text, as it stands in `toolhost.toml`.
            ///
            /// # Errors
            /// If there is no such limit, the text is not of its kind, or the value lies
            /// outside of what an operator may choose.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), LimitError> {
                match name {
                    $( stringify!($name) => {
                        self.$name = parse(stringify!($name), text, $least, $most)?;
                        Ok(())
                    } )*
                    _ => Err(LimitError::Unknown(name.to_owned())),
                }
            }

            /// Makes every limit as strict as it is in `other`, and none less strict.
            pub fn narrow(&mut self, other: &Limits) {
                $( self.$name = self.$name.narrowed(other.$name); )*
            }

            /// Every limit with its value in force.
            pub fn rows(&self) -> Vec<LimitRow> {
                vec![$( LimitRow {
                    name: stringify!($name),
                    meaning: concat!($($meaning),+).trim(),
                    value: self.$name.show(),
                    least: ($least).show(),
                    most: ($most).show(),
                } ),*]
            }
        }
    };
}

limits! {
    /// Wall time of one call, from its permit to its output; then the call is stopped.
    wall_time_max: Duration = seconds(60), Duration::from_millis(1) => seconds(600);
    /// Time of a plugin's `register`: while it has a core, and while it sleeps. Waiting for a turn
    /// or a core is no error.
    register_time_max: Duration = seconds(5), Duration::from_millis(1) => seconds(60);
    /// Wall time of a tool's `check`.
    check_time_max: Duration = seconds(2), Duration::from_millis(1) => seconds(60);
    /// Wall time of a tool's `describe`; then its definition stays as registered.
    describe_time_max: Duration = seconds(2), Duration::from_millis(1) => seconds(60);
    /// Wall time of one hook.
    hook_time_max: Duration = seconds(5), Duration::from_millis(1) => seconds(60);
    /// How long a human may think about a question; then the answer is no.
    approval_time_max: Duration = seconds(60), Duration::from_millis(1) => seconds(600);
    /// Calls of one batch at once.
    batch_calls_max: Count = Count(8), Count(1) => Count(128);
    /// Calls of one batch file.
    batch_lines_max: Count = Count(1_000), Count(1) => Count(100_000);
    /// Wall time of a whole batch.
    batch_time_max: Duration = seconds(420), seconds(1) => seconds(3_600);
    /// Characters of one result that a session shows; a larger one is kept and previewed.
    result_chars_max: Count = Count(100_000), Count(1_000) => Count(10_000_000);
    /// Characters of all results of one turn that a session shows, as far as keeping helps; over MCP
    /// only where it is set.
    turn_chars_max: Count = Count(200_000), Count(2_000) => Count(20_000_000);
    /// Results that one session keeps, all together; the oldest make way for new ones.
    results_bytes_max: Bytes = Bytes(32 * MIB), Bytes(0) => Bytes(GIB);
    /// Memory of one guest, with what the host holds for its handles: a Python interpreter needs
    /// 12 MiB, real work ten times that.
    memory_bytes_max: Bytes = Bytes(256 * MIB), Bytes(MIB) => Bytes(4 * GIB);
    /// Memory of all guests together, tables and handles included, and of processes that check values;
    /// `half` is half of the machine's memory, or
    /// of its container's if that is less, and never exceeded.
    memory_all_bytes_max: MemoryShare = MemoryShare::Half, MemoryShare::Bytes(Bytes(MIB)) => MemoryShare::Half;
    /// Elements in one table of a guest, which count as memory with eight bytes each; JavaScript
    /// components have 7,690.
    table_elements_max: Count = Count(20_000), Count(100) => Count(1_000_000);
    /// Stack of a guest in WebAssembly code.
    stack_bytes_max: Bytes = Bytes(512 * KIB), Bytes(64 * KIB) => Bytes(MIB);
    /// Arguments of one call, as JSON text.
    arguments_bytes_max: Bytes = Bytes(MIB), Bytes(KIB) => Bytes(64 * MIB);
    /// Output of one call, all blocks and extensions together.
    output_bytes_max: Bytes = Bytes(8 * MIB), Bytes(KIB) => Bytes(64 * MIB);
    /// Text of one error that a guest returns; what is longer is cut.
    error_bytes_max: Bytes = Bytes(4 * KIB), Bytes(256) => Bytes(64 * KIB);
    /// What one plugin's `register` may return, all tools together.
    registration_bytes_max: Bytes = Bytes(8 * MIB), Bytes(64 * KIB) => Bytes(256 * MIB);
    /// Tools of one registration: more than a model can choose among.
    tools_max: Count = Count(256), Count(1) => Count(5_000);
    /// Description of one tool.
    description_bytes_max: Bytes = Bytes(8 * KIB), Bytes(256) => Bytes(64 * KIB);
    /// One JSON Schema as text.
    schema_bytes_max: Bytes = Bytes(64 * KIB), Bytes(KIB) => Bytes(64 * KIB);
    /// Levels of nesting in one JSON Schema.
    schema_depth_max: Count = Count(32), Count(4) => Count(32);
    /// One `pattern` in a JSON Schema.
    schema_pattern_bytes_max: Bytes = Bytes(4 * KIB), Bytes(16) => Bytes(4 * KIB);
    /// Memory of one JSON Schema, compiled with every `$ref` expanded.
    schema_expanded_bytes_max: Bytes = Bytes(12 * MIB), Bytes(4 * KIB) => Bytes(64 * MIB);
    /// Memory of all patterns of one JSON Schema, compiled.
    schema_patterns_bytes_max: Bytes = Bytes(4 * MIB), Bytes(4 * KIB) => Bytes(64 * MIB);
    /// Memory of all schemas of one registration, compiled, with their patterns.
    schemas_bytes_max: Bytes = Bytes(32 * MIB), Bytes(64 * KIB) => Bytes(GIB);
    /// CPU time for compiling all schemas of one registration.
    schemas_time_max: Duration = seconds(5), Duration::from_millis(1) => seconds(60);
    /// CPU time for checking one value against a schema in a process of its own, which happens
    /// where it can take more than some milliseconds.
    schema_check_time_max: Duration = seconds(10), seconds(1) => seconds(600);
    /// Memory of such a process, and at most half of `memory_all_bytes_max`, in which it counts as long
    /// as the process lives.
    schema_check_memory_bytes_max: Bytes = Bytes(512 * MIB), Bytes(128 * MIB) => Bytes(8 * GIB);
    /// A component file: the largest language runtimes are 20 MiB.
    component_bytes_max: Bytes = Bytes(64 * MIB), Bytes(64 * KIB) => Bytes(GIB);
    /// CPU time for compiling one component; the largest language runtimes take 10 s.
    compile_cpu_time_max: Duration = seconds(60), seconds(1) => seconds(600);
    /// Wall time for compiling one component, when others have the cores.
    compile_time_max: Duration = seconds(300), seconds(1) => seconds(3_600);
    /// Memory for compiling one component.
    compile_memory_bytes_max: Bytes = Bytes(2 * GIB), Bytes(256 * MIB) => Bytes(64 * GIB);
    /// Code of one component, compiled: that of the largest language runtimes has 40 MiB.
    code_bytes_max: Bytes = Bytes(128 * MIB), Bytes(MIB) => Bytes(4 * GIB);
    /// All compiled components that are kept; those that were not used for longest make way.
    cache_bytes_max: Bytes = Bytes(2 * GIB), Bytes(0) => Bytes(64 * GIB);
    /// The same for components of projects that nobody has trusted, which have a cache of their own.
    untrusted_cache_bytes_max: Bytes = Bytes(GIB), Bytes(0) => Bytes(64 * GIB);
    /// Files, scripts and registrations of all plugins of one folder, in a project that nobody has
    /// trusted: their texts, and the memory of their schemas as they were read.
    untrusted_bytes_max: Bytes = Bytes(256 * MIB), Bytes(64 * KIB) => Bytes(16 * GIB);
    /// Code of all plugins of such a folder, compiled.
    untrusted_code_bytes_max: Bytes = Bytes(512 * MIB), Bytes(64 * KIB) => Bytes(64 * GIB);
    /// CPU time for compiling all plugins of such a folder, as often as a host starts.
    untrusted_compile_time_max: Duration = seconds(300), seconds(1) => seconds(3_600);
    /// What the plugins of such a folder take to register, together, as far as one takes more than a
    /// fifth of `register_time_max`; then a twenty-fifth of that is left to each, until 25 were stopped.
    untrusted_register_time_max: Duration = seconds(10), Duration::from_millis(1) => seconds(600);
    /// Memory of all schemas of such a folder's plugins, compiled, with their patterns.
    untrusted_schemas_bytes_max: Bytes = Bytes(128 * MIB), Bytes(64 * KIB) => Bytes(4 * GIB);
    /// CPU time for compiling all schemas of such a folder's plugins.
    untrusted_schemas_time_max: Duration = seconds(20), Duration::from_millis(1) => seconds(600);
    /// Log lines of one call; what is over is dropped and counted.
    log_lines_max: Count = Count(1_000), Count(0) => Count(100_000);
    /// Log text of one call; what is over is dropped and counted.
    log_bytes_max: Bytes = Bytes(256 * KIB), Bytes(0) => Bytes(16 * MIB);
    /// Progress reports a second that are passed on.
    progress_per_second_max: Count = Count(20), Count(0) => Count(1_000);
    /// Calls of one guest call into toolhost's own interfaces.
    host_calls_max: Count = Count(100_000), Count(100) => Count(100_000_000);
    /// Body of one HTTP request that a guest makes.
    http_request_bytes_max: Bytes = Bytes(16 * MIB), Bytes(0) => Bytes(256 * MIB);
    /// Body of one HTTP response; the request fails where it is longer.
    http_response_bytes_max: Bytes = Bytes(16 * MIB), Bytes(0) => Bytes(256 * MIB);
    /// Status line and fields of one HTTP response, and URI and fields of one request.
    http_head_bytes_max: Bytes = Bytes(64 * KIB), Bytes(8 * KIB) => Bytes(MIB);
    /// Finding a server's address, reaching it and agreeing on TLS, all together.
    http_connect_time_max: Duration = seconds(10), Duration::from_millis(1) => seconds(60);
    /// HTTP requests of one call.
    http_requests_max: Count = Count(1_000), Count(0) => Count(100_000);
    /// HTTP requests of one call at once.
    http_requests_at_once_max: Count = Count(16), Count(1) => Count(256);
    /// Entries of one plugin's store, on each side of kinds that are mutually exclusive.
    kv_entries_max: Count = Count(10_000), Count(1) => Count(1_000_000);
    /// One value in a plugin's store.
    kv_value_bytes_max: Bytes = Bytes(MIB), Bytes(16) => Bytes(16 * MIB);
    /// All of one plugin's store on each side, keys and values together.
    kv_bytes_max: Bytes = Bytes(64 * MIB), Bytes(KIB) => Bytes(4 * GIB);
    /// Builds that are kept of each plugin, to serve when a newer one is broken or waits.
    kept_builds_max: Count = Count(5), Count(1) => Count(100);
    /// All kept builds of all plugins; the oldest that serve nothing make way.
    kept_builds_bytes_max: Bytes = Bytes(GIB), Bytes(0) => Bytes(64 * GIB);
    /// Refusals of one call that its outcome names.
    refusals_max: Count = Count(16), Count(0) => Count(1_000);
    /// Opens of files of one plugin that never came back, as on a dead network disk; then it
    /// opens no more.
    stuck_opens_max: Count = Count(16), Count(1) => Count(128);
    /// Tail of stderr kept for the log when a guest fails.
    stderr_bytes_max: Bytes = Bytes(16 * KIB), Bytes(0) => Bytes(MIB);
    /// Calls at once for each core of the machine; half of them at most of projects that nobody has
    /// trusted.
    calls_per_core_max: Count = Count(32), Count(1) => Count(128);
    /// Calls at once into one source.
    calls_per_source_max: Count = Count(16), Count(1) => Count(1_024);
    /// Calls of one source that wait for their turn; one more is refused as `busy` at once.
    waiting_per_source_max: Count = Count(256), Count(0) => Count(1_024);
    /// Calls that wait for their turn in all; beyond, the newest of the source with the most
    /// waiting makes way for one of a source with fewer.
    waiting_max: Count = Count(1_024), Count(0) => Count(16_384);
    /// How long a call waits for its turn, unless its own time is shorter; then it is refused as
    /// `busy`.
    permit_wait_max: Duration = seconds(60), Duration::from_millis(1) => seconds(600);
    /// Crashes of a plugin's calls, and calls stopped by limits of its own, that bring it into
    /// quarantine.
    quarantine_failures_max: Count = Count(3), Count(1) => Count(100);
    /// Within what time they do so.
    quarantine_window: Guard = Guard(seconds(60)), Guard(seconds(1)) => Guard(seconds(3_600));
    /// How long a quarantine lasts; then one call is let through, to see how it ends.
    quarantine_time: Guard = Guard(seconds(60)), Guard(Duration::from_millis(100)) => Guard(seconds(3_600));
    /// How long it lasts at most, since each time that call fails, it lasts twice as long.
    quarantine_time_max: Guard = Guard(seconds(600)), Guard(Duration::from_millis(100)) => Guard(seconds(86_400));
    /// How long an MCP client's request waits for plugins to load; then what is there counts.
    list_wait_max: Duration = seconds(10), Duration::from_millis(1) => seconds(60);
    /// Requests of one MCP client that are not answered yet; one more is refused as `busy` at once.
    requests_max: Count = Count(1_024), Count(16) => Count(65_536);
    /// What these take in memory together; what does not fit is refused as `busy`.
    requests_bytes_max: Bytes = Bytes(64 * MIB), Bytes(MIB) => Bytes(4 * GIB);
    /// Answers that wait until an MCP client reads them; beyond half of it no call begins, and an
    /// answer that does not fit is an error.
    answers_bytes_max: Bytes = Bytes(64 * MIB), Bytes(64 * KIB) => Bytes(4 * GIB);
    /// Events that wait for the audit log to be written; more are counted in a `gap` record.
    audit_queue_max: Count = Count(16_384), Count(1) => Count(1_000_000);
    /// One file of the audit log; then the next begins.
    audit_file_bytes_max: Bytes = Bytes(16 * MIB), Bytes(64 * KIB) => Bytes(GIB);
    /// All files of the audit log; the oldest make way for new ones.
    audit_bytes_max: Bytes = Bytes(256 * MIB), Bytes(64 * KIB) => Bytes(64 * GIB);
    /// Kinds of authority in use that the audit log names of one call.
    audit_used_max: Count = Count(64), Count(0) => Count(1_000);
    /// How long calls of a plugin that was replaced or removed may go on.
    drain_time_max: Duration = seconds(30), Duration::from_millis(1) => seconds(600);
    /// All examples of a changed plugin together, before it replaces the build before.
    examples_time_max: Duration = seconds(10), Duration::from_millis(1) => seconds(600);
    /// All modules of one script together.
    script_bytes_max: Bytes = Bytes(MIB), Bytes(1) => Bytes(64 * MIB);
    /// Modules of one script.
    script_files_max: Count = Count(200), Count(1) => Count(5_000);
    /// What is kept in memory of one script, compiled, from call to call; it counts in
    /// `memory_all_bytes_max`. Without it, each call compiles the script anew.
    script_kept_bytes_max: Bytes = Bytes(16 * MIB), Bytes(0) => Bytes(256 * MIB);
    /// Files looked at in one plugins folder.
    plugin_files_max: Count = Count(10_000), Count(1) => Count(100_000);
}

fn parse<V: Value>(name: &'static str, text: &str, least: V, most: V) -> Result<V, LimitError> {
    let given = text.to_owned();
    let value =
        V::parse(text).ok_or(LimitError::Shape { name, given: given.clone(), shape: V::SHAPE })?;
    if value < least || value > most {
        return Err(LimitError::Range { name, given, least: least.show(), most: most.show() });
    }
    Ok(value)
}

impl Limits {
    /// The limit of all guests together: where it refuses memory, the guest is not to blame.
    pub const MEMORY_ALL: &'static str = "memory_all_bytes_max";
    /// The limit on the time of one check against a schema.
    pub const SCHEMA_CHECK_TIME: &'static str = "schema_check_time_max";
    /// The limit on the memory of one check against a schema.
    pub const SCHEMA_CHECK_MEMORY: &'static str = "schema_check_memory_bytes_max";
    /// The limit on what results of one turn show, which over MCP counts where it is configured.
    pub const TURN_CHARS: &'static str = "turn_chars_max";
    /// The limit on the time of a call.
    pub const WALL_TIME: &'static str = "wall_time_max";

    /// How many bytes a guest may hand over in one call into the host, the output included.
    ///
    /// It lies above the bounds of the output and of the two values of a swap, so that what is
    /// too large meets their messages first.
    pub fn transfer_bytes_max(&self) -> u64 {
        self.output_bytes_max.0 + (2 * self.kv_value_bytes_max.0 + MIB).max(8 * MIB)
    }

    /// The longest message of an MCP client, and line of a batch.
    ///
    /// It lies above the bound of the arguments, so that large arguments meet that bound's
    /// message first: a message that is too long cannot even be answered.
    pub fn message_bytes_max(&self) -> usize {
        Bytes(2 * self.arguments_bytes_max.0.max(8 * MIB)).as_usize()
    }
}

#[cfg(test)]
mod tests;
