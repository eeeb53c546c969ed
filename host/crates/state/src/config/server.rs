//! Entries of MCP servers: checked to be whole, and bound by their digest to what a person has
//! looked at. Nothing is started or asked here.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use toml_edit::{Item, TableLike};

use super::ConfigError;
use super::reader::ConfigReader;

/// An MCP server as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The command that starts it, with its arguments; empty if it is reached by a URL.
    pub command: Vec<String>,
    /// Where it is reached, if no command starts it.
    pub url: Option<String>,
    /// Environment variables for the command, as they are written.
    pub env: BTreeMap<String, String>,
    /// Header fields for the URL, as they are written.
    pub headers: BTreeMap<String, String>,
}

impl ServerConfig {
    /// SHA-256 of the whole entry, in hexadecimal: what trust is bound to.
    pub fn digest(&self) -> String {
        let texts = |map: &BTreeMap<String, String>| {
            Value::Object(
                map.iter().map(|(key, text)| (key.clone(), text.as_str().into())).collect(),
            )
        };
        let mut entry = Map::new();
        entry.insert("command".to_owned(), self.command.clone().into());
        entry.insert("url".to_owned(), self.url.clone().into());
        entry.insert("env".to_owned(), texts(&self.env));
        entry.insert("headers".to_owned(), texts(&self.headers));
        let digest = Sha256::digest(Value::Object(entry).to_string());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl ConfigReader<'_> {
    /// Reads `[mcp_servers]`.
    pub(super) fn servers(
        &self,
        table: &dyn TableLike,
        servers: &mut BTreeMap<String, ServerConfig>,
    ) -> Result<(), ConfigError> {
        for (name, item) in table.iter() {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            if !(1..=40).contains(&name.len()) || !name.bytes().all(allowed) {
                let problem = format!(
                    "`{name}` is no server name: allowed are 1 to 40 characters of A-Z a-z 0-9 _ -"
                );
                return Err(self.error(item, problem));
            }
            let server = self.server(self.table(name, item)?, item)?;
            servers.insert(name.to_owned(), server);
        }
        Ok(())
    }

    fn server(&self, table: &dyn TableLike, item: &Item) -> Result<ServerConfig, ConfigError> {
        let (mut command, mut arguments, mut url) = (None, Vec::new(), None);
        let (mut env, mut headers) = (BTreeMap::new(), BTreeMap::new());
        for (key, item) in self.entries(table, &["command", "args", "url", "env", "headers"])? {
            match key {
                "command" => command = Some(self.one_text(key, item)?),
                "args" => arguments = self.texts(key, item)?,
                "url" => url = Some(self.one_text(key, item)?),
                "env" => env = self.texts_by_name(key, item)?,
                _ => headers = self.texts_by_name(key, item)?,
            }
        }
        let command: Vec<String> = match (command, &url) {
            (Some(command), None) => std::iter::once(command).chain(arguments).collect(),
            (None, Some(_)) if arguments.is_empty() => Vec::new(),
            _ => {
                let problem = "a server has either `command` (with `args`) or `url`";
                return Err(self.error(item, problem.to_owned()));
            }
        };
        Ok(ServerConfig { command, url, env, headers })
    }

    fn one_text(&self, key: &str, item: &Item) -> Result<String, ConfigError> {
        let text = item.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        text.ok_or_else(|| self.error(item, format!("`{key}` must be a text")))
    }

    fn texts_by_name(
        &self,
        key: &str,
        item: &Item,
    ) -> Result<BTreeMap<String, String>, ConfigError> {
        let table = self.table(key, item)?;
        let text = |(name, item): (&str, &Item)| {
            let text = item.as_str().map(|text| (name.to_owned(), text.to_owned()));
            text.ok_or_else(|| self.error(item, format!("`{name}` must be a text")))
        };
        table.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {

    use crate::config::{Config, parse};

    #[test]
    fn servers_are_read_and_told_apart() {
        let read = |text: &str| parse(text, &Config::default()).map(|config| config.servers);
        let text = "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"1\"]\nenv = { T = \"v\" }\n\
                    [mcp_servers.b]\nurl = \"https://x\"\nheaders = { H = \"v\" }\n";
        let servers = read(text).expect("servers");
        assert_eq!(servers["a"].command, ["x", "1"]);
        assert_eq!(servers["b"].url.as_deref(), Some("https://x"));
        let other = read(&text.replace("\"v\"", "\"w\"")).expect("servers");
        for name in ["a", "b"] {
            assert_ne!(servers[name].digest(), other[name].digest());
        }
        let check = |text: &str, expected: &str| {
            assert_eq!(read(text).expect_err(text).to_string(), expected);
        };
        let both = "a server has either `command` (with `args`) or `url`";
        check("[mcp_servers.a]\ncommand = \"x\"\nurl = \"y\"", &format!("line 1: {both}"));
        check("[mcp_servers.a]\n", &format!("line 1: {both}"));
        check("[mcp_servers.a]\ncommand = 1", "line 2: `command` must be a text");
        check(
            "[mcp_servers.a]\ncmd = \"x\"",
            "line 2: unknown key `cmd`; known are command, args, url, env, headers",
        );
        check(
            "[mcp_servers.\"a b\"]\ncommand = \"x\"",
            "line 1: `a b` is no server name: allowed are 1 to 40 characters of A-Z a-z 0-9 _ -",
        );
    }
}
