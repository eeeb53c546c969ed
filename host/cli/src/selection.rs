//! The flags that choose a session's toolsets: one place for every command that has them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::failure::Failure;
use super::ui;
use toolhost::Host;
use toolhost_core::text;
use toolhost_kernel::session::{Session, SessionSettings};
use toolhost_mcp::server::Offer;
use toolhost_policy::toolset::{Selected, Selection, Toolsets};
use toolhost_state::config::Config;

/// What the presets of platforms are called, before the platform's name.
const PRESET: &str = "hermes-";

/// Which toolsets a session has.
#[derive(Debug, Default, clap::Args)]
pub(super) struct SelectionFlags {
    /// Enable these toolsets and no others; may be repeated. Without it every toolset is enabled;
    /// an empty string enables none.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    enable: Option<Vec<String>>,

    /// Take these toolsets away, whatever is enabled; may be repeated.
    #[arg(long, value_name = "C", value_delimiter = ',')]
    disable: Vec<String>,

    /// Enable what a platform such as `cli` or `telegram` has: what `[platforms.NAME]` in
    /// toolhost.toml says, or else its preset.
    #[arg(long, value_name = "NAME", conflicts_with = "enable")]
    platform: Option<String>,
}

impl SelectionFlags {
    /// Makes a session with these toolsets.
    pub(super) fn session(&self, host: &Host) -> Result<Arc<Session>, Failure> {
        self.make(host, false)
    }

    /// The same without the host's own tools, which are of no use to whoever keeps no session.
    pub(super) fn one_call(&self, host: &Host) -> Result<Arc<Session>, Failure> {
        self.make(host, true)
    }

    fn make(&self, host: &Host, is_one_call: bool) -> Result<Arc<Session>, Failure> {
        let selection = self.selection(host);
        let settings = SessionSettings { selection, is_one_call, ..SessionSettings::default() };
        host.session(settings).map_err(|error| Failure::fault(error.to_string()))
    }

    /// What a server offers; of a platform it finds out when plugins have loaded.
    pub(super) fn offer(&self, config: &Config) -> Offer {
        let disabled = names(&self.disable);
        match &self.platform {
            None => {
                Offer::Toolsets(Selection { enabled: self.enable.as_deref().map(names), disabled })
            }
            Some(name) => {
                let saved = config.platforms.get(name).cloned().unwrap_or_default();
                Offer::Platform { name: name.clone(), saved, disabled }
            }
        }
    }

    /// The toolsets that are meant. Says on stderr if the platform is none.
    pub(super) fn selection(&self, host: &Host) -> Selection {
        let enabled = match &self.platform {
            Some(platform) => Some(of_platform(host, platform)),
            None => self.enable.as_deref().map(names),
        };
        Selection { enabled, disabled: names(&self.disable) }
    }

    /// The platform that was named.
    pub(super) fn platform(&self) -> Option<&str> {
        self.platform.as_deref()
    }
}

/// Says on stderr what a selection does not come to: names that are no toolsets, and presets of
/// which less is taken away than one may think.
pub(super) fn warn(selected: &Selected) {
    for unknown in &selected.unknown {
        ui::error_line(&format!("warning: {unknown}"));
    }
    for advisory in &selected.advisories {
        ui::error_line(&format!("note: {advisory}"));
    }
}

/// The names in a list of a command line; `a, b` and `a,,b` are what they look like.
fn names(given: &[String]) -> Vec<String> {
    given
        .iter()
        .map(|name| name.trim())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn of_platform(host: &Host, name: &str) -> Vec<String> {
    let (config, catalog) = (host.config(), host.catalog());
    let toolsets = Toolsets::new(&config.toolsets, catalog.toolsets());
    let saved = config.platforms.get(name);
    let all = toolsets.names();
    let presets = all.iter().filter_map(|toolset| toolset.strip_prefix(PRESET));
    let known: BTreeSet<&str> =
        presets.chain(config.platforms.keys().map(String::as_str)).collect();
    if !known.contains(name) && !known.contains(name.replace('_', "-").as_str()) {
        let shown = text::one_line(&text::cut(name, 64));
        let near = match text::nearest(&text::cut(name, 64), known).as_slice() {
            [] => String::new(),
            near => format!("; did you mean `{}`?", near.join("` or `")),
        };
        ui::error_line(&format!(
            "warning: Unknown platform: {shown}, which has what `cli` has{near}"
        ));
    }
    toolsets.platform(name, &saved.cloned().unwrap_or_default(), &[])
}
