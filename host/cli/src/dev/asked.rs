//! What is asked before bytes have what others were granted: a copy that comes in place of a plugin, and
//! a script in a plugins folder that is not what was trusted when `dev` starts.

use std::path::Path;

use super::super::Global;
use super::super::decide::unusable;
use super::super::failure::Failure;
use super::super::home::Home;
use super::super::source;
use super::super::trust;
use super::super::ui::Ui;
use super::work::DevSource;
use crate::loaded_anew;
use toolhost as host;
use toolhost::{HostSettings, SourceStatus};
use toolhost_core::tool::{PluginAddress, PluginId};
use toolhost_sources::reload;
use toolhost_state::config::PluginConfig;
use toolhost_wasm::OwnSource;
use toolhost_wasm::script;

/// Makes sure that a copy of a script may have what the plugin was granted in whose place it comes.
pub(super) fn may_be_put(
    ui: &Ui,
    home: &Home,
    global: &Global,
    work: &DevSource,
    yes: bool,
) -> Result<(), Failure> {
    let Some(there) = There::of(home, global, work)? else { return Ok(()) };
    let grants = there.in_words();
    match grants.is_empty() {
        true => Ok(()),
        false => {
            let words = (there.address.id.as_str(), &*grants);
            source::may_have_grants(ui, home, work.source(), yes, words)
        }
    }
}

/// The script in a plugins folder that is worked at. What lies there now is not saved while this runs: if
/// it waits for somebody to trust it, they are asked.
pub(super) async fn in_place(
    ui: &Ui,
    home: &Home,
    global: &Global,
    work: &DevSource,
    yes: bool,
) -> Result<Option<OwnSource>, Failure> {
    let Some(path) = work.in_place() else { return Ok(None) };
    let Some(there) = There::of(home, global, work)? else {
        return Ok(Some(OwnSource { path, before: None }));
    };
    let mut settings = home.settings(global)?;
    settings.folders.retain(|folder| folder.real().is_ok_and(|real| real == work.out()));
    let digest = host::digest(&path, &settings).await;
    let digest = digest.map_err(|error| Failure::inspect(&path.display().to_string(), &error))?;
    if *digest != *there.trusted
        && !there.in_words().is_empty()
        && let Some(waits) = waiting(ui, settings, &path).await?
    {
        there.ask(ui, &waits, yes)?;
        // Only what was shown; what comes later is saved while this runs.
        let shown = waits.state.as_ref().ok().map(|ready| &ready.facts.digest);
        let before = (shown != Some(&digest)).then_some(digest);
        return Ok(Some(OwnSource { path, before }));
    }
    Ok(Some(OwnSource { path, before: Some(digest) }))
}

/// What lies there, if it waits for somebody to trust it and nothing else.
async fn waiting(
    ui: &Ui,
    settings: HostSettings,
    path: &Path,
) -> Result<Option<SourceStatus>, Failure> {
    let host = loaded_anew(ui, settings).await?;
    let statuses = host.loaded().await;
    let status = statuses.iter().find(|status| status.location.is(path));
    let waits = |status: &&SourceStatus| {
        let pending = status.state.as_ref().ok().and_then(|ready| ready.pending.as_ref());
        pending.is_some_and(|pending| pending.repair.is_none() && pending.suspicions.is_empty())
    };
    Ok(status.filter(waits).cloned())
}

/// The plugin that was trusted where the script is to serve.
struct There {
    address: PluginAddress,
    /// The digest that was trusted.
    trusted: String,
    /// What it may.
    said: PluginConfig,
}

impl There {
    fn of(home: &Home, global: &Global, work: &DevSource) -> Result<Option<There>, Failure> {
        let Ok(id) = PluginId::from_stem(&script::stem(work.source())) else { return Ok(None) };
        let remembered = home.remembered().map_err(unusable)?;
        let known = remembered.lock().plugin(work.out(), id.as_str());
        let Some(trusted) = known.and_then(|known| known.trusted.clone()) else { return Ok(None) };
        let address = PluginAddress::in_folder(work.out(), id);
        let said = reload::said(&home.config_of(global, work.out()), &address, &remembered);
        Ok(Some(There { address, trusted, said }))
    }

    /// What it may, each in the words of a command.
    fn in_words(&self) -> Vec<String> {
        let mut grants = self.said.grants.flags();
        if self.said.allow_tool_override {
            grants.push("may replace tools of others".to_owned());
        }
        grants
    }

    fn ask(&self, ui: &Ui, waits: &SourceStatus, yes: bool) -> Result<(), Failure> {
        let path = &waits.location;
        ui.line(&format!(
            "{path} is not what was trusted with what it was granted: {}",
            self.in_words().join("; ")
        ))?;
        if let Ok(ready) = &waits.state {
            trust::show::plugin(ui, &self.said, waits, ready)?;
        }
        match if yes { Some(true) } else { ui.ask("Trust these bytes?")? } {
            Some(true) => Ok(()),
            Some(false) => {
                Err(Failure::rejected("nothing is trusted, so nothing is built or loaded"))
            }
            None => Err(Failure::rejected(
                "nobody can be asked here, so nothing is trusted, and nothing is built or loaded",
            )
            .hint("look at what differs; to trust these bytes, add `--yes`")),
        }
    }
}
