//! Rules about what a plugin declares: pure, over a registration and what is known of its file.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;

use super::prose;
use super::schema;
use super::{Finding, Level};
use toolhost_core::text::suspect;
use toolhost_core::tool::{Need, Registration, ToolSpec};
use toolhost_kernel::registry::SourceReport;
use toolhost_policy::capability::{self, Kind};
use toolhost_policy::review::{Suspicion, Texts, suspicions};
use toolhost_policy::toolset;
use toolhost_wasm::Facts;

/// Characters of the shortest description of a tool that says something.
const DESCRIPTION_CHARS_MIN: usize = 20;
/// Words of it.
const DESCRIPTION_WORDS_MIN: usize = 3;
/// A component that is larger takes long to compile, which every user waits for once.
const BYTES_MAX: u64 = 20 << 20;

/// All that is known of a plugin without running its tools.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared<'a> {
    pub(super) registration: &'a Registration,
    pub(super) facts: &'a Facts,
    pub(super) report: &'a SourceReport,
}

/// Finds what is wrong with what a plugin declares, and what could be better.
pub(super) fn findings(declared: &Declared<'_>) -> Vec<Finding> {
    let Declared { registration, facts, report } = declared;
    let mut found = about_the_plugin(facts);
    for rejection in &report.rejected {
        let repair = "as long as it stays so, the tool cannot be called";
        found.push(Finding::new(
            Level::Error,
            "left-out",
            &rejection.tool,
            format!("it is left out: {}", rejection.reason),
            repair,
        ));
    }
    let is_of_use = |kind: Kind| {
        kind.is_of_use_without_tools() && capability::asks_for(&registration.needs, kind)
    };
    let does_nothing =
        registration.tools.is_empty() && report.rejected.is_empty() && !Kind::all().any(is_of_use);
    if does_nothing {
        let message = "it registers no tool";
        found.push(Finding::new(Level::Warning, "tools", "plugin", message, "register one"));
    }
    for tool in &registration.tools {
        found.extend(about_a_tool(tool.spec(), &registration.needs));
    }
    found.extend(about_needs(registration, facts));
    let texts = Texts {
        name: &facts.name,
        version: &facts.version,
        registration,
        extensions: &facts.extensions,
    };
    found.extend(suspicions(&texts, toolset::core_tools()).iter().map(suspicious));
    found
}

fn about_the_plugin(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut push = |level, rule, message: String, repair: &str| {
        found.push(Finding::new(level, rule, "plugin", message, repair));
    };
    if facts.bytes > BYTES_MAX {
        push(
            Level::Warning,
            "size",
            format!(
                "the component has {} bytes; from {BYTES_MAX} on, each user waits long for its first compilation",
                facts.bytes
            ),
            "build it in release mode, stripped, without what it does not use",
        );
    }
    if facts.name.trim().is_empty() {
        push(Level::Warning, "name", "it has no name".to_owned(), "give it one; people see it");
    }
    if Version::parse(&facts.version).is_err() {
        let given = suspect::visible(&toolhost_core::text::cut(&facts.version, 40));
        push(
            Level::Note,
            "version",
            format!("its version `{given}` is none of semver"),
            "write `1.2.0`, so that people see which build is newer",
        );
    }
    found
}

fn about_a_tool(spec: &ToolSpec, needs: &[Need]) -> Vec<Finding> {
    let tool = spec.name.as_str();
    let mut found = Vec::new();
    let mut push = |level, rule, message: String, repair: String| {
        found.push(Finding::new(level, rule, tool, message, repair));
    };
    if tool.contains('-') || tool.contains(|letter: char| letter.is_ascii_uppercase()) {
        let snake = snake_case(tool);
        let message = "models write names of tools as `lower_case_words`".to_owned();
        push(Level::Note, "name", message, format!("name it `{snake}`"));
    }
    if let Some(message) = weak_description(spec) {
        let repair = format!(
            "say what it does and when to use it, in {DESCRIPTION_CHARS_MIN} characters or more"
        );
        push(Level::Warning, "tool-description", message, repair);
    }
    let annotations = spec.annotations;
    match (annotations.read_only, annotations.destructive) {
        (None, _) => push(
            Level::Warning,
            "annotations",
            "it does not say whether it changes anything outside itself".to_owned(),
            "set the annotation `read-only` to true or false".to_owned(),
        ),
        (Some(true), Some(true)) => push(
            Level::Warning,
            "annotations",
            "it says that it changes nothing, and that what it changes may be lost".to_owned(),
            "drop `read-only` or `destructive`".to_owned(),
        ),
        (Some(false), None) => push(
            Level::Note,
            "annotations",
            "it changes things, and does not say whether they may be lost for good".to_owned(),
            "set the annotation `destructive` to true or false".to_owned(),
        ),
        _ => {}
    }
    let named = named_variables(needs);
    for variable in spec.requires_env.iter().filter(|name| !named.contains(name.as_str())) {
        push(
            Level::Warning,
            "requires-env",
            format!(
                "it requires `{variable}`, and the plugin asks for no variable or secret of that name"
            ),
            format!(
                "add the need `env` with `{{\"names\": [\"{variable}\"]}}`, or a need `secrets`"
            ),
        );
    }
    if spec.examples.is_empty() {
        push(
            Level::Warning,
            "example",
            "it has no example, which would be documentation and test in one".to_owned(),
            "add one: arguments, and text that the output has".to_owned(),
        );
    }
    found.extend(schema::findings(tool, &spec.parameters));
    found
}

/// Why a description does not say what the tool does, if it does not.
fn weak_description(spec: &ToolSpec) -> Option<String> {
    let description = spec.description.trim();
    let words = |text: &str| -> Vec<String> {
        text.split(|letter: char| !letter.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let said = words(description);
    if description.is_empty() {
        return Some("it has no description, by which a model chooses".to_owned());
    }
    let named: BTreeSet<String> = words(spec.name.as_str()).into_iter().collect();
    if said.iter().all(|word| named.contains(word)) {
        return Some("its description only repeats its name".to_owned());
    }
    let has_words = said.len() >= DESCRIPTION_WORDS_MIN || prose::has_no_spaces(description);
    if prose::length(description) < DESCRIPTION_CHARS_MIN || !has_words {
        let shown = suspect::visible(description);
        return Some(format!("its description `{shown}` does not say what it does"));
    }
    None
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        match letter {
            '-' => snake.push('_'),
            _ if letter.is_ascii_uppercase() => {
                let after_lower = snake.ends_with(|before: char| {
                    before.is_ascii_lowercase() || before.is_ascii_digit()
                });
                if after_lower {
                    snake.push('_');
                }
                snake.push(letter.to_ascii_lowercase());
            }
            _ => snake.push(letter),
        }
    }
    snake
}

/// The values that needs name.
fn named_variables(needs: &[Need]) -> BTreeSet<String> {
    Kind::all().flat_map(|kind| kind.value_names(needs)).collect()
}

fn about_needs(registration: &Registration, facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut push = |level, rule, place: &str, message: String, repair: &str| {
        found.push(Finding::new(level, rule, place, message, repair));
    };
    let needs = &registration.needs;
    let has_runtime = facts.toolchain.runtime.is_some();
    let imports = |start: &str| facts.imports.iter().find(|name| name.starts_with(start));
    let asks = |kind: Kind| capability::asks_for(needs, kind);
    // A plugin in a language without a runtime imports only what it uses, and what its standard
    // library brings along, which says least and comes last.
    let mut kinds: Vec<Kind> = Kind::all().collect();
    kinds.sort_by_key(|kind| kind.is_imported_by_itself());
    for kind in kinds {
        let Some(start) = kind.used_by() else { continue };
        let is_used_otherwise = || kind.used_otherwise_by().and_then(imports).is_some();
        match imports(start) {
            Some(import) if !has_runtime && !kind.is_imported_by_itself() && !asks(kind) => push(
                Level::Warning,
                "imports",
                "plugin",
                format!(
                    "it imports `{import}` and has no need `{}`, so that cannot be granted",
                    kind.key()
                ),
                "add the need, or drop what imports it",
            ),
            None if asks(kind) && !is_used_otherwise() => push(
                Level::Note,
                "needs",
                "plugin",
                format!(
                    "it has the need `{}`, and imports nothing that makes use of it",
                    kind.key()
                ),
                "drop the need: people grant less gladly what is not used",
            ),
            _ => {}
        }
    }
    if let Some(import) = imports("wasi:sockets/").filter(|_| !has_runtime) {
        let message = format!("it imports `{import}`, which always refuses");
        push(Level::Warning, "imports", "plugin", message, "send requests over HTTP instead");
    }
    let is_exported = |start: &str| facts.exports.iter().any(|name| name.starts_with(start));
    for kind in Kind::all().filter(|kind| asks(*kind)) {
        if kind.used_by_export().is_some_and(|start| !is_exported(start)) {
            let message = format!("it has the need `{}`, and exports none", kind.key());
            let repair = format!("export the interface `{}`", kind.key());
            push(Level::Warning, "needs", "plugin", message, &repair);
        }
    }
    for kind in Kind::all().filter(|kind| asks(*kind)) {
        let lacks = kind.goes_with().filter(|(other, ..)| !asks(*other));
        if let Some((_, message, repair)) = lacks {
            push(Level::Warning, "needs", "plugin", message.to_owned(), repair);
        }
    }
    let tools: BTreeSet<&str> = registration
        .tools
        .iter()
        .map(|tool| tool.spec().name.as_str())
        .chain(registration.rejected.iter().map(|rejection| rejection.tool.as_str()))
        .collect();
    let mut unexplained: BTreeMap<&str, usize> = BTreeMap::new();
    for need in needs {
        let kind = suspect::visible(&toolhost_core::text::cut(&need.kind, 40));
        if !capability::is_known(&need.kind) {
            let message = format!("no version of toolhost knows needs of the kind `{kind}`");
            push(Level::Warning, "needs", "plugin", message, "it grants nothing; drop it");
        }
        for tool in need.tools.iter().filter(|tool| !tools.contains(tool.as_str())) {
            let tool = suspect::visible(&toolhost_core::text::cut(tool, 80));
            let message = format!("its need `{kind}` is for `{tool}`, which is none of its tools");
            push(Level::Warning, "needs", "plugin", message, "name a tool of the plugin");
        }
        if need.reason.trim().is_empty() {
            *unexplained.entry(&need.kind).or_default() += 1;
        }
    }
    for kind in unexplained.keys() {
        let kind = suspect::visible(&toolhost_core::text::cut(kind, 40));
        let message = format!("its need `{kind}` has no reason, and a person has to decide");
        push(Level::Warning, "needs", "plugin", message, "say in one sentence what for");
    }
    found
}

fn suspicious(suspicion: &Suspicion) -> Finding {
    let Suspicion { tool, pointer, suspect } = suspicion;
    let place = format!("{} {}", tool.as_deref().unwrap_or("plugin"), suspect::visible(pointer));
    match suspect.kind {
        suspect::SuspectKind::OtherTool => Finding::new(
            Level::Warning,
            "other-tool",
            place,
            format!("it {}, which a model may not have: {}", suspect.what, suspect.excerpt),
            "describe this tool alone, or leave it to `describe`, which is told what is listed",
        ),
        kind => Finding::new(
            Level::Error,
            "suspicious",
            place,
            format!("{} ({kind}): {}", suspect.what, suspect.excerpt),
            "write it otherwise: until a person trusts it, the plugin waits and cannot be called",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use expect_test::{Expect, expect};

    use super::*;
    use toolhost_core::tool::{Origin, PluginId, SourceId, ToolName};
    use toolhost_wasm::Toolchain;

    fn facts() -> Facts {
        Facts {
            name: "words".into(),
            version: "1.0.0".into(),
            contract: Version::new(0, 1, 0),
            digest: "d".into(),
            bytes: 1_000,
            imports: Vec::new(),
            exports: Vec::new(),
            toolchain: Toolchain::default(),
            extensions: Vec::new(),
            script: None,
        }
    }

    fn need(kind: &str, value: &str) -> Need {
        let (kind, value) = (kind.to_owned(), value.to_owned());
        Need { kind, value, tools: Vec::new(), reason: "to work".into() }
    }

    /// What is found in a plugin that only has these facts and needs.
    #[track_caller]
    fn check(facts: &Facts, needs: Vec<Need>, expected: &Expect) {
        let registration = Registration {
            source: SourceId::Plugin {
                id: PluginId::from_stem("words").expect("an id"),
                folder: PathBuf::new(),
            },
            origin: Origin::Project,
            rank: 0,
            allow_tool_override: false,
            tools: Vec::new(),
            needs,
            hooks: None,
            digest: None,
            trusted: false,
            rejected: Vec::new(),
            waiting: Vec::new(),
        };
        let report = SourceReport::default();
        let declared = Declared { registration: &registration, facts, report: &report };
        let lines: String =
            findings(&declared).iter().map(|finding| format!("{finding}\n")).collect();
        expected.assert_eq(&lines);
    }

    #[test]
    fn the_file_its_name_and_its_version() {
        let facts =
            Facts { bytes: BYTES_MAX + 1, name: " ".into(), version: "newest".into(), ..facts() };
        check(
            &facts,
            Vec::new(),
            &expect![[r#"
            warning[size] plugin: the component has 20971521 bytes; from 20971520 on, each user waits long for its first compilation; build it in release mode, stripped, without what it does not use
            warning[name] plugin: it has no name; give it one; people see it
            note[version] plugin: its version `newest` is none of semver; write `1.2.0`, so that people see which build is newer
            warning[tools] plugin: it registers no tool; register one
        "#]],
        );
        let largest = Facts {
            bytes: BYTES_MAX,
            exports: vec!["toolhost:plugin/hooks@0.1.0".into()],
            ..self::facts()
        };
        // Hooks are enough.
        check(&largest, vec![need("hooks", "{}")], &expect![[""]]);
        check(
            &self::facts(),
            vec![need("process", "{}")],
            &expect![[r#"
            warning[tools] plugin: it registers no tool; register one
        "#]],
        );
    }

    #[test]
    fn a_description_says_what_a_tool_does_in_any_language() {
        let weak = |description: &str| {
            let name = ToolName::new("count").expect("a name");
            weak_description(&ToolSpec::new(name, "text", description, serde_json::Value::Null))
        };
        let said = [
            "Counts the words of a text.",
            "计算文本中的单词数量。",
            "テキストの単語を数えます。",
            "텍스트의 단어 수를 셉니다.",
            "Считает слова в тексте.",
        ];
        for description in said {
            assert_eq!(weak(description), None);
        }
        let too_short =
            ["Counts it.", "计算数量", "数えます。", "수를 셉니다.", "Пересчитываниевсехслов"];
        for description in too_short {
            let reason = weak(description).unwrap_or_else(|| panic!("{description}"));
            assert!(reason.contains("does not say what it does"), "{reason}");
        }
    }

    #[test]
    fn imports_and_needs_belong_together() {
        let imports = |names: &[&str]| Facts {
            imports: names.iter().map(|name| (*name).to_owned()).collect(),
            ..facts()
        };
        let http = need("http", r#"{"hosts": ["a.example"]}"#);
        let secret = need("secrets", r#"{"name": "KEY", "hosts": ["a.example"], "header": "k"}"#);
        let outgoing = "wasi:http/outgoing-handler@0.2.6";
        let files = "wasi:filesystem/types@0.2.6";
        // Everything in order: the host puts secrets into requests.
        check(
            &imports(&[outgoing, files]),
            vec![http.clone(), secret.clone()],
            &expect![[r#"
            warning[tools] plugin: it registers no tool; register one
        "#]],
        );
        check(
            &imports(&[outgoing, "wasi:sockets/tcp@0.2.6"]),
            Vec::new(),
            &expect![[r#"
            warning[tools] plugin: it registers no tool; register one
            warning[imports] plugin: it imports `wasi:http/outgoing-handler@0.2.6` and has no need `http`, so that cannot be granted; add the need, or drop what imports it
            warning[imports] plugin: it imports `wasi:sockets/tcp@0.2.6`, which always refuses; send requests over HTTP instead
        "#]],
        );
        check(
            &imports(&[]),
            vec![http, need("dirs", "{}"), need("hooks", "{}")],
            &expect![[r#"
            note[needs] plugin: it has the need `http`, and imports nothing that makes use of it; drop the need: people grant less gladly what is not used
            note[needs] plugin: it has the need `dirs`, and imports nothing that makes use of it; drop the need: people grant less gladly what is not used
            warning[needs] plugin: it has the need `hooks`, and exports none; export the interface `hooks`
        "#]],
        );
        check(
            &imports(&[outgoing]),
            vec![secret],
            &expect![[r#"
            warning[tools] plugin: it registers no tool; register one
            warning[imports] plugin: it imports `wasi:http/outgoing-handler@0.2.6` and has no need `http`, so that cannot be granted; add the need, or drop what imports it
            warning[needs] plugin: it asks for a secret, which is put into requests, and not for HTTP; add the need `http` for the secret's hosts
        "#]],
        );
    }
}
