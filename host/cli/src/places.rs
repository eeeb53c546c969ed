//! `toolhost where`

use std::path::Path;

use serde_json::{Map, json};

use super::Global;
use super::failure::Failure;
use super::home::Home;
use super::ui::Ui;

/// Prints where toolhost's files are, whether they exist or not.
///
/// TOOLHOST_HOME moves all of them, the XDG variables each kind.
#[derive(Debug, clap::Args)]
pub(super) struct PlacesArguments {
    /// Print one of the paths and nothing else.
    what: Option<WherePlace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WherePlace {
    /// The file an operator writes.
    Configuration,
    /// The user's own plugins, found from any directory.
    Plugins,
    /// The plugins that `make install` put there.
    Bundled,
    /// The runners of scripts that `make install` put there.
    Runners,
    /// What `make install` puts there: runners, SDKs, tools.
    Data,
    /// What toolhost remembers.
    State,
    /// What toolhost can make anew.
    Cache,
}

pub(super) fn run(ui: &Ui, global: &Global, arguments: &PlacesArguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let configuration = home.operators_file(global);
    let paths: [(WherePlace, &str, &Path); 7] = [
        (WherePlace::Configuration, "configuration", &configuration),
        (WherePlace::Plugins, "plugins", &home.plugins),
        (WherePlace::Bundled, "bundled", &home.bundled),
        (WherePlace::Runners, "runners", &home.runners),
        (WherePlace::Data, "data", &home.data),
        (WherePlace::State, "state", &home.state),
        (WherePlace::Cache, "cache", &home.cache),
    ];
    let chosen = paths.iter().filter(|(what, ..)| arguments.what.is_none_or(|only| only == *what));
    if ui.json {
        let shown: Map<_, _> =
            chosen.map(|(_, name, path)| ((*name).to_owned(), json!(path))).collect();
        return ui.json(&shown.into());
    }
    for (_, name, path) in chosen {
        match arguments.what {
            Some(_) => ui.line(&path.display().to_string())?,
            None => ui.line(&format!("{name:<13}  {}", path.display()))?,
        }
    }
    Ok(())
}
