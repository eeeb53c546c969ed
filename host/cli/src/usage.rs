//! How the program is used: which commands there are for whom, which of the common flags each takes, and
//! what is said of a flag that is none.

use std::ffi::OsString;
use std::fmt::Write;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Args, Command, CommandFactory, FromArgMatches};

use super::{Global, ProgramArguments};
use toolhost_core::text;
use toolhost_policy::capability::quoted;

/// The flags of [`Global`]: those of a command that loads plugins and answers.
const ALL: &[&str] = &["plugins", "config", "json", "verbose"];
/// Those of one that loads plugins and prints no JSON.
const LOADS: &[&str] = &["plugins", "config", "verbose"];
/// Those of one that prints JSON in any case, or the same with and without.
const ANSWERS: &[&str] = &["json"];

/// What a group is called, and its commands with the flags of [`Global`] that each takes.
type CommandGroup = (&'static str, &'static [(&'static str, &'static [&'static str])]);

/// All commands that people are shown, in the order of `--help`.
const GROUPS: [CommandGroup; 3] = [
    (
        "Use tools",
        &[
            ("list", ALL),
            ("describe", ALL),
            ("call", ALL),
            ("explain", ALL),
            ("toolsets", ALL),
            ("schema", LOADS),
            ("sample", ALL),
            ("serve", LOADS),
        ],
    ),
    (
        "Author plugins",
        &[
            ("new", ANSWERS),
            ("dev", LOADS),
            ("check", ALL),
            ("build", &["json", "verbose"]),
            ("inspect", ALL),
        ],
    ),
    (
        "Operate",
        &[
            ("probe", ALL),
            ("grant", ALL),
            ("revoke", ALL),
            ("trust", ALL),
            ("rollback", ALL),
            ("secret", &["config", "json"]),
            ("doctor", ALL),
            ("audit", ANSWERS),
            ("watch", ALL),
            ("where", &["config", "json"]),
            ("completions", &[]),
        ],
    ),
];
/// Characters of a line of help, as clap has them, too.
pub(super) const WIDTH: usize = 100;
/// Where the common flags stand in the help of a command.
const COMMON_ORDER: usize = 900;
/// Flags that a command reads only to say why it has no such thing.
const HIDDEN: [(&str, &str); 2] = [("dev", "json"), ("schema", "json")];

/// The command line.
pub(super) fn command() -> Command {
    let common = Global::augment_args(Command::new(""));
    let mut command = ProgramArguments::command();
    let mut groups = String::new();
    for (title, members) in GROUPS {
        // Writing to a text cannot fail.
        let _ = writeln!(groups, "{title}:");
        for (name, flags) in members {
            let hidden = HIDDEN.iter().filter(|(of, _)| of == name).map(|(_, flag)| flag);
            let flags =
                flags.iter().map(|flag| (flag, false)).chain(hidden.map(|flag| (flag, true)));
            let found = flags.filter_map(|(flag, hide)| {
                let known = common.get_arguments().find(|known| known.get_id() == flag)?;
                // Its own subcommands take them, too; and they stand behind its own flags.
                Some(known.clone().global(true).hide(hide).display_order(COMMON_ORDER))
            });
            let found: Vec<clap::Arg> = found.collect();
            command = command.mut_subcommand(name, |subcommand| subcommand.args(found));
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            groups.push_str(&entry(name, &about));
        }
        groups.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}\n\n`toolhost COMMAND --help` describes a command and its flags.\n"
    ))
}

/// A command and what it does, in lines.
fn entry(name: &str, about: &str) -> String {
    const NAME_CHARS: usize = 11;
    let mut entry = format!("  {name:<NAME_CHARS$} ");
    let indent = entry.chars().count();
    let mut column = indent;
    for word in about.split_whitespace() {
        let chars = word.chars().count() + 1;
        if column + chars > WIDTH && column > indent {
            let _ = write!(entry, "\n{:indent$}", "");
            column = indent;
        }
        let _ = write!(entry, " {word}");
        column += chars;
    }
    entry.push('\n');
    entry
}

/// Reads the command line; ends the program where that asks for help, or is wrong.
pub(super) fn parse() -> ProgramArguments {
    let given: Vec<OsString> = std::env::args_os().collect();
    let mut command = command();
    let parsed = command.try_get_matches_from_mut(&given).and_then(|matches| {
        refuse_misplaced(&mut command, &matches)?;
        ProgramArguments::from_arg_matches(&matches)
    });
    parsed.unwrap_or_else(|error| advised(error, &mut command, &given).exit())
}

/// Refuses a flag before a command that does not take it.
fn refuse_misplaced(command: &mut Command, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
    let Some((name, _)) = matches.subcommand() else { return Ok(()) };
    let takes = GROUPS.iter().flat_map(|(_, members)| *members).find(|(known, _)| *known == name);
    let takes = takes.map(|(_, flags)| *flags).unwrap_or_default();
    let hidden = |flag: &str| HIDDEN.contains(&(name, flag));
    let misplaced = ALL.iter().find(|flag| {
        let is_given = matches.value_source(flag) == Some(ValueSource::CommandLine);
        is_given && !takes.contains(flag) && !hidden(flag)
    });
    match misplaced {
        None => Ok(()),
        Some(flag) => Err(command
            .error(ErrorKind::UnknownArgument, format!("`toolhost {name}` takes no `--{flag}`"))),
    }
}

/// The error, with what was meant where somebody gave a tool's argument as a flag of `call`.
fn advised(mut error: clap::Error, command: &mut Command, given: &[OsString]) -> clap::Error {
    let is_call = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string().contains("toolhost call"),
        _ => false,
    };
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    if error.kind() != ErrorKind::UnknownArgument || !is_call || !flag.starts_with("--") {
        return error;
    }
    let flag = flag.split('=').next().unwrap_or_default().to_owned();
    let is_slip = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(meant)) => strsim::damerau_levenshtein(&flag, meant) == 1,
        _ => false,
    };
    if let (false, Some(call)) = (is_slip, command.find_subcommand_mut("call")) {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Usage, ContextValue::StyledStr(call.render_usage()));
    }
    let tip = format!(
        "an argument of the tool is given with `--arg {}`",
        quoted(&text::one_line(&text::cut(&argument(&flag, given), 200)))
    );
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
}

/// `path=x`, of `--path x` or `--path=x`.
fn argument(flag: &str, given: &[OsString]) -> String {
    let name = flag.trim_start_matches('-');
    let texts: Vec<&str> = given.iter().filter_map(|text| text.to_str()).collect();
    let value = texts.iter().enumerate().find_map(|(place, text)| {
        let rest = text.strip_prefix(flag)?;
        match rest.strip_prefix('=') {
            Some(value) => Some(value),
            None if rest.is_empty() => {
                texts.get(place + 1).copied().filter(|next| !next.starts_with("--"))
            }
            None => None,
        }
    });
    format!("{name}={}", value.unwrap_or("VALUE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut shown: Vec<&str> = shown.map(Command::get_name).collect();
        let grouped = GROUPS.iter().flat_map(|(_, members)| *members);
        let mut grouped: Vec<&str> = grouped.map(|(name, _)| *name).collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(shown, grouped);
        command.debug_assert();
    }
}
