//! What is shown: loads, answers, and calls of others.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::audit::in_words;
use super::super::failure::Failure;
use super::super::ui::{self, Ui};
use super::pane::{OutputPane, millis};
use super::work::DevSource;
use toolhost::Host;
use toolhost_core::tool::Call;
use toolhost_sources::reload::SourceStatus;
use toolhost_state::audit::Follower;

/// Lines of a changed answer that are shown.
const LINES_MAX: usize = 40;

/// Loads that were told.
#[derive(Default)]
pub(super) struct Told(HashMap<PathBuf, String>);

impl Told {
    /// Shows what became of a build. Tells whether it serves.
    pub(super) fn load(
        &mut self,
        ui: &Ui,
        path: &Path,
        status: Option<&SourceStatus>,
        built: Duration,
        loaded: Duration,
    ) -> Result<bool, Failure> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(status) = status else {
            ui::error_line(&format!("{name}: not loaded in time; `toolhost doctor` may say why"));
            return Ok(false);
        };
        let times = format!("built in {}, loaded in {}", millis(built), millis(loaded));
        let ready = match &status.state {
            Ok(ready) => ready,
            Err(reason) => {
                ui::error_line(&format!("{name}: not loaded ({times}): {reason}"));
                if status.serving().is_some() {
                    ui::error_line("the build before keeps serving");
                }
                return Ok(false);
            }
        };
        let digest = ready.facts.digest.to_string();
        if let Some(twin) = &ready.same_as {
            ui::error_line(&format!(
                "{name}: not counted, {} has the same bytes; remove one of them",
                twin
            ));
            return Ok(false);
        }
        if self.0.insert(path.to_owned(), digest.clone()).as_ref() == Some(&digest) {
            ui.line(&format!("{name}: the same as before ({})", millis(built)))?;
            return Ok(ready.pending.is_none());
        }
        let tools: Vec<&str> = ready.outline.tools.keys().map(String::as_str).collect();
        let state = status.status();
        ui.line(&format!("{name}: {state}, {} ({times})", tools.join(", ")))?;
        for change in &ready.changes {
            ui.line(&format!("  {change}"))?;
        }
        for problem in &ready.grants {
            ui.line(&format!("  note: {problem}"))?;
        }
        if let Some(pending) = &ready.pending {
            ui.line(&format!("  it waits: {}; {}", pending.why, pending.meanwhile))?;
            let lines = pending.repair.iter().chain(&pending.suspicions);
            for line in lines.chain(&pending.differences) {
                ui.line(&format!("  {line}"))?;
            }
        }
        Ok(ready.pending.is_none())
    }
}

/// Calls that are made after each load.
pub(super) struct Answers {
    calls: Vec<(String, String)>,
    before: Vec<Option<String>>,
}

impl Answers {
    pub(super) fn new(calls: Vec<(String, String)>) -> Answers {
        let before = vec![None; calls.len()];
        Answers { calls, before }
    }

    /// Makes the calls, and shows each answer, or how it has changed. Tells whether all have one.
    pub(super) async fn ask(&mut self, ui: &Ui, host: &Host) -> Result<bool, Failure> {
        let mut all_well = true;
        for ((tool, arguments), before) in self.calls.iter().zip(&mut self.before) {
            let start = Instant::now();
            let outcome = host.call(Call::new(tool, arguments.clone())).await;
            let took = millis(start.elapsed());
            all_well &= outcome.result.is_ok();
            let text = pretty(&outcome.to_json_text());
            match before.replace(text.clone()) {
                Some(before) if before == text => {
                    ui.line(&format!("{tool}: as before ({took})"))?
                }
                Some(before) => {
                    ui.line(&format!("{tool}: another answer ({took})"))?;
                    for line in changed(&before, &text).iter().take(LINES_MAX) {
                        ui.line(&format!("  {line}"))?;
                    }
                }
                None => {
                    ui.line(&format!("{tool} ({took})"))?;
                    for line in text.lines().take(LINES_MAX) {
                        ui.line(&format!("  {line}"))?;
                    }
                }
            }
            if let Err(error) = &outcome.result
                && let Some(stderr) = &error.stderr
            {
                ui::error_line(&format!("the tail of its stderr:\n{stderr}"));
            }
        }
        Ok(all_well)
    }
}

/// Shows calls of the plugin, by whatever host, as the audit log has them.
pub(super) fn calls(
    ui: &Ui,
    log: &mut Follower,
    work: &DevSource,
    pane: &mut OutputPane,
) -> Result<(), Failure> {
    let unreadable =
        |error: std::io::Error| Failure::usage(format!("the audit log cannot be read: {error}"));
    for record in log.read().map_err(unreadable)?.into_iter().flatten() {
        let source = record.str("source").strip_prefix("plugin:").unwrap_or_default();
        let is_own = ["call", "denial"].contains(&record.kind.as_str()) && work.makes(source);
        if is_own {
            pane.hide();
            if pane.saw(&record) {
                ui.line(&in_words(&record))?;
            }
        }
    }
    Ok(())
}

fn pretty(text: &str) -> String {
    let value: Result<serde_json::Value, _> = serde_json::from_str(text);
    value.map_or_else(|_| text.to_owned(), |value| format!("{value:#}"))
}

/// The lines that differ: from the first to the last one that does.
fn changed(before: &str, after: &str) -> Vec<String> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    let same = |left: &mut dyn Iterator<Item = &&str>, right: &mut dyn Iterator<Item = &&str>| {
        left.zip(right).take_while(|(left, right)| left == right).count()
    };
    let start = same(&mut before.iter(), &mut after.iter());
    let end = same(&mut before[start..].iter().rev(), &mut after[start..].iter().rev());
    let gone = before[start..before.len() - end].iter().map(|line| format!("- {line}"));
    let new = after[start..after.len() - end].iter().map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_shown() {
        assert_eq!(changed("a\nb\nc", "a\nx\ny\nc"), ["- b", "+ x", "+ y"]);
        assert_eq!(changed("a", "a\na"), ["+ a"]);
        assert!(changed("a\nb", "a\nb").is_empty());
    }
}
