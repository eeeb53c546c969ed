//! `toolhost build`

use std::path::PathBuf;

use serde_json::{Value, json};

use super::failure::Failure;
use super::home::Home;
use super::ui::Ui;
use crate::author::{self, BuildError, BuildRequest, Built};
use crate::lock;

/// Builds Rust plugins from source into a plugins folder.
///
/// DIR is a Cargo package, or a workspace of several. The toolchain is looked for along PATH.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The folder with the Cargo.toml.
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Where to put the components.
    #[arg(long, value_name = "DIR", default_value = "plugins")]
    out: PathBuf,

    /// Put them into the user's folder of bundled plugins instead, so that they are found from
    /// any directory; implies `--bundled`. `make install` uses this.
    #[arg(long, conflicts_with = "out")]
    install: bool,

    /// Remember what was built as bundled with toolhost: it may have reserved names. `make`
    /// uses this for toolhost's own plugins.
    #[arg(long)]
    bundled: bool,
}

pub(super) async fn run(ui: &Ui, arguments: &Arguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let out = if arguments.install { &home.bundled } else { &arguments.out };
    let request = BuildRequest {
        folder: arguments.folder.clone(),
        out: out.clone(),
        environment: std::env::vars_os().collect(),
        show_messages: true,
    };
    let built = author::build(&request).await.map_err(|error| failure(&error))?;
    if arguments.bundled || arguments.install {
        let digests: Vec<(String, String)> =
            built.iter().map(|built| (built.id.to_string(), built.digest.to_string())).collect();
        lock::record_bundled(&home.state, &digests)
            .map_err(|error| Failure::usage(error.to_string()))?;
    }
    if ui.json {
        return ui.json(&built.iter().map(to_json).collect());
    }
    for Built { path, bytes, .. } in &built {
        ui.line(&format!("built {} ({bytes} bytes)", path.display()))?;
    }
    Ok(())
}

fn to_json(built: &Built) -> Value {
    json!({
        "id": built.id.as_str(),
        "path": built.path,
        "digest": format!("sha256:{}", built.digest),
        "bytes": built.bytes,
    })
}

pub(super) fn failure(error: &BuildError) -> Failure {
    match error {
        BuildError::Compiler { .. }
        | BuildError::Contract { .. }
        | BuildError::Component { .. } => Failure::rejected(error.to_string()),
        _ => Failure::usage(error.to_string()),
    }
}
