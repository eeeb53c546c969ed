//! `toolhost new`

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use super::failure::Failure;
use super::home::Home;
use super::source;
use super::ui::{self, Ui};
use toolhost_author::{
    self as author, ScaffoldError, ScaffoldRequest, Scaffolded, TemplateLanguage,
};
use toolhost_core::text;
use toolhost_policy::capability::quoted;
use toolhost_sources::reload;
use toolhost_state::read::ReadScope;
use toolhost_state::trust_store::{self, Consent};

/// The checkout of toolhost that this program was built from; elsewhere it is not there.
pub(super) const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Makes a new plugin: a folder with one tool that works, its test and a README.
///
/// The folder is made here, or below `--dir`; one that is there is left as it is. The plugin finds
/// its SDK in the folder that `--sdk` names; else in the checkout of toolhost that it lies in, if you
/// trust that project; else in the one that this program was built from, as long as that is there;
/// else where `make install` has put it.
#[derive(Debug, clap::Args)]
pub(super) struct NewArguments {
    /// The plugin's id: 1 to 40 characters of a-z 0-9 -, the first a letter.
    name: String,

    /// The language to write it in.
    #[arg(long, value_name = "LANGUAGE", value_parser = language_parser())]
    lang: TemplateLanguage,

    /// Make its folder in this one.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// A checkout of toolhost, or the folder of its SDK for this language.
    #[arg(long, value_name = "PATH")]
    sdk: Option<PathBuf>,
}

fn language_parser() -> impl TypedValueParser<Value = TemplateLanguage> {
    PossibleValuesParser::new(TemplateLanguage::ALL.map(TemplateLanguage::as_str)).map(|given| {
        let is_it = |language: &TemplateLanguage| language.as_str() == given;
        TemplateLanguage::ALL.into_iter().find(is_it).expect("a possible value")
    })
}

pub(super) fn run(ui: &Ui, given: &NewArguments) -> Result<(), Failure> {
    // Also without a home, as long as the checkout is there.
    let home = Home::from_environment().ok();
    stays_in_project(home.as_ref(), "--dir", &given.dir)?;
    let around = Surroundings::find(home.as_ref(), given);
    let others = match &home {
        Some(home) => home.building().sdks,
        None => vec![Path::new(BUILT_FROM).join("sdk")],
    };
    let request = ScaffoldRequest {
        name: given.name.clone(),
        language: given.lang,
        into: given.dir.clone(),
        sdk: given.sdk.clone(),
        sdks: around.trusted.iter().cloned().chain(others).collect(),
    };
    let made = author::scaffold(&request).map_err(|error| failure(&error))?;
    if let Some(home) = &home {
        remember(home, &made.folder);
    }
    let passed_over = around.passed_over.filter(|_| given.sdk.is_none());
    if let Some(sdk) = &passed_over {
        ui::error_line(&format!(
            "note: {} is not taken: nobody has trusted the project it lies in; `--sdk` takes it all the same",
            sdk.display()
        ));
    }
    let next = next(&made);
    if ui.json {
        return ui.json(&json!({
            "id": made.id.as_str(),
            "lang": given.lang.as_str(),
            "folder": made.folder,
            "files": made.files,
            "sdk": { "path": made.sdk, "passed_over": passed_over },
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

/// Makes sure that no stranger's link leads what is made in a folder, which need not be there yet, out of
/// the project that the link lies in.
pub(super) fn stays_in_project(
    home: Option<&Home>,
    flag: &str,
    into: &Path,
) -> Result<(), Failure> {
    let own = home.map(Home::folders).unwrap_or_default();
    // Of the way to what is to be made there.
    let made = into.join("new");
    let leads_out = ReadScope::of_links(&own, &made);
    let leads_out = leads_out.map_err(|error| Failure::usage(error.to_string()))?;
    let Some(project) = leads_out else { return Ok(()) };
    let shown = text::one_line(&into.display().to_string());
    let failure = Failure::usage(format!(
        "{shown} leads out of its project by a link, so nothing is made there"
    ));
    let outside = project.outside(&made);
    let outside = outside.as_deref().and_then(Path::parent);
    Err(match outside.and_then(reload::typed) {
        Some(real) => failure.hint(format!("if that folder is meant, name it: `{flag} {real}`")),
        None => failure,
    })
}

/// What the new folder lies in that looks like a checkout of toolhost.
struct Surroundings {
    /// Its folder `sdk`, if the project was trusted.
    trusted: Option<PathBuf>,
    /// Its SDK, if it was not, and is a stranger's.
    passed_over: Option<PathBuf>,
}

impl Surroundings {
    fn find(home: Option<&Home>, given: &NewArguments) -> Surroundings {
        let into = std::path::absolute(&given.dir).unwrap_or_else(|_| given.dir.clone());
        let there = into.ancestors().find_map(|folder| fs::canonicalize(folder).ok());
        let there = there.unwrap_or_default();
        // Where links lead; out of the project, that is not looked at.
        let sdk = |folder: &Path| {
            let sdk = folder.join(given.lang.sdk_folder());
            match ReadScope::of_links(&[], &sdk.join("new")).ok()? {
                Some(project) => Some(Err(project.outside(&sdk)?)),
                None => fs::canonicalize(sdk).ok().map(Ok),
            }
        };
        let sdk = match there.ancestors().find_map(sdk) {
            Some(Ok(sdk)) => sdk,
            Some(Err(outside)) => {
                return Surroundings { trusted: None, passed_over: Some(outside) };
            }
            None => return Surroundings { trusted: None, passed_over: None },
        };
        let known = fs::canonicalize(Path::new(BUILT_FROM).join(given.lang.sdk_folder()));
        if home.is_some_and(|home| source::trusted_project(home, &sdk).is_some()) {
            return Surroundings { trusted: sdk.parent().map(Path::to_owned), passed_over: None };
        }
        let is_strange = known.map_or(true, |known| known != sdk);
        Surroundings { trusted: None, passed_over: Some(sdk).filter(|_| is_strange) }
    }
}

/// Remembers that the plugin is the user's own, so that building it needs no answer.
fn remember(home: &Home, folder: &Path) {
    let remembered =
        fs::canonicalize(folder).map_err(|error| error.to_string()).and_then(|folder| {
            trust_store::record_consent(&home.state, &folder, Consent::Made)
                .map_err(|error| error.to_string())
        });
    if let Err(error) = remembered {
        ui::error_line(&format!("warning: building it will ask first: {error}"));
    }
}

/// The commands to go on with.
fn next(made: &Scaffolded) -> [String; 3] {
    let folder = quoted(&as_source(&made.folder).to_string_lossy());
    [
        format!("toolhost dev {folder}"),
        format!("toolhost check {folder}"),
        format!("cd {} && {}", quoted(&shown(&made.folder).to_string_lossy()), made.test_command),
    ]
}

/// The folder as a person would name it.
fn shown(folder: &Path) -> PathBuf {
    folder.strip_prefix(".").unwrap_or(folder).to_owned()
}

/// The folder as commands take a source: with a slash.
fn as_source(folder: &Path) -> PathBuf {
    let folder = shown(folder);
    if source::is_path(&folder) { folder } else { Path::new(".").join(folder) }
}

fn failure(error: &ScaffoldError) -> Failure {
    Failure::usage(error.to_string())
}
