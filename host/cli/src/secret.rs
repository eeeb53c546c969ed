//! `toolhost secret`

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Read};

use clap::Subcommand;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use zeroize::Zeroizing;

use super::Global;
use super::failure::Failure;
use super::home::Home;
use super::ui::{self, Ui};
use toolhost_core::text;
use toolhost_state::audit::{SecretChange, SecretChanged};
use toolhost_state::secret::{
    self, SecretError, SecretPlace, SecretStore, SecretValue, VALUE_BYTES_MAX,
};

/// Stores secret values, such as API keys, that no plugin and no model is ever shown.
///
/// A secret has a name and a value. The value is stored in the keyring of your session (on Linux
/// the secret service on the session bus, on macOS the keychain), or, where there is none, in a
/// file that only you can read. It can be replaced and removed, and no command prints it.
#[derive(Debug, clap::Args)]
pub(super) struct SecretArguments {
    #[command(subcommand)]
    command: SecretCommand,
}

#[derive(Debug, Subcommand)]
enum SecretCommand {
    /// Stores a value under a name, replacing the one before.
    ///
    /// The value is asked for at the terminal and not shown as you type, or else read from stdin,
    /// without the line break at its end: `toolhost secret set NAME < FILE`. It has 8 to 8,192
    /// bytes on one line. It is refused on the command line, which other programs can see.
    Set {
        /// 1 to 128 of A-Z a-z 0-9 _, such as WEATHER_TOKEN.
        name: String,
        /// What nobody should give.
        #[arg(hide = true, allow_hyphen_values = true)]
        value: Vec<OsString>,
    },
    /// Lists the names of all secrets, and where each value is stored.
    List,
    /// Deletes a secret.
    Remove {
        /// The secret's name.
        name: String,
    },
    /// Says why there is no such command.
    #[command(hide = true)]
    Get {
        /// What somebody hoped to get.
        #[arg(hide = true, allow_hyphen_values = true)]
        given: Vec<OsString>,
    },
}

pub(super) fn run(ui: &Ui, global: &Global, given: &SecretArguments) -> Result<(), Failure> {
    match &given.command {
        SecretCommand::Set { name, value } => set(ui, global, name, value),
        SecretCommand::List => list(ui),
        SecretCommand::Remove { name } => remove(ui, global, name),
        SecretCommand::Get { .. } => Err(no_get()),
    }
}

fn set(ui: &Ui, global: &Global, name: &str, value: &[OsString]) -> Result<(), Failure> {
    if !value.is_empty() || name.contains('=') {
        return Err(Failure::usage(
            "the value of a secret is not taken from the command line: other programs can see \
             it there, and shells keep it in their history",
        )
        .hint("`toolhost secret set NAME` asks for it; `toolhost secret set NAME < FILE` reads it")
        .hint("if that was a real value, have its service replace it by a new one"));
    }
    secret::check_name(name).map_err(|error| failure(&error))?;
    let home = Home::from_environment()?;
    let store = home.secrets()?;
    // Before somebody types in vain.
    store.names().map_err(|error| failure(&error))?;
    let kept = store.set(name, &read_value(name)?).map_err(|error| failure(&error))?;
    note(&home, global, name, SecretChange::Set);
    if let Some(warning) = kept.warning {
        ui::error_line(&format!("warning: {warning}"));
    }
    if ui.json {
        let place = kept.place.as_str();
        return ui.json(&json!({ "name": name, "where": place, "replaced": kept.replaced }));
    }
    let replaced = if kept.replaced { "replaced, and " } else { "" };
    let place = match kept.place {
        SecretPlace::Keyring => "the keyring",
        SecretPlace::File => "a file that only you can read",
    };
    ui.line(&format!("{name} is {replaced}kept in {place}"))
}

/// The value, from the terminal or from stdin.
fn read_value(name: &str) -> Result<SecretValue, Failure> {
    let text = if std::io::stdin().is_terminal() { ask(name)? } else { read_stdin()? };
    SecretValue::new(text).map_err(|error| Failure::usage(error.to_string()))
}

fn ask(name: &str) -> Result<Zeroizing<String>, Failure> {
    // On Ctrl-C the terminal must show again what is typed, before the program ends. So the
    // signal may not end it.
    let _handled = signal(SignalKind::interrupt());
    let typed = rpassword::prompt_password(format!("Value of {name} (not shown): "));
    typed.map(Zeroizing::new).map_err(|error| match error.kind() {
        ErrorKind::Interrupted => Failure::usage("interrupted; nothing was changed"),
        _ => Failure::usage(format!("no value can be read from the terminal: {error}"))
            .hint("`toolhost secret set NAME < FILE` reads it from a file"),
    })
}

fn read_stdin() -> Result<Zeroizing<String>, Failure> {
    // With room for a line break, and for seeing that there is more.
    const BYTES_MAX: usize = VALUE_BYTES_MAX + "\r\n".len() + 1;
    // Room for all of it at once: what a vector outgrows is not zeroed.
    let mut bytes = Zeroizing::new(Vec::with_capacity(BYTES_MAX));
    let mut stdin = std::io::stdin().lock().take(BYTES_MAX as u64);
    stdin
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("stdin cannot be read: {error}")))?;
    let text = str::from_utf8(&bytes)
        .map_err(|_| Failure::usage("the value on stdin is not UTF-8; give one line of text"))?;
    let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    Ok(Zeroizing::new(line.unwrap_or(text).to_owned()))
}

fn list(ui: &Ui) -> Result<(), Failure> {
    let names = Home::from_environment()?.secrets()?.names().map_err(|error| failure(&error))?;
    if ui.json {
        let secret = |(name, place): &(String, SecretPlace)| json!({ "name": name, "where": place.as_str() });
        let secrets: Vec<Value> = names.iter().map(secret).collect();
        return ui.json(&json!({ "secrets": secrets }));
    }
    if names.is_empty() {
        return ui.line("There are no secrets; `toolhost secret set NAME` keeps one.");
    }
    let rows: Vec<_> =
        names.into_iter().map(|(name, place)| vec![name, place.to_string()]).collect();
    ui.table(&["NAME", "WHERE"], &rows)
}

/// Tells the audit log.
fn note(home: &Home, global: &Global, name: &str, change: SecretChange) {
    let changed = SecretChanged { name: name.to_owned(), change, by: "cli" };
    home.audit(&home.operators_config(global)).note(changed);
}

fn remove(ui: &Ui, global: &Global, name: &str) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let store = home.secrets()?;
    if !store.remove(name).map_err(|error| failure(&error))? {
        return Err(unknown(&store, name));
    }
    note(&home, global, name, SecretChange::Removed);
    if ui.json {
        return ui.json(&json!({ "name": name, "removed": true }));
    }
    ui.line(&format!("{name} is removed"))
}

fn unknown(store: &SecretStore, name: &str) -> Failure {
    let names = store.names().unwrap_or_default();
    let near = text::nearest(name, names.iter().map(|(name, _)| name.as_str()));
    let failure = Failure::usage(format!("there is no secret `{name}`"));
    match near.first() {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint("`toolhost secret list` shows all names"),
    }
}

fn no_get() -> Failure {
    Failure::usage(
        "there is no `toolhost secret get`: a value that is never printed cannot end up in a \
         history, a log or the context of a model",
    )
    .hint("`toolhost secret list` shows the names; `toolhost secret set NAME` replaces a value")
}

fn failure(error: &SecretError) -> Failure {
    Failure::usage(error.to_string())
}
