//! Many decisions, one after the other, against a simple model: what each (folder, id, bytes) was
//! given. However the operator's file and the lock were written, also in the days before, no plugin
//! ever holds what was given to another, and nothing that was given is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::*;
use toolhost_policy::capability::{Kind, VariableGrant};
use toolhost_state::trust_store::{Agreed, Pin};

const SEEDS: u64 = 250;
const STEPS: usize = 60;
/// Ids; of the first there is a bundled plugin.
const IDS: [&str; 2] = ["json", "notes"];
const FOLDERS: [&str; 3] = ["/a/plugins", "/b/plugins", "/home/plugins"];
const DIGESTS: [&str; 4] = ["one", "two", "three", "bundled"];

/// Flags of `toolhost grant`.
type Flags = BTreeSet<String>;

/// What the operator did, and what must come of it.
struct World {
    random: ChaCha8Rng,
    books: Books,
    /// The bytes that lie in each folder under each id.
    files: BTreeMap<(PathBuf, PluginId), &'static str>,
    /// What each plugin's bytes may have: what somebody agreed to, and did not take back.
    given: BTreeMap<(PluginAddress, &'static str), Flags>,
    /// What each plugin must have, as long as its bytes are these.
    held: BTreeMap<(PluginAddress, &'static str), Flags>,
    /// For whom each grant was made. One that was written for an id alone is anybody's, once.
    made_for: BTreeMap<String, Option<PluginAddress>>,
    done: Vec<String>,
}

impl World {
    fn new(seed: u64) -> World {
        let bundled = BTreeMap::from([(("json".to_owned(), "bundled".to_owned()), 0)]);
        let mut remembered = Remembered::default();
        remembered.bundled = bundled;
        let books = Books { text: String::new(), config: Config::default(), remembered };
        let mut world = World {
            random: ChaCha8Rng::seed_from_u64(seed),
            books,
            files: BTreeMap::new(),
            given: BTreeMap::new(),
            held: BTreeMap::new(),
            made_for: BTreeMap::new(),
            done: Vec::new(),
        };
        for id in IDS {
            world.as_in_the_days_before(&PluginId::from_stem(id).expect("an id"));
        }
        world
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.random_range(0..of.len())]
    }

    fn chance(&mut self, of_ten: u32) -> bool {
        self.random.random_range(0..10) < of_ten
    }

    /// A grant that nobody has made before.
    fn make(&mut self, whose: Option<&PluginAddress>) -> Grants {
        let name = format!("V{}", self.made_for.len());
        let mut grants = Grants::default();
        grants.add(Kind::ENV, &name, None).expect("a grant");
        self.made_for.insert(grants.flags().remove(0), whose.cloned());
        grants
    }

    /// A table that names only an id, and a lock that says to whom each grant of it was given.
    fn as_in_the_days_before(&mut self, id: &PluginId) {
        let mut table = Grants::default();
        for folder in FOLDERS {
            if !self.chance(3) {
                continue;
            }
            let digest = self.pick(&DIGESTS);
            let address = self.address(folder, id, digest);
            let grants = self.make(Some(&address));
            table.extend(&grants);
            let pin = Pin { folder: folder.into(), id: id.to_string(), digest: digest.to_owned() };
            self.books.lock().trust(&pin, &Agreed::These(grants.flags()));
            self.files.insert((folder.into(), id.clone()), digest);
            let key = (address, digest);
            self.given.entry(key.clone()).or_default().extend(grants.flags());
            self.held.entry(key).or_default().extend(grants.flags());
        }
        if self.chance(4) {
            // By hand, for whoever it is.
            table.extend(&self.make(None));
        }
        if !table.is_empty() {
            let names: Vec<String> =
                table.of().map(|VariableGrant(name)| format!("\"{name}\"")).collect();
            let text = format!("[plugins.{id}]\nenv = [{}]\n", names.join(", "));
            self.books.edit(|before| Ok(format!("{before}{text}"))).expect("a configuration");
        }
    }

    fn address(&self, folder: &str, id: &PluginId, digest: &str) -> PluginAddress {
        match reload::is_bundled(&self.books.remembered, id, digest) {
            true => PluginAddress::bundled(id.clone()),
            false => PluginAddress::in_folder(Path::new(folder), id.clone()),
        }
    }

    /// The plugin that lies in a folder, and its bytes.
    fn here(&mut self) -> (PathBuf, PluginAddress, &'static str) {
        let (folder, id) = (self.pick(&FOLDERS), self.pick(&IDS));
        let id = PluginId::from_stem(id).expect("an id");
        let first = self.pick(&DIGESTS);
        let key = (PathBuf::from(folder), id.clone());
        let digest = *self.files.entry(key).or_insert(first);
        // A host looks at what lies there.
        self.books.lock().plugin_mut(Path::new(folder), id.as_str());
        (folder.into(), self.address(folder, &id, digest), digest)
    }

    /// One decision, of a person or of whoever writes files.
    fn step(&mut self) {
        let (folder, address, digest) = self.here();
        let pin =
            Pin { folder: folder.clone(), id: address.id.to_string(), digest: digest.to_owned() };
        // What a crash leaves: the file is written, and the lock is not.
        let before = self.chance(1).then(|| self.books.remembered.lock().clone());
        match self.random.random_range(0..12) {
            0..4 => {
                let mut grants = self.make(Some(&address));
                if self.chance(5) {
                    // A person who was told that bytes are others names all they hold.
                    grants.extend(&self.books.may(&address).grants);
                }
                self.grant(&address, digest, &pin, &grants, before.is_some());
            }
            4..6 => {
                let said = self.books.said(&address);
                self.note(format!("trust {address} {digest}: {:?}", said.grants.flags()));
                if address.folder().is_some() {
                    let agreed = self.books.trust(&address, digest, &said).expect("trusted");
                    self.books.lock().trust(&pin, &Agreed::These(agreed.clone()));
                    self.given(&address, digest, agreed, before.is_some());
                }
            }
            6 => self.revoke(&address, &Grants::default()),
            7 => {
                let held = self.books.may(&address).grants;
                let mut chosen = Grants::default();
                if let Some(VariableGrant(name)) = held.of().next() {
                    chosen.add(Kind::ENV, name, None).expect("a variable");
                }
                if !chosen.is_empty() {
                    self.revoke(&address, &chosen);
                }
            }
            8..11 => {
                let digest = self.pick(&DIGESTS);
                self.note(format!("{digest} is put into {} as {}", folder.display(), address.id));
                self.files.insert((folder, address.id), digest);
                return;
            }
            _ => {
                // By hand, into the table of one plugin; it waits until somebody trusts it.
                let grants = self.make(Some(&address));
                if address.folder().is_some() {
                    self.note(format!("{:?} is written for {address}", grants.flags()));
                    let edit = |text: &str| config::with_grants(text, &address, &grants);
                    self.books.edit(edit).expect("edited");
                }
                return;
            }
        }
        if let Some(before) = before {
            self.note("and the lock is not written".to_owned());
            *self.books.lock() = before;
            // It was not said that it is done.
            self.held.retain(|(known, _), _| known.id != address.id);
        }
    }

    fn grant(
        &mut self,
        address: &PluginAddress,
        digest: &'static str,
        pin: &Pin,
        grants: &Grants,
        crashes: bool,
    ) {
        let wanted = WantedChange { words: "x", place: "x", digest, is_suspect: false };
        let is_known = self.books.trusts(address, digest);
        let done = self.books.grant(address, &wanted, grants);
        self.note(format!("grant {address} {digest} {:?}: {:?}", grants.flags(), done.is_ok()));
        if done.is_err() {
            assert!(!is_known, "refused to bytes that are known");
            return;
        }
        if address.folder().is_some() {
            self.books.lock().trust(pin, &Agreed::More(grants.flags()));
        }
        if !is_known {
            // Other bytes have what is named, and no more.
            self.given.remove(&(address.clone(), digest));
        }
        self.given(address, digest, grants.flags(), crashes);
    }

    fn given(
        &mut self,
        address: &PluginAddress,
        digest: &'static str,
        flags: Vec<String>,
        crashes: bool,
    ) {
        let key = (address.clone(), digest);
        self.given.entry(key.clone()).or_default().extend(flags.iter().cloned());
        if !crashes {
            // What was trusted before is not any more.
            self.held.retain(|(known, bytes), _| known != address || *bytes == digest);
            self.held.entry(key).or_default().extend(flags);
        }
    }

    fn revoke(&mut self, address: &PluginAddress, chosen: &Grants) {
        self.note(format!("revoke {address} {:?}", chosen.flags()));
        self.books.revoke(address, chosen).expect("what is held can be taken");
        let taken = chosen.flags();
        for all in [&mut self.given, &mut self.held] {
            for (_, flags) in all.iter_mut().filter(|((known, _), _)| known == address) {
                flags.retain(|flag| !taken.is_empty() && !taken.contains(flag));
            }
        }
    }

    fn note(&mut self, what: String) {
        self.done.push(what);
    }

    /// What bytes that lie in a folder may do.
    fn effective(&self, config: &Config, address: &PluginAddress, digest: &str) -> Flags {
        match self.books.trusts(address, digest) {
            true => {
                let may = reload::may(config, address, &self.books.remembered);
                may.grants.flags().into_iter().collect()
            }
            false => Flags::new(),
        }
    }

    fn check(&mut self) {
        let mut narrowed = self.books.config.clone();
        let names: Vec<String> =
            (0..self.made_for.len()).step_by(2).map(|number| format!("\"V{number}\"")).collect();
        let file = format!("[plugins.json]\nenv = [{}]\n", names.join(","));
        let project = config::parse_project(&file, &narrowed).expect("a project's file");
        narrowed.narrow(&project);
        let ids = IDS.map(|id| PluginId::from_stem(id).expect("an id"));
        for (folder, id) in FOLDERS.iter().flat_map(|folder| ids.iter().map(move |id| (folder, id)))
        {
            for digest in DIGESTS {
                let address = self.address(folder, id, digest);
                let story =
                    || format!("{address} {digest}\n{}\n{}", self.done.join("\n"), self.books.text);
                let effective = self.effective(&self.books.config, &address, digest);
                let less = self.effective(&narrowed, &address, digest);
                assert!(less.is_subset(&effective), "a stranger's file gave {less:?}: {}", story());
                let key = (address.clone(), digest);
                let none = Flags::new();
                let given = self.given.get(&key).unwrap_or(&none);
                for flag in &effective {
                    match &self.made_for[flag] {
                        Some(whose) => {
                            assert_eq!(*whose, address, "{flag} is of another: {}", story());
                            assert!(
                                given.contains(flag),
                                "{flag} was not given to these bytes: {}",
                                story()
                            );
                        }
                        // What `make` built has by its digest what was written for its id.
                        None => assert!(
                            given.contains(flag) || address.folder().is_none(),
                            "{flag} was not given to these bytes: {}",
                            story()
                        ),
                    }
                }
                if let Some(held) = self.held.get(&key) {
                    let lost: Vec<&String> = held.difference(&effective).collect();
                    assert!(lost.is_empty(), "{lost:?} are lost: {}", story());
                }
            }
        }
        // What was written for an id is one plugin's, from the first time on.
        let all: Vec<(PluginAddress, Flags)> = FOLDERS
            .iter()
            .flat_map(|folder| ids.iter().map(move |id| (folder, id)))
            .flat_map(|(folder, id)| {
                DIGESTS.map(|digest| (self.address(folder, id, digest), digest))
            })
            .map(|(address, digest)| {
                (address.clone(), self.effective(&self.books.config, &address, digest))
            })
            .collect();
        for (address, flags) in all {
            for flag in flags {
                let whose = self.made_for.get_mut(&flag).expect("made");
                whose.get_or_insert(address.clone());
                if address.folder().is_none() {
                    self.given.entry((address.clone(), "bundled")).or_default().insert(flag);
                }
            }
        }
    }
}

#[test]
fn nobody_ever_holds_what_was_given_to_another() {
    let (mut granted, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.check();
        for _ in 0..STEPS {
            world.step();
            world.check();
        }
        let is_grant = |done: &&String| done.starts_with("grant ");
        granted += world.done.iter().filter(is_grant).filter(|done| done.ends_with("true")).count();
        refused +=
            world.done.iter().filter(is_grant).filter(|done| done.ends_with("false")).count();
    }
    // It has hunted where there is something to find.
    assert!(granted > 1_000 && refused > 100, "{granted} granted, {refused} refused");
}
