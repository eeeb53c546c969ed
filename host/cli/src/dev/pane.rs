//! The last line of a terminal: what the plugin's calls come to so far.

use std::collections::VecDeque;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use toolhost_state::audit::Record;

/// Calls whose times count; of more, the latest.
const CALLS_MAX: usize = 1_000;

/// Calls of the plugin by whatever host, in sum. Where stderr is no terminal, nothing is drawn.
pub(super) struct OutputPane {
    bar: Option<ProgressBar>,
    calls: u64,
    failed: u64,
    /// While what was saved is broken: how many calls there were, and how many had failed, when that began.
    broken_since: Option<(u64, u64)>,
    times: VecDeque<Duration>,
}

impl OutputPane {
    pub(super) fn new() -> OutputPane {
        OutputPane { bar: None, calls: 0, failed: 0, broken_since: None, times: VecDeque::new() }
    }

    /// Says whether what was saved is broken. While it is, calls are counted and not shown, so that the
    /// compiler's errors stay where they are; what they came to is returned when it is whole again.
    pub(super) fn broken(&mut self, is_broken: bool) -> Option<String> {
        if is_broken {
            self.broken_since.get_or_insert((self.calls, self.failed));
            return None;
        }
        let (calls, failed) = self.broken_since.take()?;
        let (calls, failed) = (self.calls - calls, self.failed - failed);
        (calls > 0).then(|| format!("calls while it was broken: {calls}, failed: {failed}"))
    }

    /// Counts a call. Tells whether it is to be shown.
    pub(super) fn saw(&mut self, record: &Record) -> bool {
        if record.kind == "call" {
            self.count(record);
        }
        self.broken_since.is_none()
    }

    fn count(&mut self, record: &Record) {
        self.calls += 1;
        self.failed += u64::from(record.str("code") != "ok");
        self.times.push_back(Duration::from_micros(record.number("wall_us")));
        if self.times.len() > CALLS_MAX {
            self.times.pop_front();
        }
    }

    /// Makes way for other lines.
    pub(super) fn hide(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Draws it again, if it is not there.
    pub(super) fn show(&mut self) {
        if self.bar.is_some() {
            return;
        }
        let bar = ProgressBar::no_length();
        let style = ProgressStyle::with_template("{msg}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_message(self.line());
        bar.tick();
        self.bar = Some(bar);
    }

    fn line(&self) -> String {
        let state = if self.broken_since.is_some() { "broken, see above; " } else { "" };
        format!("{state}{}", self.sum())
    }

    fn sum(&self) -> String {
        let Some(last) = self.times.back() else {
            return "no calls yet; Ctrl-C ends".to_owned();
        };
        let mut times: Vec<Duration> = self.times.iter().copied().collect();
        times.sort_unstable();
        let [p50, p99] = [50, 99].map(|share| times[(times.len() - 1) * share / 100]);
        format!(
            "calls: {}, failed: {}; p50 {}, p99 {}, the last {}; Ctrl-C ends",
            self.calls,
            self.failed,
            millis(p50),
            millis(p99),
            millis(*last)
        )
    }
}

/// A time as a person reads it.
pub(super) fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    if millis < 10.0 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_summed() {
        let mut pane = OutputPane::new();
        assert_eq!(pane.line(), "no calls yet; Ctrl-C ends");
        (pane.calls, pane.failed) = (3, 1);
        pane.times.extend([9, 1, 20].map(Duration::from_millis));
        assert_eq!(
            pane.line(),
            "calls: 3, failed: 1; p50 9.0 ms, p99 9.0 ms, the last 20 ms; Ctrl-C ends"
        );
    }
}
