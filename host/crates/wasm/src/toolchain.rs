//! What a component was made with, by its own account: the `producers` sections of all its
//! modules, their names and the libraries they are linked to.
//!
//! It tells whether a language runtime came along. A runtime imports nearly all of WASI, so its
//! imports say nothing about the plugin. It is an account that anybody can forge; it explains
//! the list of imports to people and decides nothing.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use wasmparser::{CustomSectionReader, Dylink0Subsection, KnownCustom, Name};

use toolhost_core::text;

/// Most producers kept.
const PRODUCERS_MAX: usize = 32;
/// Characters of one producer.
const PRODUCER_CHARS_MAX: usize = 60;
/// Bytes of sections that are read; a large component has about two thousand.
const READ_BYTES_MAX: usize = 256 << 10;
/// What a section costs of these however small it is.
const SECTION_BYTES_MIN: usize = 64;
/// Parts of WASI that only a runtime imports all together.
const WHOLE: [&str; 6] = [
    "wasi:cli/environment",
    "wasi:clocks/monotonic-clock",
    "wasi:filesystem/types",
    "wasi:random/random",
    "wasi:sockets/tcp",
    "wasi:sockets/udp",
];

const PYTHON: Runtime = Runtime { language: "Python", engine: "CPython" };
const JAVASCRIPT: Runtime = Runtime { language: "JavaScript", engine: "SpiderMonkey" };
const JAVY: Runtime = Runtime { language: "JavaScript", engine: "QuickJS" };
const TINYGO: Runtime = Runtime { language: "Go", engine: "TinyGo" };
const GO: Runtime = Runtime { language: "Go", engine: "Go" };
const DOTNET: Runtime = Runtime { language: ".NET", engine: ".NET" };
const RUBY: Runtime = Runtime { language: "Ruby", engine: "CRuby" };

/// Producers that put a runtime into what they make; the case of their names does not count.
const PRODUCERS: [(&str, Runtime); 8] = [
    ("componentize-py", PYTHON),
    ("componentizejs", JAVASCRIPT),
    ("javy", JAVY),
    ("tinygo", TINYGO),
    ("componentize-go", GO),
    ("go cmd/compile", GO),
    ("dotnet", DOTNET),
    ("ilc", DOTNET),
];

/// How names of modules and libraries begin that are a runtime, or part of one. A plugin's own
/// module may have any name, so these are names that nobody gives to a plugin.
const PARTS: [(&str, Runtime); 5] = [
    ("libpython3", PYTHON),
    ("libcomponentize_py", PYTHON),
    ("starling-raw", JAVASCRIPT),
    ("dotnet.native", DOTNET),
    ("libruby", RUBY),
];

/// A language runtime that is part of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Runtime {
    /// The language, such as `Python`; empty if only the list of imports tells of a runtime.
    pub language: &'static str,
    /// What runs it, such as `CPython`; empty with the language.
    pub engine: &'static str,
}

impl<'de> Deserialize<'de> for Runtime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Runtime, D::Error> {
        #[derive(Deserialize)]
        struct Words {
            language: String,
            engine: String,
        }
        let Words { language, engine } = Words::deserialize(deserializer)?;
        let unknown = Runtime { language: "", engine: "" };
        let known = PRODUCERS.iter().chain(&PARTS).map(|(_, runtime)| *runtime).chain([unknown]);
        let mut known =
            known.filter(|known| (known.language, known.engine) == (&*language, &*engine));
        known.next().ok_or_else(|| D::Error::custom(format!("no runtime `{language}` is known")))
    }
}

/// What a component was made with, by its own account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolchain {
    /// Programs and languages, such as `wit-component 0.245.1`, sorted, at most 32.
    pub producers: Vec<String>,
    /// The language runtime that is part of it, if there is one.
    pub runtime: Option<Runtime>,
    #[serde(skip)]
    bytes_read: usize,
}

impl Toolchain {
    /// Takes in one section. What makes no sense in it is passed over, since nothing needs it;
    /// and so is all that is more than toolchains write.
    pub(super) fn read(&mut self, section: &CustomSectionReader<'_>) {
        let known = section.as_known();
        if let KnownCustom::Name(mut names) = known {
            // The module's own name stands first. What follows is long and not looked at.
            if let Some(Ok(Name::Module { name, .. })) = names.next() {
                self.part(name);
            }
            return;
        }
        if !matches!(known, KnownCustom::Producers(_) | KnownCustom::Dylink0(_)) {
            return;
        }
        let bytes = section.data().len() + SECTION_BYTES_MIN;
        if self.bytes_read + bytes > READ_BYTES_MAX {
            return;
        }
        self.bytes_read += bytes;
        // Always `map_while`: after an error some of these readers give the same one for ever.
        match known {
            KnownCustom::Producers(fields) => {
                for field in fields.into_iter().map_while(Result::ok) {
                    for value in field.values.into_iter().map_while(Result::ok) {
                        let is_it =
                            |known: &&(&str, Runtime)| known.0.eq_ignore_ascii_case(value.name);
                        self.runtime(PRODUCERS.iter().find(is_it));
                        self.producer(value.name, value.version);
                    }
                }
            }
            KnownCustom::Dylink0(parts) => {
                for part in parts.map_while(Result::ok) {
                    if let Dylink0Subsection::Needed(libraries) = part {
                        libraries.into_iter().for_each(|library| self.part(library));
                    }
                }
            }
            _ => {}
        }
    }

    /// Sorts what was found, and falls back on the imports for a runtime.
    pub(super) fn finish(&mut self, imports: &[String]) {
        self.producers.sort();
        let has = |part: &str| {
            let is_it =
                |name: &String| name.strip_prefix(part).is_some_and(|rest| rest.starts_with('@'));
            imports.iter().any(is_it)
        };
        if self.runtime.is_none() && WHOLE.iter().all(|part| has(part)) {
            self.runtime = Some(Runtime { language: "", engine: "" });
        }
    }

    fn part(&mut self, name: &str) {
        self.runtime(PARTS.iter().find(|(mark, _)| name.starts_with(mark)));
    }

    /// The first that is found counts.
    fn runtime(&mut self, found: Option<&(&str, Runtime)>) {
        self.runtime = self.runtime.or(found.map(|(_, runtime)| *runtime));
    }

    fn producer(&mut self, name: &str, version: &str) {
        // Versions of compilers go on with hashes and dates.
        let version = version.split(' ').next().unwrap_or_default();
        let producer = format!("{name} {version}");
        let producer = text::cut(&text::one_line(producer.trim()), PRODUCER_CHARS_MAX);
        if self.producers.len() < PRODUCERS_MAX && !self.producers.contains(&producer) {
            self.producers.push(producer);
        }
    }
}

#[cfg(test)]
mod tests {
    use wasmparser::{Parser, Payload};

    use super::*;

    fn read(component: &str, imports: &[&str]) -> Toolchain {
        let bytes = wat::parse_str(component).expect("valid WAT");
        let mut toolchain = Toolchain::default();
        for payload in Parser::new(0).parse_all(&bytes) {
            if let Payload::CustomSection(section) = payload.expect("a payload") {
                toolchain.read(&section);
            }
        }
        let imports: Vec<String> = imports.iter().map(|&name| name.to_owned()).collect();
        toolchain.finish(&imports);
        toolchain
    }

    fn engine(component: &str) -> Option<&'static str> {
        read(component, &[]).runtime.map(|runtime| runtime.engine)
    }

    #[test]
    fn runtimes_are_known_by_their_marks() {
        let producers = |field: &str| format!("(component (core module (@producers {field})))");
        let processed = |name: &str| producers(&format!("(processed-by \"{name}\" \"1.0 (x)\")"));
        assert_eq!(engine(&processed("componentize-py")), Some("CPython"));
        assert_eq!(engine(&processed("ComponentizeJS")), Some("SpiderMonkey"));
        assert_eq!(engine(&processed("TinyGo")), Some("TinyGo"));
        assert_eq!(engine(&processed("Javy")), Some("QuickJS"));
        assert_eq!(engine("(component (core module $libpython3.14.so))"), Some("CPython"));
        assert_eq!(
            engine("(component (component (core module $starling-raw.wasm)))"),
            Some("SpiderMonkey")
        );
        assert_eq!(
            engine(
                "(component (core module (@dylink.0 (needed \"libc.so\" \"libpython3.14.so\"))))"
            ),
            Some("CPython")
        );
        assert_eq!(engine(&processed("rustc")), None);
        assert_eq!(engine("(component (core module $tinygo_docs.wasm))"), None);
    }

    #[test]
    fn producers_are_listed_once_and_bounded() {
        let rust = "(component (core module (@producers (language \"Rust\" \"\")\
            (processed-by \"rustc\" \"1.95.0 (abc 2026)\")))\
            (core module (@producers (processed-by \"rustc\" \"1.95.0 (abc 2026)\")\
            (processed-by \"a\\1bb\" \"2\"))))";
        assert_eq!(read(rust, &[]).producers, ["Rust", "a\\u{1b}b 2", "rustc 1.95.0"]);
        let many: String =
            (0..100).map(|n| format!("(processed-by \"p{n}\" \"{}\")", "9".repeat(500))).collect();
        let many = read(&format!("(component (core module (@producers {many})))"), &[]).producers;
        assert_eq!(many.len(), PRODUCERS_MAX);
        assert!(many.iter().all(|name| name.chars().count() <= PRODUCER_CHARS_MAX + 3));
    }

    #[test]
    fn sections_of_nonsense_tell_nothing() {
        for (name, bytes) in [
            ("producers", "\\05\\08language"),
            ("producers", "\\01\\08language\\ff\\ff\\ff\\ff\\0f"),
            ("name", "\\00\\ff\\ff\\ff\\ff\\0f"),
            ("name", "\\ff"),
            ("dylink.0", "\\02\\ff\\ff"),
            ("dylink.0", "\\ff"),
        ] {
            let nonsense = format!("(component (core module (@custom \"{name}\" \"{bytes}\")))");
            let toolchain = read(&nonsense, &[]);
            assert_eq!((toolchain.producers.len(), toolchain.runtime), (0, None), "{name} {bytes}");
        }
        // Sections without number, and one without end.
        let producers = "(core module (@producers (processed-by \"javy\" \"\")))";
        let tiny =
            format!("(component {} {producers})", "(@custom \"producers\" \"\\00\")".repeat(9_000));
        assert_eq!(read(&tiny, &[]).runtime, None);
        let large =
            format!("(component (@custom \"producers\" \"{}\") {producers})", "x".repeat(300_000));
        assert_eq!(read(&large, &[]).runtime.map(|runtime| runtime.engine), Some("QuickJS"));
    }

    #[test]
    fn imports_of_everything_tell_of_a_runtime() {
        let versioned: Vec<String> = WHOLE.iter().map(|part| format!("{part}@0.2.6")).collect();
        let mut imports: Vec<&str> = versioned.iter().map(String::as_str).collect();
        let unnamed = Some(Runtime { language: "", engine: "" });
        assert_eq!(read("(component)", &imports).runtime, unnamed);
        imports.pop();
        assert_eq!(read("(component)", &imports).runtime, None);
    }
}
