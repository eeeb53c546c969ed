//! `toolhost build`

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::failure::Failure;
use super::home::Home;
use super::source;
use super::ui::Ui;
use toolhost_author::{self as author, BuildError, BuildRequest, Built};
use toolhost_state::trust_store;

/// Builds plugins from source into a plugins folder, as components that need nothing else.
///
/// SOURCE is a Cargo package, a workspace of several, or a script: a folder with plugin.py,
/// plugin.js, plugin.mjs or plugin.ts, or a single such file of any name. A script runs without
/// being built; a component of it is for hosts without a runner, for third-party packages, and for
/// what is too large or too slow to be loaded anew for each call.
///
/// Building runs the code of the source's author as you, outside the sandbox: build scripts, macros,
/// what a script imports. So it asks first, once for each source, unless `toolhost new` made it or it
/// lies in a project that you trust.
///
/// Rust's toolchain and Node.js are looked for along PATH; what else scripts take is where `make`
/// put it. Nothing is installed: what is missing is named, with the command that installs it.
#[derive(Debug, clap::Args)]
pub(super) struct BuildArguments {
    /// A folder with Cargo.toml or the main file of a script; or a script's file. A path: `./json`.
    source: PathBuf,

    /// Where to put the components.
    #[arg(long, value_name = "DIR", default_value = "plugins")]
    out: PathBuf,

    /// A folder of pure Python packages that a Python script imports, such as
    /// `pip install --target DIR` makes; may be repeated. JavaScript's are taken from node_modules.
    #[arg(long, value_name = "DIR")]
    packages: Vec<PathBuf>,

    /// The folder `sdk` of toolhost's repository, in place of the one that `make install` copied.
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,

    /// Put them into the user's folder of bundled plugins instead, so that they are found from
    /// any directory; implies `--bundled`. `make install` uses this.
    #[arg(long, conflicts_with = "out")]
    install: bool,

    /// Remember what was built as bundled with toolhost: it may have reserved names. `make`
    /// uses this for toolhost's own plugins.
    #[arg(long)]
    bundled: bool,

    /// Do not ask whether its author's code may run.
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(ui: &Ui, arguments: &BuildArguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let out = if arguments.install { &home.bundled } else { &arguments.out };
    let mut places = home.building();
    if let Some(sdk) = &arguments.sdk {
        // Absolute, since builders run elsewhere.
        let sdk = std::path::absolute(sdk).map_err(|error| Failure::usage(error.to_string()))?;
        places.sdks = vec![sdk];
    }
    let named = source::read(&arguments.source)?;
    // What is asked about is what is built, wherever links lead by then.
    let real = source::real(&home, named)?;
    if !author::is_source(&real) {
        return Err(failure(&BuildError::NoSource(named.to_owned())));
    }
    source::may_build(ui, &home, &real, arguments.yes)?;
    source::may_write(out)?;
    super::new::stays_in_project(Some(&home), "--out", out)?;
    let request = BuildRequest {
        source: real,
        out: out.clone(),
        places,
        stage: Some(home.cache.clone()),
        packages: arguments.packages.clone(),
        environment: std::env::vars_os().collect(),
        show_messages: true,
    };
    let built = author::build(&request).await.map_err(|error| failure(&error))?;
    if arguments.bundled || arguments.install {
        let digests: Vec<(String, String)> =
            built.iter().map(|built| (built.id.to_string(), built.digest.to_string())).collect();
        trust_store::record_bundled(record_of(&home, arguments.install)?, &digests)
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

/// Where it is recorded what is bundled: beside this program; or in the home, of what is installed
/// there.
pub(super) fn record_of(home: &Home, is_installed: bool) -> Result<&Path, Failure> {
    let folder = if is_installed { Some(&home.state) } else { home.built.as_ref() };
    folder.map(PathBuf::as_path).ok_or_else(|| {
        Failure::usage("this program cannot find its own path, beside which it would be recorded")
    })
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
        | BuildError::Refused { .. }
        | BuildError::Component { .. } => Failure::failed(error.to_string()),
        _ => Failure::usage(error.to_string()),
    }
}
