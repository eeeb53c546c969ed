//! What a model is shown: the definitions of the tools that its session has and that can work.
//!
//! They are sorted and byte-identical from one listing to the next, because prompt caches
//! depend on it; so a listing is remembered, by the catalog's generation, the selection and the
//! format, until a check's answer may have changed. Tools whose definition depends on what else
//! is visible are asked once the rest is known, so no definition names a tool that the model
//! cannot see.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::availability::{Availability, Unavailable};
use crate::registry::{Catalog, Entry};
use crate::session::{self, Session};
use toolhost_core::limits::Limits;
use toolhost_core::tool::SourceId;
use toolhost_core::{runtime, text};
use toolhost_policy::review;
use toolhost_policy::toolset::{Selected, Selection};
use toolhost_schema::schema::{self, Definition, Format, Schema};

/// Listings remembered; the oldest goes first.
const REMEMBERED_MAX: usize = 8;
/// Tools remembered as warned of; then they are warned of anew.
const WARNED_MAX: usize = 10_000;
/// Of one source; so that one with many slow answers does not take the others' turns.
const DESCRIBED_OF_SOURCE_AT_ONCE: usize = 2;
/// How long a listing is remembered in which a tool did not answer.
const INCOMPLETE_FOR: Duration = Duration::from_secs(30);
/// Tools asked for their definition side by side.
const DESCRIBED_AT_ONCE: usize = 16;

/// One listing of definitions.
#[derive(Debug)]
pub struct Listed {
    /// The catalog they are of.
    pub generation: u64,
    /// The names of the tools, sorted.
    pub names: Vec<String>,
    /// The definitions in their format, in the order of the names.
    pub values: Vec<Value>,
    /// Tools of the session that cannot work at present, by name.
    pub unavailable: BTreeMap<String, Unavailable>,
    /// What the session's selection came to.
    pub selected: Arc<Selected>,
}

/// Makes listings and remembers them.
pub struct Definitions {
    availability: Arc<Availability>,
    limits: Arc<Limits>,
    remembered: Mutex<VecDeque<MemoisedDefinitions>>,
    /// Held by whoever renders.
    rendering: tokio::sync::Mutex<()>,
    /// Tools that were warned of, so that each build is warned of once.
    warned: Mutex<HashSet<(SourceId, String, u64)>>,
}

struct MemoisedDefinitions {
    generation: u64,
    format: Format,
    selection: Selection,
    is_one_call: bool,
    /// A session with tools of its own is told apart by where they are.
    interceptors: Vec<usize>,
    /// How often checks had answered otherwise, for a listing of what they said last.
    known: Option<u64>,
    fresh_until: Option<Instant>,
    listed: Arc<Listed>,
}

impl Definitions {
    /// Remembers nothing yet.
    pub fn new(availability: Arc<Availability>, limits: Arc<Limits>) -> Definitions {
        let (remembered, rendering, warned) = Default::default();
        Definitions { availability, limits, remembered, rendering, warned }
    }

    /// Returns the definitions of the tools of a session, in a format.
    ///
    /// It takes no longer than checks and dynamic definitions may: twice `check_time_max` and
    /// twice `describe_time_max`, however many tools there are.
    ///
    /// # Cancel safety
    /// Dropping the future stops what it waits for.
    pub async fn list(&self, catalog: &Catalog, session: &Session, format: Format) -> Arc<Listed> {
        self.listed(catalog, session, format, None).await
    }

    /// The same without asking checks: what each said last counts, and what was never asked
    /// counts as a yes.
    ///
    /// # Cancel safety
    /// Dropping the future stops what it waits for.
    pub async fn list_known(
        &self,
        catalog: &Catalog,
        session: &Session,
        format: Format,
    ) -> Arc<Listed> {
        // Seen before what is known, so that nothing newer is remembered under it.
        let changes = *self.availability.changes().borrow();
        self.listed(catalog, session, format, Some(changes)).await
    }

    async fn listed(
        &self,
        catalog: &Catalog,
        session: &Session,
        format: Format,
        known: Option<u64>,
    ) -> Arc<Listed> {
        if let Some(listed) = self.remembered(catalog, session, format, known) {
            return listed;
        }
        let selected = session.scope(catalog);
        let mut entries: BTreeMap<&str, &Entry> = selected
            .tools
            .iter()
            .filter_map(|name| Some((name.as_str(), catalog.find(name)?)))
            .collect();
        // The host's own tools are of use to sessions that outlive a call.
        for entry in catalog.of_the_house() {
            let name = entry.tool.spec().name.as_str();
            if session.is_one_call() || !session.has(catalog, name) {
                entries.remove(name);
            } else {
                entries.insert(name, entry);
            }
        }
        // Interceptors stand before whatever the catalog has under the name.
        let own = session.interceptors().iter().map(|(name, entry)| (name.as_str(), entry));
        entries.extend(own.filter(|(name, _)| session.has(catalog, name)));
        let checked = match known {
            Some(_) => self.availability.last_known(entries.values().copied()),
            None => self.availability.of_all(entries.values().copied()).await,
        };
        entries.retain(|name, _| !checked.unavailable.contains_key(*name));
        let names: Vec<String> = entries.keys().map(|name| (*name).to_owned()).collect();
        let (definitions, is_whole) = self.definitions(&entries, &names).await;
        let fresh_until = match is_whole {
            true => checked.fresh_until,
            false => {
                let soon = Instant::now() + INCOMPLETE_FOR;
                Some(checked.fresh_until.map_or(soon, |until| until.min(soon)))
            }
        };
        // Whoever waits for the same does not render it anew.
        let _turn = self.rendering.lock().await;
        if let Some(listed) = self.remembered(catalog, session, format, known) {
            return listed;
        }
        let values = runtime::at_length(|| {
            definitions.iter().map(|definition| definition.render(format)).collect()
        });
        let (generation, unavailable) = (catalog.generation, checked.unavailable);
        let listed = Arc::new(Listed { generation, names, values, unavailable, selected });
        self.remember(session, format, known, fresh_until, &listed);
        listed
    }

    fn remembered(
        &self,
        catalog: &Catalog,
        session: &Session,
        format: Format,
        known: Option<u64>,
    ) -> Option<Arc<Listed>> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let found = remembered.iter().find(|listing| {
            listing.generation == catalog.generation
                && listing.format == format
                && listing.known == known
                && listing.fresh_until.is_none_or(|until| Instant::now() < until)
                && listing.selection == *session.selection()
                && listing.is_one_call == session.is_one_call()
                && listing.interceptors == addresses(session)
        })?;
        Some(Arc::clone(&found.listed))
    }

    fn remember(
        &self,
        session: &Session,
        format: Format,
        known: Option<u64>,
        fresh_until: Option<Instant>,
        listed: &Arc<Listed>,
    ) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let (selection, interceptors) = (session.selection().clone(), addresses(session));
        remembered.retain(|listing| {
            listing.format != format
                || listing.known.is_some() != known.is_some()
                || listing.selection != selection
                || listing.is_one_call != session.is_one_call()
                || listing.interceptors != interceptors
        });
        if remembered.len() == REMEMBERED_MAX {
            remembered.pop_front();
        }
        remembered.push_back(MemoisedDefinitions {
            generation: listed.generation,
            format,
            selection,
            is_one_call: session.is_one_call(),
            interceptors,
            known,
            fresh_until,
            listed: Arc::clone(listed),
        });
    }

    /// The definitions of visible tools, those that depend on what is visible included.
    async fn definitions(
        &self,
        entries: &BTreeMap<&str, &Entry>,
        visible: &[String],
    ) -> (Vec<Definition>, bool) {
        let mut definitions: Vec<Definition> =
            entries.iter().map(|(name, entry)| registered(name, entry)).collect();
        let dynamic = |entry: &&&Entry| entry.tool.spec().has_dynamic_schema;
        let of_all = Semaphore::new(DESCRIBED_AT_ONCE);
        let mut of_sources: HashMap<&SourceId, Semaphore> = HashMap::new();
        for entry in entries.values().filter(dynamic) {
            let turns = || Semaphore::new(DESCRIBED_OF_SOURCE_AT_ONCE);
            of_sources.entry(&entry.source).or_insert_with(turns);
        }
        let mut answers = FuturesUnordered::new();
        for (place, entry) in entries.values().enumerate() {
            if let Some(of_source) = of_sources.get(&entry.source)
                && entry.tool.spec().has_dynamic_schema
            {
                answers.push(described([of_source, &of_all], place, entry, visible));
            }
        }
        let mut is_whole = true;
        let collect = async {
            while let Some((place, entry, answer)) = answers.next().await {
                let changed = answer.and_then(|answer| match answer {
                    Some(text) => self.changed(entry, &definitions[place], &text).map(Some),
                    None => Ok(None),
                });
                match changed {
                    Ok(Some(definition)) => definitions[place] = definition,
                    Ok(None) => {}
                    Err(reason) => {
                        is_whole = false;
                        self.warn(entry, &reason);
                    }
                }
            }
        };
        // Whoever was not asked in time stays as registered.
        let time_max = 2 * self.limits.describe_time_max;
        if tokio::time::timeout(time_max, collect).await.is_err() {
            tracing::warn!("some definitions stay as registered: not all answered in time");
            is_whole = false;
        }
        drop(answers);
        (definitions, is_whole)
    }

    /// A definition with what `describe` answered, if that can be used.
    fn changed(
        &self,
        entry: &Entry,
        registered: &Definition,
        text: &str,
    ) -> Result<Definition, String> {
        let allowed = self.limits.schema_bytes_max.as_usize()
            + 2 * self.limits.description_bytes_max.as_usize();
        if text.len() > allowed {
            return Err(format!("it answers {} bytes; allowed are {allowed}", text.len()));
        }
        let answer: Value = serde_json::from_str(text)
            .map_err(|error| format!("its answer is not JSON: {error}"))?;
        let Value::Object(members) = answer else {
            return Err("its answer is not a JSON object".to_owned());
        };
        let mut definition = registered.clone();
        for (name, value) in members {
            match (name.as_str(), value) {
                ("description", Value::String(text))
                    if text.len() <= self.limits.description_bytes_max.as_usize() =>
                {
                    definition.description = text;
                }
                ("parameters", value) => {
                    let parsed = runtime::at_length(|| {
                        let schema = schema::parse(&value.to_string(), &self.limits)?;
                        Schema::compile(&schema, &self.limits).map(|_| schema)
                    });
                    definition.parameters = parsed.map_err(|error| error.to_string())?;
                }
                (name, _) => {
                    let name = text::one_line(&text::cut(name, 60));
                    return Err(format!(
                        "its answer has `{name}`, which cannot be used; allowed are `description`, a text, and `parameters`, a schema"
                    ));
                }
            }
        }
        // At registration, such a text would have made the plugin wait for a person.
        let found = (!entry.trusted)
            .then(|| review::in_definition(&definition.description, &definition.parameters));
        if let Some(found) = found.iter().flatten().next() {
            return Err(format!("its answer is suspect, and nobody trusted the plugin: {found}"));
        }
        Ok(definition)
    }

    fn warn(&self, entry: &Entry, reason: &str) {
        let name = entry.tool.spec().name.to_string();
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() >= WARNED_MAX {
            warned.clear();
        }
        if warned.insert((entry.source.clone(), name.clone(), entry.published)) {
            let source = &entry.source;
            tracing::warn!("the definition of `{name}` of {source} stays as registered: {reason}");
        }
    }
}

/// What a tool registered. What strangers write is not passed on as structured output, so none
/// is promised; nor is output of which some is not checked.
fn registered(name: &str, entry: &Entry) -> Definition {
    let mut definition = Definition::of(entry.tool.spec());
    let is_checked = entry.output.as_ref().is_none_or(|schema| schema.is_exact());
    if session::is_untrusted(name) || !is_checked {
        definition.output = None;
    }
    definition
}

async fn described<'a>(
    turns: [&Semaphore; 2],
    place: usize,
    entry: &'a Entry,
    visible: &[String],
) -> (usize, &'a Entry, Result<Option<String>, String>) {
    // The semaphore is never closed.
    let _turns = (turns[0].acquire().await, turns[1].acquire().await);
    (place, entry, entry.tool.describe(visible).await)
}

fn addresses(session: &Session) -> Vec<usize> {
    let address = |entry: &Entry| Arc::as_ptr(&entry.tool).cast::<()>().addr();
    session.interceptors().values().map(address).collect()
}
