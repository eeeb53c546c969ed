//! Draws the view on a terminal.

use std::time::SystemTime;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table, TableState, Wrap};

use super::view::{Pane, WatchView};

/// Rows below which only the pane where a person is fits.
const ROWS_MIN: u16 = 24;
/// Lines of a notice.
const NOTICE_ROWS: u16 = 2;
/// Rows of a pane around its cells: borders and headings.
const FRAME_ROWS: u16 = 3;
/// Rows that every pane keeps.
const PANE_ROWS_MIN: u16 = 4;
/// Between two columns.
const SPACING: u16 = 2;
/// Characters of a cell, but for the first of a row, which is shown whole.
const CELL_CHARS_MAX: u16 = 40;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, view: &WatchView, now: SystemTime) {
    let notice = view.notice();
    let rows = if notice.is_some() { NOTICE_ROWS } else { 0 };
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(rows),
        Constraint::Min(3),
        Constraint::Length(1),
    ]);
    let [head, note, panes, foot] = parts.areas(frame.area());
    frame.render_widget(Line::from(format!("toolhost watch  {}", view.summary())).bold(), head);
    if let Some(notice) = notice {
        frame.render_widget(Paragraph::new(notice).wrap(Wrap { trim: true }), note);
    }
    if frame.area().height < ROWS_MIN {
        draw_pane(frame, view, view.pane(), panes, now);
    } else {
        // As many plugins as there are, as long as the others keep a few rows.
        let plugins = u16::try_from(view.rows(Pane::Plugins, now).len()).unwrap_or(u16::MAX);
        let most = panes.height.saturating_sub(2 * PANE_ROWS_MIN);
        let plugins = plugins.saturating_add(FRAME_ROWS).clamp(PANE_ROWS_MIN.min(most), most);
        let shares = [Constraint::Length(plugins), Constraint::Fill(1), Constraint::Fill(1)];
        let areas: [Rect; 3] = Layout::vertical(shares).areas(panes);
        for (pane, area) in Pane::ALL.into_iter().zip(areas) {
            draw_pane(frame, view, pane, area, now);
        }
    }
    frame.render_widget(footer(view), foot);
}

fn draw_pane(frame: &mut Frame<'_>, view: &WatchView, pane: Pane, area: Rect, now: SystemTime) {
    let rows = view.rows(pane, now);
    let is_active = view.pane() == pane;
    // A mark, since colours and weights are not seen everywhere.
    let mark = if is_active { "> " } else { "  " };
    let title = format!("{mark}{} ({}) ", pane.title(), rows.len());
    let block = Block::bordered().title(if is_active { title.bold() } else { title.into() });
    let columns = columns(pane, &rows, area.width.saturating_sub(2));
    let selected = (!rows.is_empty()).then(|| view.selected(pane, rows.len()));
    let kept = |cells: Vec<String>| Row::new(columns.iter().map(move |(at, _)| cells[*at].clone()));
    let headings = pane.headings().iter().map(|heading| (*heading).to_owned()).collect();
    let mut widths: Vec<Constraint> =
        columns.iter().map(|(_, width)| Constraint::Length(*width)).collect();
    if let Some(last) = widths.last_mut() {
        *last = Constraint::Fill(1);
    }
    let table = Table::new(rows.into_iter().map(&kept), widths)
        .header(kept(headings).style(Style::new().bold()))
        .column_spacing(SPACING)
        .block(block)
        .row_highlight_style(if is_active { Style::new().reversed() } else { Style::new() });
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(selected));
}

/// The columns that fit, each with its width: that of its widest cell. Where not all fit, those go
/// first that say least, and what a row is about is never cut.
fn columns(pane: Pane, rows: &[Vec<String>], available: u16) -> Vec<(usize, u16)> {
    let headings = pane.headings();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        let widest = cells.chain([headings[column].len()]).max().unwrap_or_default();
        let most = if column == 0 { u16::MAX } else { CELL_CHARS_MAX };
        (column, u16::try_from(widest).unwrap_or(u16::MAX).min(most))
    };
    let mut columns: Vec<(usize, u16)> = (0..headings.len()).map(width).collect();
    let total = |columns: &[(usize, u16)]| {
        columns.iter().fold(0_u16, |sum, (_, width)| sum.saturating_add(width + SPACING))
    };
    for least in pane.dispensable() {
        // The last one takes what is left.
        if total(&columns) <= available.saturating_add(SPACING) {
            break;
        }
        columns.retain(|(column, _)| column != least);
    }
    columns
}

fn footer(view: &WatchView) -> Line<'static> {
    match view.filter() {
        Some((filter, true)) => {
            Line::from(format!("filter: {filter}_  (enter keeps it, esc clears it)"))
        }
        Some((filter, false)) => {
            Line::from(format!("filter: {filter}  (esc clears it)  q quits  tab next pane"))
        }
        None => Line::from(
            "q quits  tab next pane  up/down moves  / filters  r looks at the plugins again",
        ),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::view::{Inventory, PluginRow, Press, ToolRow};
    use super::*;

    fn check(view: &WatchView, width: u16, height: u16, expected: &Expect) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, view, SystemTime::UNIX_EPOCH)).expect("drawn");
        let screen = terminal.backend().to_string();
        let lines: String =
            screen.lines().map(|line| format!("{}\n", line.trim_matches('"').trim_end())).collect();
        expected.assert_eq(&lines);
    }

    fn view() -> WatchView {
        let mut view = WatchView::new(Some("Nothing stands in the audit log yet.".into()));
        let plugin = PluginRow {
            source: "plugin:json".into(),
            state: "ready, bundled".into(),
            tools: 2,
            ..PluginRow::default()
        };
        let tool = |name: &str| ToolRow {
            name: name.into(),
            source: "plugin:json".into(),
            state: "ready".into(),
        };
        view.know(Inventory {
            plugins: vec![plugin],
            tools: vec![tool("json_query"), tool("json_schema_infer")],
        });
        view
    }

    #[test]
    fn three_panes_on_a_large_terminal() {
        check(
            &view(),
            100,
            26,
            &expect![[r#"
            toolhost watch  1 plugin, 2 tools; last 5 min: 0 calls, 0 failed, 0 refused
            Nothing stands in the audit log yet.

            ┌> Plugins (1) ────────────────────────────────────────────────────────────────────────────────────┐
            │PLUGIN       STATE           TOOLS  LOADS  RELOADS  LAST LOAD  CALLS  REFUSED                     │
            │plugin:json  ready, bundled  2      0      0        -          0      0                           │
            └──────────────────────────────────────────────────────────────────────────────────────────────────┘
            ┌  Tools (2) ──────────────────────────────────────────────────────────────────────────────────────┐
            │TOOL               SOURCE       STATE  CALLS  FAILED  REFUSED  P50  P99  LAST                     │
            │json_query         plugin:json  ready  0      0       0        -    -    -                        │
            │json_schema_infer  plugin:json  ready  0      0       0        -    -    -                        │
            │                                                                                                  │
            │                                                                                                  │
            │                                                                                                  │
            │                                                                                                  │
            └──────────────────────────────────────────────────────────────────────────────────────────────────┘
            ┌  Events (0) ─────────────────────────────────────────────────────────────────────────────────────┐
            │TIME  KIND  WHAT                                                                                  │
            │                                                                                                  │
            │                                                                                                  │
            │                                                                                                  │
            │                                                                                                  │
            │                                                                                                  │
            │                                                                                                  │
            └──────────────────────────────────────────────────────────────────────────────────────────────────┘
            q quits  tab next pane  up/down moves  / filters  r looks at the plugins again
        "#]],
        );
    }

    #[test]
    fn every_plugin_that_fits_is_shown_with_its_whole_id() {
        let mut view = WatchView::new(None);
        let plugin = |number: usize| PluginRow {
            source: format!("plugin:{number:02}-{}", "x".repeat(37)),
            state: "live, untrusted".into(),
            tools: 2,
            ..PluginRow::default()
        };
        view.know(Inventory { plugins: (0..11).map(plugin).collect(), tools: Vec::new() });
        check(
            &view,
            80,
            24,
            &expect![[r#"
            toolhost watch  11 plugins, 0 tools; last 5 min: 0 calls, 0 failed, 0 refused
            ┌> Plugins (11) ───────────────────────────────────────────────────────────────┐
            │PLUGIN                                           STATE            TOOLS  CALLS│
            │plugin:00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  live, untrusted  2      0    │
            │plugin:01-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  live, untrusted  2      0    │
            │plugin:02-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  live, untrusted  2      0    │
            │plugin:03-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  live, untrusted  2      0    │
            │plugin:04-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  live, untrusted  2      0    │
            │plugin:05-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  live, untrusted  2      0    │
            │plugin:06-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  live, untrusted  2      0    │
            │plugin:07-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  live, untrusted  2      0    │
            │plugin:08-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  live, untrusted  2      0    │
            │plugin:09-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  live, untrusted  2      0    │
            │plugin:10-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  live, untrusted  2      0    │
            └──────────────────────────────────────────────────────────────────────────────┘
            ┌  Tools (0) ──────────────────────────────────────────────────────────────────┐
            │TOOL  SOURCE  STATE  CALLS  FAILED  REFUSED  P50  P99  LAST                   │
            │                                                                              │
            └──────────────────────────────────────────────────────────────────────────────┘
            ┌  Events (0) ─────────────────────────────────────────────────────────────────┐
            │TIME  KIND  WHAT                                                              │
            │                                                                              │
            └──────────────────────────────────────────────────────────────────────────────┘
            q quits  tab next pane  up/down moves  / filters  r looks at the plugins again
        "#]],
        );
    }

    #[test]
    fn one_pane_on_a_small_terminal() {
        let mut view = view();
        view.press(Press::Tab);
        view.press(Press::Letter('/'));
        view.press(Press::Letter('q'));
        view.say(None);
        check(
            &view,
            60,
            10,
            &expect![[r#"
                toolhost watch  1 plugin, 2 tools; last 5 min: 0 calls, 0 fa
                ┌> Tools (1) ──────────────────────────────────────────────┐
                │TOOL        SOURCE       STATE  CALLS  FAILED  P99        │
                │json_query  plugin:json  ready  0      0       -          │
                │                                                          │
                │                                                          │
                │                                                          │
                │                                                          │
                └──────────────────────────────────────────────────────────┘
                filter: q_  (enter keeps it, esc clears it)
            "#]],
        );
        // Nothing fits, and nothing breaks.
        check(
            &view,
            1,
            1,
            &expect![[r#"
            ┌
        "#]],
        );
    }
}
