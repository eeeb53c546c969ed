//! What is fuzzed: each target takes any bytes, and fails only by a panic. The ordinary tests run
//! them on the corpus and on seeded mutations of it; `make fuzz` runs them under libFuzzer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use toolhost_core::json::{self, Size};
use toolhost_core::limits::{Bytes, Count, Limits};
use toolhost_core::text;
use toolhost_core::tool::{Call, PluginAddress, PluginId};
use toolhost_egress::{Egress, EgressSettings};
use toolhost_kernel::availability::Availability;
use toolhost_kernel::dispatch::Dispatch;
use toolhost_kernel::quarantine::Quarantine;
use toolhost_kernel::registry::{Owners, Registry};
use toolhost_kernel::session::Session;
use toolhost_policy::capability::{Grants, Kind};
use toolhost_policy::diff::{Surface, differences};
use toolhost_policy::review::{Texts, suspicions};
use toolhost_schema::arguments;
use toolhost_schema::schema::{self, Definition, Format, QUICK_WORK_MAX, Schema};
use toolhost_state::audit::{self, Audit};
use toolhost_state::config::{self, Config, IdShare};
use toolhost_state::trust_store;
use toolhost_wasm::{Candidate, Loader};

use super::component::from_wat;

/// A target: its name, which is also that of its corpus, and what it does.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// Every target.
pub(crate) const TARGETS: [Target; 7] = [
    ("component", component),
    ("registration", registration),
    ("configuration", configuration),
    ("lock", lock_file),
    ("arguments", call_arguments),
    ("schema", stranger_schema),
    ("audit", audit_log),
];

/// Bytes of a plugin's file: read, checked, compiled, registered, published, called.
pub(crate) fn component(bytes: &[u8]) {
    HOUSE.load(bytes);
}

/// What a plugin's memory holds when it registers: pointers, lengths, texts.
pub(crate) fn registration(bytes: &[u8]) {
    HOUSE.load(&plugin_with(&bytes[..bytes.len().min(IMAGE_BYTES)]));
}

/// The text of `toolhost.toml`: read, narrowed, and edited by commands.
pub(crate) fn configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let id = PluginId::from_stem("weather").expect("an id");
    let one = PluginAddress::in_folder(Path::new("/p"), id.clone());
    let other = PluginAddress::in_folder(Path::new("/q"), id.clone());
    let mut grants = Grants::default();
    grants.add(Kind::ENV, "TOKEN", None).expect("a grant");
    if let Ok(project) = config::parse_project(text, &Config::default()) {
        let mut narrowed = Config::default();
        narrowed.narrow(&project);
        let more = narrowed.ids.values().any(|plugin| !plugin.allows_nothing());
        assert!(!more && narrowed.plugins.is_empty(), "a project gave itself something");
        assert!(narrowed.servers.is_empty(), "a project gave itself a server");
    }
    let read = match config::parse(text, &Config::default()) {
        Ok(read) => read,
        Err(error) => return says(&error.to_string()),
    };
    let again = |text: &str| config::parse(text, &Config::default()).expect("what was written");
    let granted = config::with_grants(text, &one, &grants).expect("an edit");
    assert!(again(&granted).plugins[&one].grants.has(Kind::ENV));
    let all = Grants::default();
    let (revoked, count) = config::without_grants(&granted, &one, &all).expect("an edit");
    assert!(count > 0);
    assert!(again(&revoked).plugins.get(&one).is_none_or(|plugin| plugin.grants.is_empty()));
    // A table that names only an id is rewritten: nothing is lost, and nothing is more.
    let of_id = read.ids.get(&id).cloned().unwrap_or_default();
    let held = of_id.grants.flags();
    let (first, rest) = held.split_at(held.len() / 2);
    let these = |flags: &[String]| IdShare { grants: Some(flags.to_vec()), permissions: false };
    let shares = [(one.clone(), these(first)), (other.clone(), these(rest))];
    let rewritten = again(&config::rewritten(text, &id, &shares, None).expect("an edit"));
    for (address, share) in &shares {
        let before = read.plugin(address, share, None).grants.flags();
        let after = rewritten.plugin(address, &IdShare::nothing(), None).grants.flags();
        let sorted = |flags: Vec<String>| flags.into_iter().collect::<BTreeSet<String>>();
        assert_eq!(sorted(before), sorted(after), "{address}");
    }
    assert!(rewritten.ids.get(&id).is_none_or(|plugin| plugin.grants.is_empty()));
    let all = [(one.clone(), IdShare::all())];
    let rewritten = again(&config::rewritten(text, &id, &all, Some(&one)).expect("an edit"));
    let plugin = rewritten.plugin(&one, &IdShare::nothing(), None);
    assert_eq!(
        plugin.allow_tool_override,
        read.plugin(&one, &IdShare::all(), None).allow_tool_override
    );
    assert!(
        rewritten.plugin(&other, &IdShare::nothing(), None).grants
            == read.plugin(&other, &IdShare::nothing(), None).grants
    );
}

/// The text of the lock: read and written.
pub(crate) fn lock_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match trust_store::parse(text) {
        Ok(read) => {
            let written = serde_json::to_string(&read).expect("JSON");
            assert_eq!(trust_store::parse(&written).expect("what was written"), read);
        }
        Err(error) => says(&error),
    }
}

/// A schema and arguments for it, with a line of `---` between: read, repaired, coerced, checked
/// and explained.
pub(crate) fn call_arguments(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (schema, given) = text.split_once("\n---\n").unwrap_or(("{}", &text));
    let limits = Limits::default();
    let read = match arguments::parse(given, &limits) {
        Ok(read) => read,
        Err(error) => return says(&error.message),
    };
    let parameters = match schema::parse(schema, &limits) {
        Ok(parameters) => parameters,
        Err(error) => return says(&error.to_string()),
    };
    let compiled = match Schema::compile(&parameters, &limits) {
        Ok(compiled) => compiled,
        Err(error) => return says(&error.to_string()),
    };
    let mut value = read.value;
    arguments::coerce(&mut value, &parameters);
    arguments::leave_out_nulls(&mut value, &parameters);
    let mut again = value.clone();
    arguments::coerce(&mut again, &parameters);
    assert_eq!(value, again, "coerced twice is coerced once");
    let value = Value::Object(value);
    if compiled.work(Size::of(&value)) > QUICK_WORK_MAX {
        return;
    }
    if let Err(violations) = compiled.check(&value) {
        says(&arguments::explain("t", &violations, &parameters).message);
    }
}

/// A schema and structured output for it, with a line of `---` between: weighed and compiled within
/// its limits, rendered, measured and read alike, and checked where that is quick.
pub(crate) fn stranger_schema(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (schema, given) = text.split_once("\n---\n").unwrap_or((&text, "{}"));
    let limits = Limits::default();
    let (measured, read) = (json::measure(given), json::read(given));
    match (&measured, &read) {
        (Ok(size), Ok(value)) => assert_eq!(*size, Size::of(value)),
        // Of two errors, one may be found before the other.
        (Err(measured), Err(read)) => {
            says(&measured.to_string());
            says(&read.to_string());
        }
        _ => panic!("measured {measured:?}, read {read:?}"),
    }
    let source = match schema::parse(schema, &limits) {
        Ok(source) => source,
        Err(error) => return says(&error.to_string()),
    };
    let compiled = match Schema::compile(&source, &limits) {
        Ok(compiled) => compiled,
        Err(error) => return says(&error.to_string()),
    };
    // Twice, where a definition stands inside itself.
    let most = 2 * limits.schema_expanded_bytes_max.0 + limits.schema_patterns_bytes_max.0;
    assert!(compiled.bytes() <= most, "{} bytes", compiled.bytes());
    let (Ok(size), Ok(value)) = (measured, read) else { return };
    if compiled.work(size) > QUICK_WORK_MAX {
        return;
    }
    match compiled.check(&value) {
        Ok(()) => assert!(compiled.explain_first(&value).is_empty()),
        Err(violations) => {
            assert!(!violations.is_empty());
            violations.iter().for_each(|violation| says(&violation.message));
        }
    }
}

/// The files of an audit log, two of which the bytes are: read line by line, and verified.
pub(crate) fn audit_log(bytes: &[u8]) {
    for (_, record) in audit::read(bytes) {
        match record {
            Ok(record) => says(&format!("{:?}", record.str("kind"))),
            Err(damage) => says(&damage.to_string()),
        }
    }
    let (first, second) = bytes.split_at(bytes.len() / 2);
    for files in [vec![("a", bytes)], vec![("a", first), ("b", second)]] {
        let named = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes));
        let verified = audit::verify(named);
        for problem in &verified.problems {
            says(&format!("{problem:?}"));
        }
    }
}

/// Every message is bounded, and safe to show once it is made so.
fn says(message: &str) {
    assert!(!message.is_empty());
    assert!(message.len() <= 64 << 10, "{} bytes", message.len());
    assert!(!text::printable(message).contains('\u{1b}'));
}

/// What loads plugins, once for all inputs.
static HOUSE: LazyLock<House> = LazyLock::new(House::new);

struct House {
    runtime: Runtime,
    loader: Loader,
    limits: Arc<Limits>,
    folder: TempDir,
}

impl House {
    fn new() -> House {
        let limits = Limits {
            register_time_max: Duration::from_millis(500),
            wall_time_max: Duration::from_millis(200),
            memory_bytes_max: Bytes(4 << 20),
            component_bytes_max: Bytes(1 << 20),
            output_bytes_max: Bytes(64 << 10),
            registration_bytes_max: Bytes(1 << 20),
            code_bytes_max: Bytes(32 << 20),
            tools_max: Count(16),
            ..Limits::default()
        };
        let limits = Arc::new(limits);
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
        let egress = Egress::new(EgressSettings::default(), &limits).expect("egress");
        let loader = Loader::new(Arc::clone(&limits), 2, egress).expect("a loader");
        House { runtime, loader, limits, folder: tempfile::tempdir().expect("a folder") }
    }

    fn load(&self, bytes: &[u8]) {
        let path = self.path();
        fs::write(&path, bytes).expect("written");
        let id = PluginId::from_stem("fuzzed").expect("an id");
        let folder = self.folder.path().to_owned();
        let place = toolhost_state::read::ReadScope::Own;
        let candidate = Candidate { id, folder, path, place };
        let meter = Arc::default();
        let load = self.loader.load(&candidate, &meter);
        let loaded = self.runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(60), load).await.expect("it ends")
        });
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                let message = error.to_string();
                says(&message);
                assert!(!message.contains('\n'), "{message}");
                return;
            }
        };
        let (facts, registration) = (&loaded.facts, &loaded.registration);
        let texts = Texts {
            name: &facts.name,
            version: &facts.version,
            registration,
            extensions: &facts.extensions,
        };
        for suspicion in suspicions(&texts, ["terminal"]) {
            says(&suspicion.to_string());
        }
        let surface = Surface::new("0.1.0", &facts.imports, registration);
        for difference in differences(&Surface::default(), &surface) {
            says(&difference.to_string());
        }
        for tool in &registration.tools {
            for format in Format::ALL {
                Definition::of(tool.spec()).render(format);
            }
        }
        self.call(&loaded.registration);
    }

    /// Publishes the tools and calls the first.
    fn call(&self, registration: &toolhost_core::tool::Registration) {
        let registry = Arc::new(Registry::new(Arc::clone(&self.limits), Owners::new()));
        let catalog = registry.publish([registration.clone()]);
        let Some(entry) = catalog.tools().first().copied() else { return };
        let call = Call::new(entry.tool.spec().name.as_str(), "{}");
        let availability = Arc::new(Availability::new(&self.limits));
        let quarantine = Arc::new(Quarantine::open(&self.limits, None));
        let dispatch = Dispatch::new(
            registry,
            availability,
            quarantine,
            Arc::clone(&self.limits),
            1,
            Arc::new(Audit::off()),
            None,
        );
        let session = Session::alone(Arc::default(), &self.limits);
        let outcome = self.runtime.block_on(dispatch.call(&session, call));
        serde_json::from_str::<Value>(&outcome.to_json_text()).expect("a model reads JSON");
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("fuzzed.wasm")
    }
}

/// Where the memory image of the plugin below begins.
const MARKER: &[u8] = b"toolhost-fuzz-image";
const IMAGE_BYTES: usize = 2_048;

/// A plugin whose `register` returns the record at the beginning of its memory.
static PLUGIN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let marker = String::from_utf8_lossy(MARKER);
    let rest = "\\00".repeat(IMAGE_BYTES - MARKER.len());
    from_wat(&format!(
        r#"(module
            (memory (export "memory") 1)
            (data (i32.const 0) "{marker}{rest}")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 8192)
            (func (export "register") (result i32) i32.const 0)
            (func (export "call")
                (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
                (result i32) i32.const 4096))"#
    ))
});

/// The plugin with an image in its memory.
pub(crate) fn plugin_with(image: &[u8]) -> Vec<u8> {
    let mut plugin = PLUGIN.clone();
    let place = plugin.windows(MARKER.len()).position(|window| window == MARKER);
    let start = place.expect("the marker");
    plugin[start..start + image.len()].copy_from_slice(image);
    plugin
}

/// A memory image with a registration in which nothing is absent.
pub(crate) fn image() -> Vec<u8> {
    let mut image = Image { bytes: vec![0; 44], texts: 512 };
    let name = image.text("fuzzed");
    let version = image.text("1.0.0");
    let tool = image.tool();
    let tools = image.list(&[tool]);
    let need = [image.text("env"), image.text(r#"{"names":["TOKEN"]}"#)].concat();
    let tool_names = [image.text("echo")];
    let need_tools = image.list(&tool_names);
    let need = [need, need_tools, image.text("to tell it")].concat();
    let needs = image.list(&[need]);
    let extensions = image.extensions();
    // Before the record, that it is no error.
    let record = [vec![0; 4], name, version, tools, needs, extensions].concat();
    image.bytes[..record.len()].copy_from_slice(&record);
    image.bytes.resize(IMAGE_BYTES, 0);
    image.bytes
}

/// Lays out records of the contract as the canonical ABI has them in memory.
struct Image {
    bytes: Vec<u8>,
    /// Where texts and lists go next.
    texts: usize,
}

impl Image {
    fn put(&mut self, bytes: &[u8], length: usize) -> Vec<u8> {
        let place = self.texts;
        self.texts = (place + bytes.len()).next_multiple_of(8);
        self.bytes.resize(self.texts, 0);
        self.bytes[place..place + bytes.len()].copy_from_slice(bytes);
        let number = |number: usize| u32::try_from(number).expect("small").to_le_bytes();
        [number(place), number(length)].concat()
    }

    fn text(&mut self, text: &str) -> Vec<u8> {
        self.put(text.as_bytes(), text.len())
    }

    fn list(&mut self, items: &[Vec<u8>]) -> Vec<u8> {
        self.put(&items.concat(), items.len())
    }

    fn some(&mut self, text: &str) -> Vec<u8> {
        [vec![1, 0, 0, 0], self.text(text)].concat()
    }

    fn extensions(&mut self) -> Vec<u8> {
        let pair = [self.text("check"), self.text(r#""shared""#)].concat();
        self.list(&[pair])
    }

    fn tool(&mut self) -> Vec<u8> {
        let schema = r#"{"type":"object","properties":{"text":{"type":"string","maxLength":9}}}"#;
        let mut tool = [
            self.text("echo"),
            self.text("fuzz"),
            self.text("Says what it is told."),
            self.text(schema),
            self.some(r#"{"type":"object"}"#),
            self.some("x"),
        ]
        .concat();
        let variable = self.text("TOKEN");
        tool.extend(self.list(&[variable]));
        tool.extend([1, 0, 0, 0, 0x10, 0x27, 0, 0]);
        // Three flags, four optional hints, and a byte so that what follows is aligned.
        tool.extend([1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0]);
        let example = [self.text(r#"{"text":"a"}"#), self.some("a")].concat();
        tool.extend(self.list(&[example]));
        let extensions = self.extensions();
        tool.extend(extensions);
        tool
    }
}
