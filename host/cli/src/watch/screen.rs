//! The view on a terminal: keys and events in, frames out, and the terminal as it was at the end.

use std::pin::Pin;
use std::time::SystemTime;

use ratatui::DefaultTerminal;
use ratatui::backend::Backend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use super::super::audit::about;
use super::super::failure::Failure;
use super::draw::draw;
use super::view::{Inventory, Press, WatchView, Wish};
use super::{TICK, WatchSource, unreadable};

/// So much of what was before is read: some thousand calls.
const BYTES_BEFORE: u64 = 2 << 20;

/// Shows the view until a person has seen enough.
pub(super) async fn run(source: &WatchSource<'_>) -> Result<(), Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::fault(error.to_string()));
    let signals = [listen(SignalKind::terminate())?, listen(SignalKind::hangup())?];
    let log = source.follow(BYTES_BEFORE)?;
    let notice = source.notice()?;
    let terminal = ratatui::try_init().map_err(|error| {
        Failure::usage(format!("the terminal cannot be used: {error}")).hint("`--lines` needs none")
    })?;
    let result =
        Screen { source, terminal, view: WatchView::new(None), notice }.run(log, signals).await;
    let restored = ratatui::try_restore().map_err(|error| {
        Failure::usage(format!("the terminal cannot be restored: {error}")).hint("`reset` does so")
    });
    result.and(restored)
}

struct Screen<'a> {
    source: &'a WatchSource<'a>,
    terminal: DefaultTerminal,
    view: WatchView,
    notice: String,
}

type Asking<'a> = Pin<Box<dyn Future<Output = Result<Inventory, Failure>> + 'a>>;

impl Screen<'_> {
    async fn run(
        mut self,
        mut log: toolhost_state::audit::Follower,
        [mut terminate, mut hang_up]: [Signal; 2],
    ) -> Result<(), Failure> {
        let source = self.source;
        let ask = || -> Asking<'_> { Box::pin(source.known()) };
        // A host that starts afterwards knows all that these tell.
        self.read(&mut log)?;
        let (mut asking, mut is_news) = (Some(ask()), false);
        // Kept from one turn to the next, so that no key is lost.
        let mut key = next_key();
        loop {
            is_news |= self.read(&mut log)?;
            if is_news && asking.is_none() {
                (asking, is_news) = (Some(ask()), false);
            }
            self.draw()?;
            let answer = async {
                match &mut asking {
                    Some(asking) => asking.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                known = answer => {
                    asking = None;
                    match known {
                        Ok(known) => self.view.know(known),
                        // A file that somebody is about to repair, most likely.
                        Err(failure) => self.view.fail(failure.message()),
                    }
                    self.wipe()?;
                }
                pressed = &mut key => {
                    key = next_key();
                    let pressed = pressed.map_err(|error| Failure::fault(error.to_string()))?;
                    let Some(press) = pressed.map_err(|error| undrawn(&error))? else { continue };
                    match self.view.press(press) {
                        Wish::Nothing => {}
                        Wish::Refresh => is_news = true,
                        Wish::Quit => return Ok(()),
                    }
                }
                _ = stopped(&mut terminate) => return Ok(()),
                _ = stopped(&mut hang_up) => return Ok(()),
            }
        }
    }

    /// Takes what is new in the log; tells whether a host may know more by now.
    fn read(&mut self, log: &mut toolhost_state::audit::Follower) -> Result<bool, Failure> {
        let mut is_news = false;
        let records = log.read().map_err(|error| unreadable(&self.source.folder(), &error))?;
        for record in records {
            match record {
                Ok(record) => is_news |= self.view.note(&record, &about(&record)),
                Err(_) => self.view.damaged(),
            }
        }
        Ok(is_news)
    }

    /// Has all drawn anew, over what was said meanwhile on stderr. `Terminal::clear` asks the
    /// terminal where the cursor is, and would wait for the answer beside who waits for keys.
    fn wipe(&mut self) -> Result<(), Failure> {
        self.terminal.backend_mut().clear().map_err(|error| undrawn(&error))?;
        self.terminal.swap_buffers();
        Ok(())
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let now = SystemTime::now();
        self.view.forget(now);
        let notice = (!self.view.has_events()).then(|| self.notice.clone());
        self.view.say(notice);
        let view = &self.view;
        let drawn = self.terminal.draw(|frame| draw(frame, view, now));
        drawn.map(drop).map_err(|error| undrawn(&error))
    }
}

async fn stopped(signal: &mut Signal) {
    signal.recv().await;
}

/// Waits for a key, but not longer than a tick: then there is none.
fn next_key() -> JoinHandle<std::io::Result<Option<Press>>> {
    tokio::task::spawn_blocking(|| {
        if !event::poll(TICK)? {
            return Ok(None);
        }
        Ok(read(&event::read()?))
    })
}

fn read(event: &Event) -> Option<Press> {
    let key = event.as_key_event().filter(|key| key.kind != KeyEventKind::Release)?;
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if is_control => Some(Press::Interrupt),
        KeyCode::Char(letter) if !is_control => Some(Press::Letter(letter)),
        KeyCode::Up => Some(Press::Up),
        KeyCode::Down => Some(Press::Down),
        KeyCode::Tab => Some(Press::Tab),
        KeyCode::Enter => Some(Press::Enter),
        KeyCode::Esc => Some(Press::Escape),
        KeyCode::Backspace => Some(Press::Backspace),
        _ => None,
    }
}

fn undrawn(error: &std::io::Error) -> Failure {
    Failure::usage(format!("the terminal cannot be drawn on: {error}")).hint("`--lines` needs none")
}
