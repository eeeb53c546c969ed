//! What `inspect` found, as a page for people. Whatever a stranger wrote stands on one line.

use super::{Inspected, ceiling};
use crate::describe::kind;
use crate::failure::Failure;
use crate::ui::Ui;
use toolhost_core::text::suspect::visible;
use toolhost_core::text::{cut, one_line};
use toolhost_core::tool::{Annotations, Need, ToolSpec};
use toolhost_policy::capability::{self, is_known};

/// Characters of a description that are shown.
const DESCRIPTION_CHARS_MAX: usize = 400;
/// Characters of other things that a stranger wrote.
const SHOWN_CHARS_MAX: usize = 600;
/// Where the host's own words are not needed, since the interface has types only.
const CONTRACT: &str = "contract";

impl Inspected<'_> {
    pub(super) fn print(&self, ui: &Ui) -> Result<(), Failure> {
        self.print_file(ui)?;
        self.print_needs(ui)?;
        self.print_imports(ui)?;
        self.print_tools(ui)?;
        self.print_warnings(ui)?;
        self.print_tokens(ui)
    }

    fn print_file(&self, ui: &Ui) -> Result<(), Failure> {
        let (registration, facts) = (&self.loaded.registration, &self.loaded.facts);
        let (name, version) = (shown(&facts.name), shown(&facts.version));
        ui.line(&format!("{} is {name} {version}", registration.source))?;
        ui.line(&format!("  file       {}", one_line(self.file)))?;
        let bytes = facts.bytes;
        match facts.script {
            None => ui.line(&format!("  size       {bytes} bytes"))?,
            Some(language) => ui.line(&format!(
                "  size       {bytes} bytes of {}, run by the host's runner of it",
                language.name()
            ))?,
        }
        let of = facts.script.map_or("", |_| ", of its modules and the runner");
        ui.line(&format!("  digest     sha256:{}{of}", facts.digest))?;
        ui.line(&format!("  contract   {}", facts.contract))?;
        if !facts.toolchain.producers.is_empty() {
            let producers = facts.toolchain.producers.join(", ");
            let what = match facts.script {
                Some(_) => "runner     made with",
                None => "made with ",
            };
            ui.line(&format!("  {what} {}", shown(&producers)))?;
        }
        match self.warnings.len() {
            0 => Ok(()),
            count => ui.line(&format!("  warnings   {count}, shown below")),
        }
    }

    fn print_needs(&self, ui: &Ui) -> Result<(), Failure> {
        ui.line("\nAsks for, and gets what of it you grant:")?;
        if self.loaded.registration.needs.is_empty() {
            ui.line("  nothing")?;
        }
        for need in &self.loaded.registration.needs {
            ui.line(&format!("  {}", need_words(need)))?;
        }
        Ok(())
    }

    fn print_imports(&self, ui: &Ui) -> Result<(), Failure> {
        let facts = &self.loaded.facts;
        let ceilings = ceiling::ceilings(&facts.imports);
        let words = |refuses: bool| {
            let mut words: Vec<&str> = Vec::new();
            for ceiling in ceilings.iter().filter(|ceiling| ceiling.refuses == refuses) {
                if ceiling.words != CONTRACT && !words.contains(&ceiling.words) {
                    words.push(ceiling.words);
                }
            }
            if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
        };
        ui.line("\nImports, the most it could ask for:")?;
        ui.line(&format!("  refuses without a grant: {}", words(true)))?;
        ui.line(&format!("  reaches nothing outside: {}", words(false)))?;
        match facts.toolchain.runtime {
            Some(runtime) => {
                let engine = match runtime.engine {
                    "" => String::new(),
                    engine if facts.script.is_some() => format!("Its runner contains {engine}: "),
                    engine => format!("It contains {engine}: "),
                };
                ui.line(&format!("  {engine}{}.", ceiling::runtime_sentence(runtime)))
            }
            None => ui.line("  A language's standard library imports some of these by itself."),
        }
    }

    fn print_tools(&self, ui: &Ui) -> Result<(), Failure> {
        ui.line("\nTools:")?;
        if self.tools.is_empty() {
            ui.line("  none that can be called")?;
        }
        for (spec, _) in &self.tools {
            ui.line(&format!("  {}  (toolset {})", spec.name, spec.toolset))?;
            ui.line(&format!("      {}", description(&spec.description)))?;
            ui.line(&format!("      arguments: {}", shown(&arguments(spec))))?;
            for flag in flags(spec) {
                ui.line(&format!("      {}", shown(&flag)))?;
            }
        }
        if !self.report.rejected.is_empty() {
            ui.line("\nLeft out:")?;
        }
        for rejection in &self.report.rejected {
            ui.line(&format!(
                "  {}: {}",
                shown(&rejection.tool),
                shown(&rejection.reason.to_string())
            ))?;
        }
        let extensions = &self.loaded.facts.extensions;
        if !extensions.is_empty() {
            let names: Vec<&str> = extensions.iter().map(|(name, _)| name.as_str()).collect();
            let names = shown(&names.join(", "));
            ui.line(&format!("\nExtensions this host does not know (without effect): {names}"))?;
        }
        Ok(())
    }

    fn print_warnings(&self, ui: &Ui) -> Result<(), Failure> {
        if self.warnings.is_empty() {
            return ui.line("\nWarnings: none");
        }
        ui.line("\nWarnings, about text that a model reads and a person may not expect:")?;
        for warning in &self.warnings {
            let pointer = cut(&visible(&warning.pointer), SHOWN_CHARS_MAX);
            let place = match &warning.tool {
                Some(tool) => format!("tool {tool}, {pointer}"),
                None => pointer,
            };
            let suspect = &warning.suspect;
            ui.line(&format!("  {}: {}, in {place}", suspect.kind, suspect.what))?;
            ui.line(&format!("      {}", suspect.excerpt))?;
        }
        Ok(())
    }

    fn print_tokens(&self, ui: &Ui) -> Result<(), Failure> {
        if self.tools.is_empty() {
            return Ok(());
        }
        ui.line("\nTokens of each definition in a prompt:")?;
        for (spec, tokens) in &self.tools {
            ui.line(&format!("  {tokens:>6}  {}", spec.name))?;
        }
        ui.line(&format!("  {:>6}  in total", self.tokens()))
    }
}

/// What a stranger wrote, on one line and bounded.
fn shown(text: &str) -> String {
    cut(&one_line(text), SHOWN_CHARS_MAX)
}

fn need_words(need: &Need) -> String {
    let unknown = match is_known(&need.kind) {
        true => "",
        false => " (a kind unknown to this host, which grants nothing)",
    };
    let tools = match need.tools.as_slice() {
        [] => "for all tools".to_owned(),
        tools => format!("for {}", tools.join(", ")),
    };
    let reason = match need.reason.as_str() {
        "" => "without a reason".to_owned(),
        reason => format!("its reason: {reason}"),
    };
    let words = shown(&capability::need_words(&need.kind, &need.value));
    format!("{}{unknown}: {words}\n      {}; {}", shown(&need.kind), shown(&tools), shown(&reason))
}

/// A description on one line. What is cut is said, since it may be where something is hidden.
fn description(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= DESCRIPTION_CHARS_MAX {
        return one_line(text);
    }
    let start = cut(&one_line(&cut(text, DESCRIPTION_CHARS_MAX)), SHOWN_CHARS_MAX);
    format!("{start} ({chars} characters in all; --json shows them)")
}

/// The arguments with their types.
fn arguments(spec: &ToolSpec) -> String {
    let required = spec.parameters["required"].as_array();
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
    let properties = spec.parameters["properties"].as_object();
    let argument = |(name, schema): (&String, &serde_json::Value)| {
        let optional = if is_required(name) { "" } else { ", optional" };
        format!("{name} ({}{optional})", kind(schema))
    };
    let arguments: Vec<String> = properties.into_iter().flatten().map(argument).collect();
    if arguments.is_empty() { "none declared".to_owned() } else { arguments.join("; ") }
}

/// What is special about a tool, a line each.
fn flags(spec: &ToolSpec) -> Vec<String> {
    let mut flags = Vec::new();
    let mut flag = |holds: bool, words: &str| {
        if holds {
            flags.push(words.to_owned());
        }
    };
    flag(spec.overrides, "overrides: asks to replace a tool of this name");
    let variables = format!("requires-env: {}", spec.requires_env.join(", "));
    flag(!spec.requires_env.is_empty(), &variables);
    flag(spec.has_check, "check: tells whether it can work at present");
    flag(spec.has_dynamic_schema, "describe: its definition depends on what else is visible");
    let result = spec.max_result_size_chars.unwrap_or_default();
    let preview = format!("preview: from {result} characters of a result on");
    flag(spec.max_result_size_chars.is_some(), &preview);
    let Annotations { read_only, destructive, idempotent, open_world } = spec.annotations;
    let hints: Vec<&str> = [
        (read_only, "read-only", "not read-only"),
        (destructive, "destructive", "not destructive"),
        (idempotent, "idempotent", "not idempotent"),
        (open_world, "open-world", "not open-world"),
    ]
    .into_iter()
    .filter_map(|(hint, yes, no)| Some(if hint? { yes } else { no }))
    .collect();
    flag(!hints.is_empty(), &format!("says of itself: {}", hints.join(", ")));
    flags
}
