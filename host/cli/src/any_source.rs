//! Every command that shows sources shows those of a kind it has never heard of.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::home::Home;
use super::ui::{Ui, printed};
use super::{Global, audit, doctor, explain, list, trust, watch};
use toolhost::{Host, HostSettings, SourceStatus, Status};
use toolhost_core::tool::ToolName;
use toolhost_sources::driver::{Backoff, Driver, Failed, Phase};
use toolhost_sources::in_memory::{InMemory, MemoryDefinition, tool};
use toolhost_state::audit as log;

/// How long a test waits for something.
const PATIENCE: Duration = Duration::from_secs(60);

/// Flags as they are typed.
#[derive(Debug, Parser)]
struct Typed<T: clap::Args> {
    #[command(flatten)]
    arguments: T,
}

fn typed<T: clap::Args>(flags: &[&str]) -> T {
    let words = ["toolhost"].iter().chain(flags);
    Typed::<T>::try_parse_from(words).expect("flags").arguments
}

/// A host with the source `notes`, which is no plugin.
struct AnySource {
    driver: Arc<InMemory>,
    host: Host,
    home: Home,
    global: Global,
    ui: Ui,
    _folder: TempDir,
}

impl AnySource {
    async fn new() -> AnySource {
        let backoff = Backoff { first: Duration::from_millis(20), longest: PATIENCE };
        let driver = Arc::new(InMemory::default().pinned().retried(backoff));
        driver.put("notes", says("one"));
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::in_one_folder(folder.path());
        let settings = HostSettings {
            drivers: vec![Arc::clone(&driver) as Arc<dyn Driver>],
            state: Some(home.state.clone()),
            ..HostSettings::default()
        };
        let host = Host::start(settings).expect("a host");
        host.loaded().await;
        let global = Global { plugins: Vec::new(), config: None, json: false, verbose: 0 };
        AnySource { driver, host, home, global, ui: Ui::new(false), _folder: folder }
    }

    async fn until(&self, status: Status) -> SourceStatus {
        let mut sources = self.host.sources();
        let is_it = |of: &SourceStatus| of.status() == status && !of.loading;
        let shown = sources.wait_for(|shown| shown.statuses.iter().any(is_it));
        let shown = tokio::time::timeout(PATIENCE, shown).await.expect("it comes to that");
        let found = shown.expect("it runs").statuses.iter().find(|of| is_it(of)).cloned();
        found.expect("a status")
    }

    /// What `list`, `doctor`, `explain` and `watch` show.
    async fn show(&self, expected: &Expect) {
        let AnySource { host, ui, .. } = self;
        let all = async {
            let around = doctor::Around::default();
            ui.line("# list").expect("printed");
            list::show(ui, host, &typed(&[])).await.expect("listed");
            ui.line("# doctor").expect("printed");
            // It says by its exit code that something is wrong.
            let _ = doctor::show(ui, host, around, &typed(&[])).await;
            for name in ["note", "mcp:notes"] {
                ui.line(&format!("# explain {name}")).expect("printed");
                if explain::show(ui, host, &typed(&[name])).await.is_err() {
                    ui.line("there is no such name").expect("printed");
                }
            }
            ui.line("# watch").expect("printed");
            watch::show(ui, host).await.expect("shown");
        };
        let (text, ()) = printed(all).await;
        expected.assert_eq(&self.without_digests(&text));
    }

    /// What a person is shown who trusts it, and what that comes to.
    async fn trust(&self, status: &SourceStatus) -> String {
        let config = self.host.config();
        let of = (None, status);
        let trusted =
            async { trust::definition(&self.ui, (&self.home, &self.global), config, of, true) };
        let (text, trusted) = printed(trusted).await;
        trusted.expect("it is trusted");
        self.without_digests(&text)
    }

    /// What the audit log says, without the times.
    async fn audit(&self) -> String {
        self.host.written().await;
        let parts = log::parts(&log::folder(&self.home.state)).expect("a log");
        let all = async { audit::show(&self.ui, &typed(&["--all"]), parts) };
        let (text, shown) = printed(all).await;
        assert!(shown.is_ok());
        let lines = text.lines().filter_map(|line| Some(line.split_once(' ')?.1.trim_start()));
        let lines: Vec<&str> = lines.filter(|line| !line.starts_with("rotation")).collect();
        self.without_digests(&(lines.join("\n") + "\n"))
    }

    /// The text with a word in place of each digest.
    fn without_digests(&self, text: &str) -> String {
        let is_digest = |word: &str| {
            [12, 64].contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let mut words = text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric());
        let mut stable = String::new();
        for word in words.by_ref() {
            let bare = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
            match is_digest(bare) {
                true => stable.extend(["DIGEST", &word[bare.len()..]]),
                false => stable.push_str(word),
            }
        }
        stable
    }
}

fn says(text: &str) -> MemoryDefinition {
    Ok(vec![tool(&ToolName::new("note").expect("a name"), text)])
}

fn unreachable() -> MemoryDefinition {
    let (cause, repair) = ("nobody answers".to_owned(), Some("start it".to_owned()));
    Err(Failed { phase: Phase::Read, cause, repair })
}

#[tokio::test]
async fn a_source_of_another_kind_is_shown_by_every_command() {
    let lab = AnySource::new().await;
    lab.until(Status::Live).await;
    lab.show(&expect![[r#"
        # list
        TOOL         TOOLSET     SOURCE     STATE  TOKENS
        note         mcp-memory  mcp:notes  ready  29
        result_read  results     builtin    ready  166
        # doctor
        WHAT     HOW
        plugins  1 sources, 0 not loaded, 2 tools

        PLACE            SOURCE     DIGEST        STATE
        notes in memory  mcp:notes  DIGEST  live

        Everything that is enabled works.
        # explain note
        mcp:notes
          place: notes in memory (an MCP server's)
          digest: sha256:DIGEST
          definition: notes 1
          registered: `note` by mcp:notes
          asks for: nothing
          granted: nothing

        note of mcp:notes
          toolset: mcp-memory
          requires: nothing
          available: yes
          may: only compute and answer
          session: has it, as it has every tool
          hooks: none
          listed: yes

        It is listed and can be called.
        # explain mcp:notes
        mcp:notes
          place: notes in memory (an MCP server's)
          state: live
          digest: sha256:DIGEST
          definition: notes 1
          tools: note
          asks for: nothing
          granted: nothing

        # watch
        mcp:notes: live, 1 tools
    "#]])
        .await;

    lab.driver.put("notes", says("two"));
    let waits = lab.until(Status::Pending).await;
    lab.show(&expect![[r##"
        # list
        TOOL         TOOLSET     SOURCE     STATE              TOKENS
        note         mcp-memory  mcp:notes  ready, kept build  29
        result_read  results     builtin    ready              166

        Pending:
          mcp:notes: its definition is not the one that it had before; its build sha256:DIGEST keeps serving; look at it, and run `toolhost trust mcp:notes`
            ~ tool note /description: "one" -> "two"
        # doctor
        WHAT     HOW
        plugins  1 sources, 0 not loaded, 2 tools

        PLACE            SOURCE     DIGEST        STATE
        notes in memory  mcp:notes  DIGEST  pending, kept build serves

        Pending:
          mcp:notes: its definition is not the one that it had before; its build sha256:DIGEST keeps serving; look at it, and run `toolhost trust mcp:notes`
            ~ tool note /description: "one" -> "two"

        Broken: 1 source waits for you.
        # explain note
        mcp:notes
          place: notes in memory (an MCP server's)
          digest: sha256:DIGEST
          kept build: the new one waits: its definition is not the one that it had before
          definition: notes 1
          registered: `note` by mcp:notes
          asks for: nothing
          granted: nothing

        note of mcp:notes
          toolset: mcp-memory
          requires: nothing
          available: yes
          may: only compute and answer
          session: has it, as it has every tool
          hooks: none
          listed: yes

        It is listed and can be called.
        # explain mcp:notes
        mcp:notes
          place: notes in memory (an MCP server's)
          state: pending, kept build serves
          waits: its definition is not the one that it had before; its build sha256:DIGEST keeps serving
          digest: sha256:DIGEST
          definition: notes 1
          tools: note
          asks for: nothing
          granted: nothing

        # watch
        mcp:notes: pending, kept build serves, 1 tools
    "##]]).await;
    expect![[r#"
        mcp:notes: notes in memory
          digest   sha256:DIGEST
          made as  notes 1
          tools    note
          asks for nothing
          granted  nothing
          pending  its definition is not the one that it had before; its build sha256:DIGEST keeps serving
          differs from the build before:
            ~ tool note /description: "one" -> "two"
        mcp:notes is trusted, as long as its definition is sha256:DIGEST
    "#]].assert_eq(&lab.trust(&waits).await);
    lab.until(Status::Live).await;
    lab.show(&expect![[r#"
        # list
        TOOL         TOOLSET     SOURCE     STATE  TOKENS
        note         mcp-memory  mcp:notes  ready  29
        result_read  results     builtin    ready  166
        # doctor
        WHAT     HOW
        plugins  1 sources, 0 not loaded, 2 tools

        PLACE            SOURCE     DIGEST        STATE
        notes in memory  mcp:notes  DIGEST  live

        Everything that is enabled works.
        # explain note
        mcp:notes
          place: notes in memory (an MCP server's)
          digest: sha256:DIGEST
          definition: notes 1
          registered: `note` by mcp:notes
          asks for: nothing
          granted: nothing

        note of mcp:notes
          toolset: mcp-memory
          requires: nothing
          available: yes
          may: only compute and answer
          session: has it, as it has every tool
          hooks: none
          listed: yes

        It is listed and can be called.
        # explain mcp:notes
        mcp:notes
          place: notes in memory (an MCP server's)
          state: live
          digest: sha256:DIGEST
          definition: notes 1
          tools: note
          asks for: nothing
          granted: nothing

        # watch
        mcp:notes: live, 1 tools
    "#]])
        .await;

    lab.driver.put("notes", unreachable());
    lab.until(Status::Degraded).await;
    lab.show(&expect![[r#"
        # list
        TOOL         TOOLSET     SOURCE     STATE              TOKENS
        note         mcp-memory  mcp:notes  ready, kept build  29
        result_read  results     builtin    ready              166

        Not loaded:
          notes in memory: nobody answers; start it; its build sha256:DIGEST keeps serving
        # doctor
        WHAT     HOW
        plugins  1 sources, 1 not loaded, 2 tools

        PLACE            SOURCE     DIGEST  STATE
        notes in memory  mcp:notes  -       degraded (read), kept build serves

        Not loaded:
          notes in memory: nobody answers; start it; its build sha256:DIGEST keeps serving

        Broken: 1 source does not load.
        # explain note
        mcp:notes
          place: notes in memory (an MCP server's)
          digest: sha256:DIGEST
          kept build: the new one does not load: nobody answers; start it
          definition: notes 1
          registered: `note` by mcp:notes
          asks for: nothing
          granted: nothing

        note of mcp:notes
          toolset: mcp-memory
          requires: nothing
          available: yes
          may: only compute and answer
          session: has it, as it has every tool
          hooks: none
          listed: yes

        It is listed and can be called.
        # explain mcp:notes
        mcp:notes
          place: notes in memory (an MCP server's)
          state: degraded (read), kept build serves
          why: nobody answers; start it
          digest: sha256:DIGEST
          definition: notes 1
          tools: note
          asks for: nothing
          granted: nothing

        # watch
        mcp:notes: degraded (read), kept build serves, 1 tools
    "#]])
        .await;
    lab.driver.put_unseen("notes", says("two"));
    lab.until(Status::Live).await;

    lab.driver.remove("notes");
    let mut sources = lab.host.sources();
    let gone = sources.wait_for(|shown| shown.statuses.is_empty());
    tokio::time::timeout(PATIENCE, gone).await.expect("it goes").expect("it runs");
    lab.show(&expect![[r#"
        # list
        TOOL         TOOLSET  SOURCE   STATE  TOKENS
        result_read  results  builtin  ready  166
        # doctor
        WHAT     HOW
        plugins  0 sources, 0 not loaded, 1 tools

        Everything that is enabled works.
        # explain note
        there is no such name
        # explain mcp:notes
        there is no such name
        # watch
    "#]])
        .await;
    // The command and the host each write a log of their own, at their own pace.
    let shown = lab.audit().await;
    let is_of_command = |line: &&str| line.starts_with("trust ");
    let (of_command, of_host): (Vec<&str>, Vec<&str>) = shown.lines().partition(is_of_command);
    assert_eq!(of_command, ["trust    mcp:notes DIGEST"]);
    expect![[r#"
        load     mcp:notes DIGEST mcp, 1 tools
        load     mcp:notes DIGEST mcp, 1 tools
        load     mcp:notes DIGEST mcp, 1 tools
        load     notes in memory failed: nobody answers; start it
        load     mcp:notes DIGEST mcp, 1 tools"#]]
    .assert_eq(&of_host.join("\n"));
}

#[tokio::test]
async fn a_source_that_never_loaded_is_told_with_its_repair() {
    let lab = AnySource::new().await;
    lab.driver.remove("notes");
    lab.driver.put("others", unreachable());
    lab.until(Status::Failed).await;
    lab.show(&expect![[r#"
        # list
        TOOL         TOOLSET  SOURCE   STATE  TOKENS
        result_read  results  builtin  ready  166

        Not loaded:
          others in memory: nobody answers; start it
        # doctor
        WHAT     HOW
        plugins  1 sources, 1 not loaded, 1 tools

        PLACE             SOURCE      DIGEST  STATE
        others in memory  mcp:others  -       failed (read)

        Not loaded:
          others in memory: nobody answers; start it

        Broken: 1 source does not load.
        # explain note
        there is no such name
        # explain mcp:notes
        there is no such name
        # watch
        mcp:others: failed (read), 0 tools
    "#]])
        .await;
}
