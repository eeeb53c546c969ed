//! Secrets: to which requests they are bound, and in which slot of these.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use http::HeaderName;
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::http::{HostPattern, Target};
use super::{
    Asks, Capability, Grant, GrantError, Grants, Kind, ToolNeeds, check_variable, needs_for, words,
};
use toolhost_core::tool::Need;

struct SecretsKind;

impl Kind {
    /// Secrets, put into requests.
    pub const SECRETS: Kind = Kind(&SecretsKind);
}

impl Capability for SecretsKind {
    fn key(&self) -> &'static str {
        "secrets"
    }

    fn flag(&self) -> &'static str {
        "secret"
    }

    fn value_name(&self) -> Option<&'static str> {
        Some("NAME@HOST:header=HEADER|query=PARAMETER")
    }

    fn help(&self) -> &'static str {
        "A secret, put into one header or query parameter of requests to one host; the plugin \
         never sees it. `toolhost secret set NAME` sets its value"
    }

    fn noun(&self) -> &'static str {
        "secret"
    }

    fn read(&self, text: &str, _: Option<&Path>) -> Result<Arc<dyn Grant>, GrantError> {
        Ok(Arc::new(SecretGrant::parse(text)?))
    }

    fn meets(&self, asks: &Asks<'_>, (tool, _): ToolNeeds<'_>, grant: &dyn Grant) -> bool {
        let asked = SecretRights::new(asks.needs, tool, []).asked;
        grant.value().is_some_and(|grant| asked.iter().any(|asked| asked.meets(grant)))
    }

    fn lacking(&self, need: &Need, _: &Value, held: &Grants) -> Vec<String> {
        let (asked, held) = (asked_secrets(std::slice::from_ref(need)), held.texts(Kind::SECRETS));
        asked.iter().map(ToString::to_string).filter(|asked| !held.contains(asked)).collect()
    }

    fn need_words(&self, value: &Map<String, Value>) -> Option<(String, usize)> {
        let (name, hosts) =
            (value.get("name")?.as_str()?, words::list(value.get("hosts")?, "every host")?);
        let header = value.get("header").filter(|header| !header.is_null());
        let (slot, known) = match header {
            None => (String::new(), 2),
            Some(header) => (format!(" in the header `{}`", header.as_str()?), 3),
        };
        let words = format!("to have the secret `{name}` sent to {hosts}{slot}, without seeing it");
        Some((words, known))
    }

    fn imports(&self) -> &'static [(&'static str, &'static str)] {
        &[("toolhost:plugin/secrets", "secrets")]
    }

    fn used_by(&self) -> Option<&'static str> {
        Some("toolhost:plugin/secrets@")
    }

    fn used_otherwise_by(&self) -> Option<&'static str> {
        // The host puts them into requests.
        Some("wasi:http/")
    }

    fn goes_with(&self) -> Option<(Kind, &'static str, &'static str)> {
        Some((
            Kind::HTTP,
            "it asks for a secret, which is put into requests, and not for HTTP",
            "add the need `http` for the secret's hosts",
        ))
    }

    fn value_names(&self, needs: &[Need]) -> Vec<String> {
        asked_secrets(needs).into_iter().map(|secret| secret.name).collect()
    }

    fn has_values(&self) -> bool {
        true
    }
}

/// A secret that an operator lets a plugin send, bound to hosts and a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretGrant {
    /// The name of the secret.
    pub name: String,
    /// Where it goes in a request.
    pub slot: SecretSlot,
    host: HostPattern,
    port: Port,
}

/// The ports of a host that are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    /// The scheme's own.
    Own,
    /// `:*`
    Any,
    Of(u16),
}

/// The place of a secret in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSlot {
    /// The header of this name.
    Header(HeaderName),
    /// The query parameter of this name.
    Query(String),
}

impl fmt::Display for SecretSlot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretSlot::Header(name) => write!(formatter, "header={name}"),
            SecretSlot::Query(name) => write!(formatter, "query={name}"),
        }
    }
}

/// Headers that say where a request ends or goes, or that the host sets or takes out itself.
const TAKEN: [&str; 16] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "if-range",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl SecretSlot {
    fn header(name: &str) -> Option<SecretSlot> {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        (!TAKEN.contains(&name.as_str())).then_some(SecretSlot::Header(name))
    }

    fn query(name: &str) -> Option<SecretSlot> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.~[]".contains(&byte);
        let fits = (1..=128).contains(&name.len()) && name.bytes().all(allowed);
        fits.then(|| SecretSlot::Query(name.to_owned()))
    }
}

impl SecretGrant {
    /// Reads a grant written `NAME@HOST[:PORT]:header=HEADER` or `NAME@HOST[:PORT]:query=PARAMETER`.
    ///
    /// HOST is a name, an address, or `*.NAME` for every name below it.
    ///
    /// # Errors
    /// If a part is none of these, or the header is one that says where a request ends or goes.
    pub fn parse(text: &str) -> Result<SecretGrant, GrantError> {
        let error = |problem: &str| {
            let shape = "NAME@HOST[:PORT]:header=HEADER or NAME@HOST[:PORT]:query=PARAMETER, such as TOKEN@api.example.com:header=authorization";
            GrantError::new(text, "secret", problem, shape)
        };
        let (name, rest) = text.split_once('@').ok_or(error("it has no `@`"))?;
        check_variable(name)
            .map_err(|_| error("the name has other characters than A-Z a-z 0-9 _"))?;
        let (host, slot) = rest.rsplit_once(':').ok_or(error("it names no slot"))?;
        let slot = match slot.split_once('=') {
            Some(("header", name)) => {
                SecretSlot::header(name).ok_or(error("that header cannot hold a secret"))?
            }
            Some(("query", name)) => {
                SecretSlot::query(name).ok_or(error("that is no query parameter"))?
            }
            _ => return Err(error("the slot is neither header=HEADER nor query=PARAMETER")),
        };
        let (host, port) = host_and_port(host).map_err(error)?;
        if host == HostPattern::Any {
            return Err(error("a secret is bound to hosts, and `*` is none"));
        }
        Ok(SecretGrant { name: name.to_owned(), slot, host, port })
    }

    /// Tells whether there is a request that both are for.
    fn meets(&self, other: &SecretGrant) -> bool {
        let ports = match (self.port, other.port) {
            (Port::Any, _) | (_, Port::Any) => true,
            // The port of https, or of http to localhost.
            (Port::Own, Port::Of(port)) | (Port::Of(port), Port::Own) => [80, 443].contains(&port),
            (one, other) => one == other,
        };
        self.name == other.name && self.slot == other.slot && ports && self.host.meets(&other.host)
    }

    /// Tells whether the secret goes into a request to this host.
    fn is_for(&self, target: &Target) -> bool {
        let port = target.url().port();
        let is_port = match self.port {
            Port::Own => port.is_none(),
            Port::Any => true,
            Port::Of(_) => target.url().port_or_known_default() == self.port.number(),
        };
        self.host.covers(target.host()) && is_port
    }
}

impl Port {
    fn number(self) -> Option<u16> {
        match self {
            Port::Of(port) => Some(port),
            Port::Own | Port::Any => None,
        }
    }
}

/// Reads `HOST[:PORT]`.
fn host_and_port(text: &str) -> Result<(HostPattern, Port), &'static str> {
    let (text, any) = text.strip_suffix(":*").map_or((text, false), |text| (text, true));
    let url = Url::parse(&format!("https://{text}/")).map_err(|_| "that is no host")?;
    let is_bare = url.username().is_empty() && url.password().is_none() && url.path() == "/";
    let host = url.host().filter(|_| is_bare && url.query().is_none()).ok_or("that is no host")?;
    let port = match url.port() {
        _ if any => Port::Any,
        Some(port) => Port::Of(port),
        None => Port::Own,
    };
    Ok((HostPattern::read(&host.to_owned())?, port))
}

impl fmt::Display for SecretGrant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.name, self.host)?;
        match self.port {
            Port::Own => {}
            Port::Any => formatter.write_str(":*")?,
            Port::Of(port) => write!(formatter, ":{port}")?,
        }
        write!(formatter, ":{}", self.slot)
    }
}

/// The value of a need of kind `secrets`.
#[derive(Debug, Deserialize)]
struct SecretNeed {
    name: String,
    hosts: Vec<String>,
    header: Option<String>,
    query: Option<String>,
}

impl SecretNeed {
    fn slot(&self) -> Option<SecretSlot> {
        match (&self.header, &self.query) {
            (Some(name), None) => SecretSlot::header(name),
            (None, Some(name)) => SecretSlot::query(name),
            _ => None,
        }
    }

    fn asks(&self) -> impl Iterator<Item = SecretGrant> + '_ {
        let slot = self.slot();
        self.hosts.iter().filter_map(move |host| {
            let (host, port) = host_and_port(host).ok()?;
            Some(SecretGrant { name: self.name.clone(), slot: slot.clone()?, host, port })
        })
    }
}

/// The bindings of secrets that needs ask for, whatever tool they are for.
pub fn asked_secrets(needs: &[Need]) -> Vec<SecretGrant> {
    let all = needs.iter().filter(|need| need.kind == Kind::SECRETS.key());
    let read = |need: &Need| serde_json::from_str::<SecretNeed>(&need.value).ok();
    all.filter_map(read).flat_map(|need| need.asks().collect::<Vec<_>>()).collect()
}

/// The secrets that one tool asks for, and those that its plugin was granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretRights {
    asked: Vec<SecretGrant>,
    granted: Vec<SecretGrant>,
}

impl SecretRights {
    /// What a tool asks for, and what its plugin was granted.
    pub fn new<'a>(
        needs: &[Need],
        tool: &str,
        granted: impl IntoIterator<Item = &'a SecretGrant>,
    ) -> SecretRights {
        let asked: Vec<SecretGrant> = needs_for::<SecretNeed>(needs, Kind::SECRETS.key(), tool)
            .flat_map(|need| need.asks().collect::<Vec<_>>())
            .collect();
        // A grant of a secret that the tool never asks for is none of its business.
        let granted = granted.into_iter().filter(|grant| {
            asked.iter().any(|asked| asked.name == grant.name && asked.slot == grant.slot)
        });
        SecretRights { granted: granted.cloned().collect(), asked }
    }

    /// Tells whether the tool has a secret of this name, at any host.
    pub fn has(&self, name: &str) -> bool {
        self.granted.iter().any(|grant| grant.name == name)
    }

    /// How a secret would have to be granted, if the tool asks for it.
    pub fn asked(&self, name: &str) -> Option<&SecretGrant> {
        self.asked.iter().find(|asked| asked.name == name)
    }

    /// The secrets that go into a request.
    pub fn bound_to(&self, target: &Target) -> Vec<&SecretGrant> {
        let asked = |grant: &SecretGrant| {
            self.asked.iter().any(|asked| {
                asked.name == grant.name && asked.slot == grant.slot && asked.is_for(target)
            })
        };
        self.granted.iter().filter(|grant| grant.is_for(target) && asked(grant)).collect()
    }

    /// The secrets that the tool asks for in a request, and that were not granted for it.
    pub fn lacking_for(&self, target: &Target) -> Vec<&SecretGrant> {
        let granted = |asked: &SecretGrant| {
            self.granted.iter().any(|grant| {
                grant.name == asked.name && grant.slot == asked.slot && grant.is_for(target)
            })
        };
        self.asked.iter().filter(|asked| asked.is_for(target) && !granted(asked)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_read_and_written() {
        for (text, written) in [
            (
                "TOKEN@api.example.com:header=Authorization",
                "TOKEN@api.example.com:header=authorization",
            ),
            ("K@*.example.com:query=appid", "K@*.example.com:query=appid"),
            ("K@localhost:8443:header=x-key", "K@localhost:8443:header=x-key"),
            ("K@[::1]:9:query=k", "K@[::1]:9:query=k"),
            ("K@localhost:*:query=k", "K@localhost:*:query=k"),
        ] {
            let grant = SecretGrant::parse(text).expect(text);
            assert_eq!(grant.to_string(), written);
            assert_eq!(SecretGrant::parse(written), Ok(grant));
        }
        for bad in [
            "",
            "TOKEN",
            "TOKEN@a",
            "TO KEN@a:header=b",
            "T@a:header=host",
            "T@a:header=content-length",
            "T@a:header=a b",
            "T@a:query=",
            "T@a:query=a&b",
            "T@a:body=x",
            "T@*:header=x",
            "T@u@a:header=x",
            "T@a/b:header=x",
            "T@a?b:header=x",
        ] {
            assert!(SecretGrant::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_are_bound_to_hosts_and_slots() {
        let need = |hosts: &str, tools: &[&str]| Need {
            kind: "secrets".to_owned(),
            value: format!(r#"{{"name": "K", "hosts": [{hosts}], "query": "appid"}}"#),
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
            reason: String::new(),
        };
        let needs = [need(r#""a.example", "*.b.example""#, &["t"])];
        let grants =
            ["K@a.example:query=appid", "K@x.b.example:query=appid", "K@a.example:header=k"];
        let grants: Vec<SecretGrant> =
            grants.iter().map(|text| SecretGrant::parse(text).expect(text)).collect();
        let rights = SecretRights::new(&needs, "t", &grants);
        let bound = |rights: &SecretRights, url: &str| {
            let target = Target::new("GET", url).expect(url);
            rights.bound_to(&target).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(bound(&rights, "https://a.example/x"), ["K@a.example:query=appid"]);
        assert_eq!(bound(&rights, "https://x.b.example/x"), ["K@x.b.example:query=appid"]);
        assert_eq!(bound(&rights, "https://y.b.example/x"), [""; 0]);
        assert_eq!(bound(&rights, "https://a.example:444/x"), [""; 0]);
        assert!(rights.has("K") && !rights.has("L"));
        let other = SecretRights::new(&needs, "u", &grants);
        assert!(!other.has("K") && bound(&other, "https://a.example/x").is_empty());
    }
}
