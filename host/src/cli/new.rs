//! `toolhost new`

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use super::failure::Failure;
use super::home::Home;
use super::ui::Ui;
use crate::author::{self, Language, ScaffoldError, ScaffoldRequest, Scaffolded};
use crate::authority::quoted;

/// The checkout of toolhost that this program was built from; elsewhere it is not there.
pub(super) const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Makes a new plugin: a folder with one tool that works, its test and a README.
///
/// The folder is made here, or below `--dir`; one that is there is left as it is. The plugin finds
/// its SDK in the folder that `--sdk` names; else in the checkout of toolhost that it lies in; else
/// in the one that this program was built from, as long as that is there; else where `make install`
/// has put it.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The plugin's id: 1 to 40 characters of a-z 0-9 -, the first a letter.
    name: String,

    /// What it is written in.
    #[arg(long, value_name = "LANGUAGE", value_parser = language_parser())]
    lang: Language,

    /// Make its folder in this one.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// A checkout of toolhost, or the folder of its SDK for this language.
    #[arg(long, value_name = "PATH")]
    sdk: Option<PathBuf>,
}

fn language_parser() -> impl TypedValueParser<Value = Language> {
    PossibleValuesParser::new(Language::ALL.map(Language::as_str)).map(|given| {
        let is_it = |language: &Language| language.as_str() == given;
        Language::ALL.into_iter().find(is_it).expect("a possible value")
    })
}

pub(super) fn run(ui: &Ui, given: &Arguments) -> Result<(), Failure> {
    let request = ScaffoldRequest {
        name: given.name.clone(),
        language: given.lang,
        into: given.dir.clone(),
        sdk: given.sdk.clone(),
        sdks: sdks(),
    };
    let made = author::scaffold(&request).map_err(|error| failure(&error))?;
    let next = next(&made);
    if ui.json {
        return ui.json(&json!({
            "id": made.id.as_str(),
            "lang": given.lang.as_str(),
            "folder": made.folder,
            "files": made.files,
            "sdk": { "path": made.sdk },
            "next": next,
        }));
    }
    let folder = shown(&made.folder);
    ui.line(&format!("made {} in {}:", made.id, given.lang.name()))?;
    for file in &made.files {
        ui.line(&format!("  {}", folder.join(file).display()))?;
    }
    ui.line(&format!("Its SDK is in {}.", made.sdk.display()))?;
    ui.line("\nNext:")?;
    next.iter().try_for_each(|command| ui.line(&format!("  {command}")))
}

/// Where SDKs may lie: also without a home, as long as the checkout is there.
fn sdks() -> Vec<PathBuf> {
    match Home::from_environment() {
        Ok(home) => home.building().sdks,
        Err(_) => vec![Path::new(BUILT_FROM).join("sdk")],
    }
}

/// The commands to go on with.
fn next(made: &Scaffolded) -> [String; 3] {
    let folder = quoted(&shown(&made.folder).display().to_string()).to_string();
    [
        format!("toolhost dev {folder}"),
        format!("toolhost check {folder}"),
        format!("cd {folder} && {}", made.test_command),
    ]
}

/// The folder as a person would name it.
fn shown(folder: &Path) -> PathBuf {
    folder.strip_prefix(".").unwrap_or(folder).to_owned()
}

fn failure(error: &ScaffoldError) -> Failure {
    Failure::usage(error.to_string())
}
