//! `toolhost doctor`

use std::path::Path;

use serde_json::json;

use super::failure::Failure;
use super::home::Home;
use super::ui::Ui;
use super::{Global, loaded_host};
use crate::author::Toolchain;

/// Says how this toolhost is set up, and what is wrong with it.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) async fn run(ui: &Ui, global: &Global, _: &Arguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let settings = home.settings(global)?;
    let environment: Vec<_> = std::env::vars_os().collect();
    let mut rows = vec![("configuration", shown(&home.operators_file(global)))];
    rows.extend(settings.folders.iter().map(|folder| ("plugins folder", shown(&folder.path))));
    rows.push(("state", shown(&home.state)));
    rows.push(("compiled components", shown(&home.components())));
    let compiling = match &settings.compiler {
        Some(_) => "in a process of its own for each component",
        None => {
            "WITHIN THE HOST, which a hostile component can exhaust: this program cannot find its own path"
        }
    };
    rows.push(("compiling", compiling.to_owned()));
    let building = Toolchain::find(&environment).await;
    rows.push((
        "building plugins",
        building.map_or_else(|error| error.to_string(), |_| "possible".to_owned()),
    ));
    let host = loaded_host(ui, global).await?;
    let sources = host.loaded().await;
    let failed = sources.iter().filter(|status| status.state.is_err()).count();
    let tools = host.catalog().tools().len();
    rows.push(("plugins", format!("{} files, {failed} not loaded, {tools} tools", sources.len())));
    if ui.json {
        let rows: Vec<_> =
            rows.iter().map(|(what, how)| json!({ "what": what, "how": how })).collect();
        return ui.json(&json!(rows));
    }
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(what, how)| vec![what.to_owned(), how]).collect();
    ui.table(&["WHAT", "HOW"], &rows)
}

fn shown(path: &Path) -> String {
    let missing = if path.exists() { "" } else { " (not there)" };
    format!("{}{missing}", path.display())
}
