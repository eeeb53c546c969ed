//! What a client is given when it asks for the tools: page by page, and all pages of one moment.
//!
//! A cursor names its listing by digest. Listings that were begun are kept for a while, so that
//! a client which is still turning pages is not disturbed by what changes meanwhile.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rmcp::model::{ListToolsResult, Tool};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::Backend;
use toolhost_core::runtime;
use toolhost_kernel::definitions::Listed;
use toolhost_kernel::session::Session;
use toolhost_schema::schema::Format;

/// Tools on one page.
const PAGE_TOOLS_MAX: usize = 250;
/// Listings remembered for their further pages; the oldest goes first.
const REMEMBERED_MAX: usize = 4;
/// Bytes of those as JSON, together; the newest is remembered whatever it has.
const REMEMBERED_BYTES_MAX: usize = 8 << 20;
/// How long one is remembered that nobody turns a page of.
const REMEMBERED_TIME_MAX: Duration = Duration::from_secs(60);

/// The tools of one moment.
pub(super) struct Listing {
    /// The same for the same tools.
    pub(super) digest: u64,
    tools: Vec<Tool>,
    /// Bytes of each tool as JSON.
    lengths: Vec<usize>,
}

/// Makes listings, and remembers those that were begun.
pub(super) struct Listings {
    format: Format,
    begun: Mutex<VecDeque<BegunListing>>,
    /// Held by whoever makes one: those who ask meanwhile are given the same.
    made: tokio::sync::Mutex<Option<Made>>,
}

/// A listing whose pages are being turned.
struct BegunListing {
    listing: Arc<Listing>,
    turned: Instant,
}

/// The listing that was made last, and of what.
struct Made {
    of: [Weak<Listed>; 2],
    listing: Arc<Listing>,
}

impl Listings {
    /// Schemas of arguments have this format.
    pub(super) fn new(format: Format) -> Listings {
        Listings { format, begun: Mutex::default(), made: tokio::sync::Mutex::default() }
    }

    /// Lists the tools that a session has now, by what their checks said last; none if it `is_gone`
    /// who asked. However many ask, it is made once as long as the definitions are the same.
    pub(super) async fn make(
        &self,
        host: &dyn Backend,
        session: &Session,
        is_gone: &(dyn Fn() -> bool + Sync),
    ) -> Option<Arc<Listing>> {
        let mut made = self.made.lock().await;
        let listed = host.known_definitions(session, Format::Mcp).await;
        let formed = match self.format {
            Format::Mcp => Arc::clone(&listed),
            format => host.known_definitions(session, format).await,
        };
        let of = [Arc::downgrade(&listed), Arc::downgrade(&formed)];
        if let Some(made) = &*made
            && made.of.iter().zip(&of).all(|(made, of)| made.ptr_eq(of))
        {
            return Some(Arc::clone(&made.listing));
        }
        let formed = (self.format != Format::Mcp).then_some(&*formed);
        let listing = runtime::at_length(|| self.of(&listed, formed, is_gone))?;
        *made = Some(Made { of, listing: Arc::clone(&listing) });
        Some(listing)
    }

    fn of(
        &self,
        listed: &Listed,
        formed: Option<&Listed>,
        is_gone: &(dyn Fn() -> bool + Sync),
    ) -> Option<Arc<Listing>> {
        let formed =
            formed.map(|formed| formed.names.iter().map(String::as_str).zip(&formed.values));
        let schemas: HashMap<&str, &Value> = formed.into_iter().flatten().collect();
        // One after the other, so that there is one copy at a time, and an end between any two.
        let values = listed.names.iter().zip(&listed.values).map(|(name, value)| {
            let mut value = value.clone();
            if let Some(formed) = schemas.get(name.as_str()) {
                value["inputSchema"] = Value::Object(input_schema(formed, self.format));
            }
            value
        });
        Listing::new(values, is_gone).map(Arc::new)
    }

    /// The first page of a listing, which is remembered if there are more.
    pub(super) fn first_page(&self, listing: Arc<Listing>) -> ListToolsResult {
        let page = listing.page(0);
        let mut begun = self.begun();
        if page.next_cursor.is_some() {
            begun.retain(|known| known.listing.digest != listing.digest);
            begun.push_back(BegunListing { listing, turned: Instant::now() });
            let bytes = |begun: &VecDeque<BegunListing>| -> usize {
                begun.iter().map(|known| known.listing.bytes()).sum()
            };
            while begun.len() > REMEMBERED_MAX
                || begun.len() > 1 && bytes(&begun) > REMEMBERED_BYTES_MAX
            {
                begun.pop_front();
            }
        }
        page
    }

    /// Those that were begun, without the forgotten ones.
    fn begun(&self) -> MutexGuard<'_, VecDeque<BegunListing>> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.retain(|known| known.turned.elapsed() < REMEMBERED_TIME_MAX);
        begun
    }

    /// The page that a cursor stands for, and its bytes; none if the cursor was not given here, or
    /// long ago.
    pub(super) fn page(&self, cursor: &str) -> Option<(ListToolsResult, usize)> {
        let (digest, start) = cursor.split_once('-')?;
        let digest = u64::from_str_radix(digest, 16).ok()?;
        let start: usize = start.parse().ok()?;
        let mut begun = self.begun();
        let known = begun.iter_mut().find(|known| known.listing.digest == digest)?;
        known.turned = Instant::now();
        let listing = &known.listing;
        // Only what was given, to the letter.
        let is_ours = start > 0
            && start < listing.tools.len()
            && start.is_multiple_of(PAGE_TOOLS_MAX)
            && listing.cursor(start) == cursor;
        is_ours.then(|| (listing.page(start), listing.page_bytes(start)))
    }
}

impl Listing {
    fn new(
        values: impl Iterator<Item = Value>,
        is_gone: &(dyn Fn() -> bool + Sync),
    ) -> Option<Listing> {
        let mut written = DigestWriter::default();
        let (mut tools, mut lengths) = (Vec::new(), Vec::new());
        for value in values {
            if is_gone() {
                return None;
            }
            let before = written.bytes;
            let name = value["name"].clone();
            let tool = serde_json::to_writer(&mut written, &value)
                .and_then(|()| serde_json::from_value::<Tool>(value));
            match tool {
                Ok(tool) => {
                    tools.push(tool);
                    lengths.push(written.bytes - before);
                }
                Err(error) => tracing::error!("{name} cannot be listed: {error}"),
            }
        }
        let digest = written.hash.finalize();
        let digest = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        Some(Listing { digest, tools, lengths })
    }

    /// Bytes of the first page as JSON, about.
    pub(super) fn first_bytes(&self) -> usize {
        self.page_bytes(0)
    }

    fn bytes(&self) -> usize {
        self.lengths.iter().sum()
    }

    fn page_bytes(&self, start: usize) -> usize {
        self.lengths.iter().skip(start).take(PAGE_TOOLS_MAX).sum()
    }

    fn page(&self, start: usize) -> ListToolsResult {
        let end = self.tools.len().min(start + PAGE_TOOLS_MAX);
        let mut page = ListToolsResult::with_all_items(self.tools[start..end].to_vec());
        page.next_cursor = (end < self.tools.len()).then(|| self.cursor(end));
        page
    }

    fn cursor(&self, start: usize) -> String {
        format!("{:016x}-{start}", self.digest)
    }
}

/// Counts and digests what is written.
#[derive(Default)]
struct DigestWriter {
    hash: Sha256,
    bytes: usize,
}

impl io::Write for DigestWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        self.bytes += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The schema of a tool's arguments out of a definition in a vendor's form, as MCP allows it.
fn input_schema(definition: &Value, format: Format) -> Map<String, Value> {
    let schema = match format {
        Format::OpenAi | Format::OpenAiStrict => &definition["function"]["parameters"],
        Format::Anthropic => &definition["input_schema"],
        Format::Gemini => &definition["parameters"],
        Format::Mcp => &definition["inputSchema"],
    };
    let mut schema = schema.clone();
    if format == Format::Gemini {
        lower_types(&mut schema);
    }
    let mut members = match schema {
        Value::Object(members) => members,
        _ => Map::from_iter([("properties".to_owned(), json!({}))]),
    };
    members.insert("type".to_owned(), "object".into());
    members
}

/// Gemini writes the names of types in capitals, as JSON Schema does not.
fn lower_types(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::String(name)) = members.get_mut("type") {
        name.make_ascii_lowercase();
    }
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(lower_types);
    }
    if let Some(Value::Array(branches)) = members.get_mut("anyOf") {
        branches.iter_mut().for_each(lower_types);
    }
    if let Some(items) = members.get_mut("items") {
        lower_types(items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(count: usize) -> Listing {
        let tool = |number| json!({ "name": format!("t{number:04}"), "inputSchema": {} });
        Listing::new((0..count).map(tool), &|| false).expect("nobody is gone")
    }

    #[test]
    fn pages_follow_one_another() {
        let listings = Listings::new(Format::Mcp);
        let mut page = listings.first_page(Arc::new(listing(501)));
        let mut names: Vec<String> = Vec::new();
        loop {
            names.extend(page.tools.iter().map(|tool| tool.name.to_string()));
            let Some(cursor) = &page.next_cursor else { break };
            page = listings.page(cursor).expect("a page").0;
        }
        assert_eq!(names.len(), 501);
        assert!(names.is_sorted());
        assert_eq!(listings.first_page(Arc::new(listing(250))).next_cursor, None);
    }

    #[test]
    fn only_cursors_that_were_given_are_taken() {
        let listings = Listings::new(Format::Mcp);
        let first = Arc::new(listing(600));
        let cursor = listings.first_page(Arc::clone(&first)).next_cursor.expect("a cursor");
        assert!(listings.page(&cursor).is_some());
        let other = listing(601).cursor(250);
        let odd = [
            "",
            "-",
            "x",
            "250",
            &first.cursor(0),
            &first.cursor(1),
            &first.cursor(750),
            &other,
            &format!("0{cursor}"),
            &format!("{cursor} "),
            &cursor.replace("-250", "-+250"),
        ];
        for cursor in odd {
            assert!(listings.page(cursor).is_none(), "{cursor}");
        }
        for count in 601..=600 + REMEMBERED_MAX {
            assert!(listings.page(&cursor).is_some());
            listings.first_page(Arc::new(listing(count)));
        }
        assert!(listings.page(&cursor).is_none(), "the oldest goes");
    }

    #[test]
    fn large_listings_are_forgotten_for_newer_ones() {
        let listings = Listings::new(Format::Mcp);
        let large = |name: &str| {
            let text = "x".repeat(20 << 10);
            let tool = |number: usize| json!({ "name": format!("{name}{number:04}"), "description": text, "inputSchema": {} });
            Arc::new(Listing::new((0..300).map(tool), &|| false).expect("nobody is gone"))
        };
        let cursors = ["a", "b", "c"]
            .map(|name| listings.first_page(large(name)).next_cursor.expect("a cursor"));
        // Two of 6 MiB each are more than 8 MiB.
        assert!(listings.page(&cursors[0]).is_none() && listings.page(&cursors[1]).is_none());
        assert!(listings.page(&cursors[2]).is_some());
        assert_eq!(listings.begun().len(), 1);
    }
}
