//! Draws the view on a terminal.

use std::time::SystemTime;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table, TableState, Wrap};

use super::view::{Pane, View};

/// Rows below which only the pane where a person is fits.
const ROWS_MIN: u16 = 24;
/// Lines of a notice.
const NOTICE_ROWS: u16 = 2;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, now: SystemTime) {
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
        let shares = [Constraint::Fill(1), Constraint::Fill(2), Constraint::Fill(2)];
        let areas: [Rect; 3] = Layout::vertical(shares).areas(panes);
        for (pane, area) in Pane::ALL.into_iter().zip(areas) {
            draw_pane(frame, view, pane, area, now);
        }
    }
    frame.render_widget(footer(view), foot);
}

fn draw_pane(frame: &mut Frame<'_>, view: &View, pane: Pane, area: Rect, now: SystemTime) {
    let rows = view.rows(pane, now);
    let is_active = view.pane() == pane;
    // A mark, since colours and weights are not seen everywhere.
    let mark = if is_active { "> " } else { "  " };
    let title = format!("{mark}{} ({}) ", pane.title(), rows.len());
    let block = Block::bordered().title(if is_active { title.bold() } else { title.into() });
    let widths = widths(pane, &rows);
    let selected = (!rows.is_empty()).then(|| view.selected(pane, rows.len()));
    let headings = Row::new(pane.headings().iter().copied()).style(Style::new().bold());
    let table = Table::new(rows.into_iter().map(Row::new), widths)
        .header(headings)
        .column_spacing(2)
        .block(block)
        .row_highlight_style(if is_active { Style::new().reversed() } else { Style::new() });
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(selected));
}

/// As wide as the widest cell; the last column has what is left.
fn widths(pane: Pane, rows: &[Vec<String>]) -> Vec<Constraint> {
    let headings = pane.headings();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        let widest = cells.chain([headings[column].len()]).max().unwrap_or_default();
        Constraint::Length(u16::try_from(widest).unwrap_or(u16::MAX).min(40))
    };
    let mut widths: Vec<Constraint> = (0..headings.len()).map(width).collect();
    if let Some(last) = widths.last_mut() {
        *last = Constraint::Fill(1);
    }
    widths
}

fn footer(view: &View) -> Line<'static> {
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

    use super::super::view::{Known, Plugin, Press, Tool};
    use super::*;

    fn check(view: &View, width: u16, height: u16, expected: &Expect) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, view, SystemTime::UNIX_EPOCH)).expect("drawn");
        let screen = terminal.backend().to_string();
        let lines: String =
            screen.lines().map(|line| format!("{}\n", line.trim_matches('"').trim_end())).collect();
        expected.assert_eq(&lines);
    }

    fn view() -> View {
        let mut view = View::new(Some("Nothing stands in the audit log yet.".into()));
        let plugin = Plugin {
            source: "plugin:json".into(),
            state: "ready, bundled".into(),
            tools: 2,
            ..Plugin::default()
        };
        let tool = |name: &str| Tool {
            name: name.into(),
            source: "plugin:json".into(),
            state: "ready".into(),
        };
        view.know(Known {
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
            │TOOL      SOURCE    STATE  CALLS  FAILE  REFUS  P50  P99  │
            │json_que  plugin:j  ready  0      0      0      -    -    │
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
