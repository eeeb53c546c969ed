//! Requests: which ones a need and a grant come to.
//!
//! What is checked is the final request, as one normalised URL: whatever a guest wrote as
//! scheme, authority and path has been put together and read once by then.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use url::{Host, Url};

use super::address::Reach;
use super::{
    Asks, Capability, Grant, GrantError, Grants, Kind, ToolNeeds, needs_for, strings, words,
};
use toolhost_core::tool::Need;

struct Http;

impl Kind {
    /// Requests over HTTP.
    pub const HTTP: Kind = Kind(&Http);
}

impl Capability for Http {
    fn key(&self) -> &'static str {
        "http"
    }

    fn value_name(&self) -> Option<&'static str> {
        Some("HOST")
    }

    fn help(&self) -> &'static str {
        "Requests: `[METHODS ][SCHEME://]HOST[:PORT][/PREFIX][ private]`, such as \
         `https://api.example.com` or `GET https://*.example.com/v1/`. Loopback and private \
         addresses are refused unless HOST is such an address or `localhost`, or the word \
         `private` follows"
    }

    fn noun(&self) -> &'static str {
        "HTTP host"
    }

    fn read(&self, text: &str, _: Option<&Path>) -> Result<Arc<dyn Grant>, GrantError> {
        Ok(Arc::new(HttpGrant::parse(text)?))
    }

    fn meets(&self, asks: &Asks<'_>, (tool, _): ToolNeeds<'_>, grant: &dyn Grant) -> bool {
        let asked = HttpRights::new(asks.needs, tool, []).asked;
        grant.value().is_some_and(|grant| asked.iter().any(|asked| asked.meets(grant)))
    }

    fn lacking(&self, _: &Need, value: &Value, held: &Grants) -> Vec<String> {
        if held.has(Kind::HTTP) {
            return Vec::new();
        }
        let read = |host: String| HttpGrant::parse(&host).ok().map(|grant| grant.without_private());
        strings(&value["hosts"]).into_iter().filter_map(read).collect()
    }

    fn need_words(&self, value: &Map<String, Value>) -> Option<(String, usize)> {
        let hosts = words::list(value.get("hosts")?, "every host")?;
        Some((format!("to send requests to {hosts}"), 1))
    }

    fn imports(&self) -> &'static [(&'static str, &'static str)] {
        // Sockets refuse always; requests are what can be granted of the network.
        &[("wasi:sockets/", "network"), ("wasi:http/", "HTTP"), ("toolhost:plugin/http", "HTTP")]
    }

    fn used_by(&self) -> Option<&'static str> {
        Some("wasi:http/")
    }

    fn can_be_exclusive(&self) -> bool {
        true
    }
}

/// Requests that an operator lets a plugin send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGrant {
    /// In capitals; empty means any.
    methods: Vec<String>,
    /// `http` or `https`.
    scheme: String,
    host: HostPattern,
    /// None means any.
    port: Option<u16>,
    /// It begins with `/`.
    prefix: String,
    /// The host may have a private address.
    private: bool,
}

/// Which hosts are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostPattern {
    /// `*`
    Any,
    /// `*.NAME`: every name below this one.
    Below(String),
    /// This name or address.
    Exactly(Host<String>),
}

impl HostPattern {
    pub(super) fn read(host: &Host<String>) -> Result<HostPattern, &'static str> {
        let Host::Domain(name) = host else { return Ok(HostPattern::Exactly(host.clone())) };
        if name == "*" {
            return Ok(HostPattern::Any);
        }
        let rest = name.strip_prefix("*.");
        if rest.unwrap_or(name).contains('*') {
            return Err("a `*` stands alone for the host, or for its first part");
        }
        if name.ends_with('.') {
            return Err("the host ends in a dot");
        }
        Ok(match rest {
            Some(rest) => HostPattern::Below(rest.to_owned()),
            None => HostPattern::Exactly(host.clone()),
        })
    }

    pub(super) fn covers(&self, host: &Host<String>) -> bool {
        match (self, host) {
            (HostPattern::Any, _) => true,
            (HostPattern::Exactly(known), _) => known == host,
            (HostPattern::Below(below), Host::Domain(name)) => name
                .strip_suffix(below.as_str())
                .and_then(|rest| rest.strip_suffix('.'))
                .is_some_and(|rest| !rest.is_empty()),
            (HostPattern::Below(_), _) => false,
        }
    }

    /// Tells whether there is a host that both cover.
    pub(super) fn meets(&self, other: &HostPattern) -> bool {
        let is_below = |name: &str, above: &str| {
            name.strip_suffix(above).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        match (self, other) {
            (HostPattern::Any, _) | (_, HostPattern::Any) => true,
            (pattern, HostPattern::Exactly(host)) | (HostPattern::Exactly(host), pattern) => {
                pattern.covers(host)
            }
            (HostPattern::Below(one), HostPattern::Below(other)) => {
                is_below(one, other) || is_below(other, one)
            }
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Any => formatter.write_str("*"),
            HostPattern::Below(name) => write!(formatter, "*.{name}"),
            HostPattern::Exactly(host) => write!(formatter, "{host}"),
        }
    }
}

/// What a server may decode to a slash or a dot, at once or when it decodes a second time.
const ENCODED: [&str; 4] = ["%2f", "%5c", "%2e", "%25"];

impl HttpGrant {
    /// Reads a grant written `[METHODS ][SCHEME://]HOST[:PORT][/PREFIX][ private]`.
    ///
    /// HOST is a name, an address, `*.NAME` for every name below it, or `*`; a bare host means
    /// https, no port the scheme's own, `:*` any. METHODS are separated by commas.
    ///
    /// # Errors
    /// If a part is none of these, or the URL has user info, a query or a fragment.
    pub fn parse(text: &str) -> Result<HttpGrant, GrantError> {
        let error = |problem: &str| {
            let shape = "[METHODS ][SCHEME://]HOST[:PORT][/PREFIX][ private], such as https://api.example.com, *.example.com or `GET,POST https://api.example.com/v1/`";
            GrantError::new(text, "HTTP", problem, shape)
        };
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let private = words.last() == Some(&"private");
        if private {
            words.pop();
        }
        let (methods, url) = match words[..] {
            [url] => ("", url),
            [methods, url] if !methods.split(',').any(str::is_empty) => (methods, url),
            [..] if words.len() == 2 => return Err(error("a method is empty")),
            _ => return Err(error("it has no host, or too many words")),
        };
        let methods: Vec<String> =
            methods.split(',').filter(|method| !method.is_empty()).map(str::to_owned).collect();
        if methods.iter().any(|method| !method.bytes().all(|byte| byte.is_ascii_uppercase())) {
            return Err(error("methods are written in capitals"));
        }
        let url = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
        let (any_port, url) = match without_any_port(&url) {
            Some(url) => (true, url),
            None => (false, url),
        };
        let url = Url::parse(&url).map_err(|problem| error(&problem.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(error("the scheme is neither http nor https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(error("it has user info"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(error("it has a query or a fragment"));
        }
        let prefix = url.path().to_ascii_lowercase();
        if ENCODED.iter().any(|encoded| prefix.contains(encoded)) {
            return Err(error("the prefix has an encoded slash, dot or `%`"));
        }
        let host = url.host().ok_or(error("it has no host"))?.to_owned();
        Ok(HttpGrant {
            methods,
            scheme: url.scheme().to_owned(),
            host: HostPattern::read(&host).map_err(error)?,
            port: if any_port { None } else { url.port_or_known_default() },
            prefix: url.path().to_owned(),
            private,
        })
    }

    /// Tells whether a request is one of these.
    fn covers(&self, target: &Target) -> bool {
        (self.methods.is_empty() || self.methods.contains(&target.method))
            && self.scheme == target.url.scheme()
            && self.host.covers(target.host())
            && self.port.is_none_or(|port| target.url.port_or_known_default() == Some(port))
            && self.covers_path(target.url.path())
    }

    /// Tells whether there is a request that both are for.
    fn meets(&self, other: &HttpGrant) -> bool {
        let is_common = |method: &String| other.methods.contains(method);
        let methods = self.methods.is_empty() || other.methods.is_empty();
        (methods || self.methods.iter().any(is_common))
            && self.scheme == other.scheme
            && self.host.meets(&other.host)
            && (self.port.is_none() || other.port.is_none() || self.port == other.port)
            && (self.covers_path(&other.prefix) || other.covers_path(&self.prefix))
    }

    /// A prefix ends where a part of the path ends. Below a prefix, nothing may stand that a
    /// server could read as a way out of it.
    fn covers_path(&self, path: &str) -> bool {
        if self.prefix == "/" {
            return true;
        }
        let lower = path.to_ascii_lowercase();
        let leads_out = ENCODED.iter().any(|encoded| lower.contains(encoded))
            || path.split('/').any(|part| part.starts_with(".."));
        let rest = path.strip_prefix(self.prefix.as_str());
        let within = rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with('/') || self.prefix.ends_with('/')
        });
        within && !leads_out
    }

    /// The same, as a text, without the right to private addresses: that is for the operator to
    /// think of.
    pub fn without_private(&self) -> String {
        HttpGrant { private: false, ..self.clone() }.to_string()
    }

    /// How far the addresses of the host may reach.
    fn reach(&self) -> Reach {
        match &self.host {
            HostPattern::Exactly(Host::Domain(name)) if name == "localhost" => Reach::Named,
            HostPattern::Exactly(Host::Ipv4(_) | Host::Ipv6(_)) => Reach::Named,
            _ if self.private => Reach::Private,
            _ => Reach::Public,
        }
    }
}

/// The URL without a `:*` after its host, if there is one.
fn without_any_port(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let authority = authority.strip_suffix(":*")?;
    Some(format!("{scheme}://{authority}{path}"))
}

impl fmt::Display for HttpGrant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.methods.is_empty() {
            write!(formatter, "{} ", self.methods.join(","))?;
        }
        write!(formatter, "{}://{}", self.scheme, self.host)?;
        let default = if self.scheme == "https" { 443 } else { 80 };
        match self.port {
            None => formatter.write_str(":*")?,
            Some(port) if port != default => write!(formatter, ":{port}")?,
            Some(_) => {}
        }
        if self.prefix != "/" {
            formatter.write_str(&self.prefix)?;
        }
        if self.private {
            formatter.write_str(" private")?;
        }
        Ok(())
    }
}

/// The final request of a guest: what is checked, and what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    method: String,
    url: Url,
    host: Host<String>,
}

impl Target {
    /// Reads a request from its method and its whole URL.
    ///
    /// # Errors
    /// In a few words, if it is no plain http or https URL of a host.
    pub fn new(method: &str, url: &str) -> Result<Target, String> {
        let url = Url::parse(url).map_err(|problem| format!("its URL is none: {problem}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            let scheme = toolhost_core::text::one_line(&toolhost_core::text::cut(url.scheme(), 20));
            return Err(format!("its scheme is `{scheme}`; allowed are http and https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("its URL has user info, which is not allowed".to_owned());
        }
        let host = url.host().ok_or("its URL has no host")?.to_owned();
        if matches!(&host, Host::Domain(name) if name.ends_with('.')) {
            return Err("its host ends in a dot, which is not allowed".to_owned());
        }
        if matches!(method, "CONNECT" | "TRACE") {
            return Err(format!("the method {method} is not allowed"));
        }
        let mut url = url;
        url.set_fragment(None);
        Ok(Target { method: method.to_owned(), url, host })
    }

    /// The URL, normalised.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The URL, to change its query.
    pub fn url_mut(&mut self) -> &mut Url {
        &mut self.url
    }

    /// The host.
    pub fn host(&self) -> &Host<String> {
        &self.host
    }

    /// The grant that would let it pass: of the whole origin.
    pub fn grant(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Tells whether nobody else can read it on its way.
    pub fn is_safe(&self) -> bool {
        let loopback = match &self.host {
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        self.url.scheme() == "https" || loopback
    }
}

/// Method and URL without the query, which may hold what is nobody's business.
impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, origin) = (&self.method, self.url.origin().ascii_serialization());
        // Whoever shows it cuts it, without secrets.
        write!(formatter, "{method} {origin}{}", self.url.path())
    }
}

/// The value of a need of kind `http`.
#[derive(Debug, Deserialize)]
struct HttpNeed {
    hosts: Vec<String>,
}

/// The requests that one tool asks for, and those that its plugin was granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRights {
    asked: Vec<HttpGrant>,
    granted: Vec<HttpGrant>,
}

/// Why a request may not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpRefusal {
    /// The tool does not ask for it, so no grant would help.
    NotAsked,
    /// The operator has not granted it.
    NotGranted,
}

impl HttpRights {
    /// What a tool asks for, and what its plugin was granted.
    pub fn new<'a>(
        needs: &[Need],
        tool: &str,
        granted: impl IntoIterator<Item = &'a HttpGrant>,
    ) -> HttpRights {
        let asked = needs_for::<HttpNeed>(needs, Kind::HTTP.key(), tool)
            .flat_map(|need| need.hosts)
            .filter_map(|host| HttpGrant::parse(&host).ok());
        HttpRights { asked: asked.collect(), granted: granted.into_iter().cloned().collect() }
    }

    /// The grant that would let a request pass: what the tool asks for, if it names the host;
    /// otherwise the whole origin.
    pub fn suggestion(&self, target: &Target) -> String {
        let named = |asked: &&HttpGrant| {
            matches!(asked.host, HostPattern::Exactly(_)) && asked.covers(target)
        };
        match self.asked.iter().find(named) {
            Some(asked) => asked.without_private(),
            None => target.grant(),
        }
    }

    /// Tells whether no request at all can be sent.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty() || self.granted.is_empty()
    }

    /// Decides about a request: how far its address may reach.
    ///
    /// # Errors
    /// If it was not asked for, or not granted.
    pub fn decide(&self, target: &Target) -> Result<Reach, HttpRefusal> {
        if !self.asked.iter().any(|asked| asked.covers(target)) {
            return Err(HttpRefusal::NotAsked);
        }
        let granted = self.granted.iter().filter(|grant| grant.covers(target));
        granted.map(HttpGrant::reach).max().ok_or(HttpRefusal::NotGranted)
    }
}

#[cfg(test)]
mod tests;
