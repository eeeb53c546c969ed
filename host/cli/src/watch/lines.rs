//! One line for each event, for pipes and logs.

use serde_json::json;

use super::super::audit::in_words;
use super::super::failure::Failure;
use super::super::ui::{self, Ui};
use super::view::{Inventory, PluginRow};
use super::{TICK, WatchSource, WatchView, unreadable};

/// Prints plugins, and then events as they come.
pub(super) async fn run(ui: &Ui, source: &WatchSource<'_>) -> Result<(), Failure> {
    // From now on: what was before, `toolhost audit` shows.
    let mut log = source.follow(0)?;
    let notice = source.beginning()?;
    let mut known =
        ui.while_waiting(source.known(), tokio::sync::watch::channel(Default::default()).1).await?;
    let mut view = WatchView::new(None);
    view.know(known.clone());
    begin(ui, &known)?;
    ui::error_line(&notice);
    loop {
        let mut is_news = false;
        loop {
            let records = log.read().map_err(|error| unreadable(&source.folder(), &error))?;
            if records.is_empty() {
                break;
            }
            for record in records {
                match record {
                    Ok(record) => {
                        let changes = view.note(&record, "");
                        is_news |= changes;
                        if record.kind == "load" && !changes {
                            continue;
                        }
                        if ui.json {
                            ui.json_text(&record.text)?;
                        } else {
                            ui.line(&in_words(&record))?;
                        }
                    }
                    Err(damage) => ui::error_line(&format!(
                        "warning: a line of the audit log is damaged: {damage}; see `toolhost audit verify`"
                    )),
                }
            }
        }
        let now = if is_news { source.known().await.map(Some) } else { Ok(None) };
        let now = now.unwrap_or_else(|failure| {
            // A file that somebody is about to repair, most likely.
            ui::error_line(&format!(
                "warning: the plugins cannot be looked at: {}",
                failure.message()
            ));
            None
        });
        if let Some(now) = now {
            for plugin in now.plugins.iter().filter(|plugin| !known.plugins.contains(plugin)) {
                show(ui, plugin)?;
            }
            let is_there =
                |plugin: &&PluginRow| now.plugins.iter().any(|other| other.path == plugin.path);
            for plugin in known.plugins.iter().filter(|plugin| !is_there(plugin)) {
                show(ui, &PluginRow { state: "gone".to_owned(), tools: 0, ..plugin.clone() })?;
            }
            view.know(now.clone());
            known = now;
        }
        tokio::time::sleep(TICK).await;
    }
}

/// What there is when it begins.
pub(super) fn begin(ui: &Ui, known: &Inventory) -> Result<(), Failure> {
    known.plugins.iter().try_for_each(|plugin| show(ui, plugin))
}

fn show(
    ui: &Ui,
    PluginRow { source, path, digest, state, tools }: &PluginRow,
) -> Result<(), Failure> {
    if ui.json {
        let digest = digest.as_ref().map(|digest| format!("sha256:{digest}"));
        let plugin = json!({
            "kind": "plugin", "source": source, "path": path, "digest": digest, "state": state,
            "tools": tools,
        });
        return ui.json_text(&plugin.to_string());
    }
    ui.line(&toolhost_core::text::one_line(&format!("{source}: {state}, {tools} tools")))
}
