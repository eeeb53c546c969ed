//! Tests of toolsets, by the numbers of the reference's vectors where there is one.

use std::time::{Duration, Instant};

use super::*;

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn user(toolsets: &[(&str, &[&str], &[&str])]) -> BTreeMap<String, UserToolset> {
    let toolset = |tools: &[&str], includes: &[&str]| UserToolset {
        description: "Mine.".to_owned(),
        tools: strings(tools),
        includes: strings(includes),
    };
    let pair = |(name, tools, includes): &(&str, &[&str], &[&str])| {
        ((*name).to_owned(), toolset(tools, includes))
    };
    toolsets.iter().map(pair).collect()
}

fn live(toolsets: &[(&str, &[&str])], aliases: &[(&str, &str)]) -> Live {
    let set = |(name, tools): &(&str, &[&str])| {
        ((*name).to_owned(), strings(tools).into_iter().collect())
    };
    let alias = |(alias, name): &(&str, &str)| ((*alias).to_owned(), (*name).to_owned());
    Live {
        toolsets: toolsets.iter().map(set).collect(),
        aliases: aliases.iter().map(alias).collect(),
    }
}

fn words(names: impl IntoIterator<Item = String>) -> String {
    Vec::from_iter(names).join(" ")
}

fn selection(enabled: &[&str], disabled: &[&str]) -> Selection {
    Selection { enabled: Some(strings(enabled)), disabled: strings(disabled) }
}

/// Asks with nothing but the table.
fn plain<T>(ask: impl FnOnce(Toolsets<'_>) -> T) -> T {
    ask(Toolsets::new(&BTreeMap::new(), &Live::default()))
}

const DEBUGGING: &str =
    "patch process read_file search_files terminal web_extract web_search write_file";

#[test]
fn c20_to_c22_composites_are_resolved() {
    plain(|toolsets| {
        assert_eq!(words(toolsets.resolve("debugging")), DEBUGGING);
        assert_eq!(
            words(toolsets.resolve("safe")),
            "image_generate vision_analyze web_extract web_search"
        );
        assert_eq!(words(toolsets.resolve("nope")), "");
        assert_eq!(toolsets.resolve("hermes-cli").len(), 52);
        assert_eq!(toolsets.resolve("hermes-gateway").len(), 64);
    });
}

#[test]
fn c24_all_is_every_toolset() {
    let user = user(&[("mine", &["my_tool"], &[])]);
    let live = live(&[("data", &["json_query"])], &[]);
    let toolsets = Toolsets::new(&user, &live);
    let all = toolsets.resolve("all");
    assert_eq!(all, toolsets.resolve("*"));
    assert_eq!(all, toolsets.resolve_all(toolsets.names()));
    for tool in ["my_tool", "json_query", "terminal", "spotify_search"] {
        assert!(all.contains(tool), "{tool}");
    }
    let of_the_table = toolsets.resolve_static("all");
    assert!(of_the_table.contains("my_tool") && !of_the_table.contains("json_query"));
    for name in ["all", "*", "terminal", "mine", "data"] {
        assert!(toolsets.is_known(name), "{name}");
    }
    assert!(!toolsets.is_known("nope"));
}

#[test]
fn c25_several_are_one_union() {
    plain(|toolsets| {
        let tools = toolsets.resolve_all(["web", "terminal", "web"]);
        assert_eq!(words(tools), "process terminal web_extract web_search");
        assert_eq!(words(toolsets.resolve_all::<&str>([])), "");
    });
}

#[test]
fn c27_disabled_toolsets_are_subtracted() {
    plain(|toolsets| {
        let selected = toolsets.select(&selection(&["file", "terminal"], &["terminal"]));
        assert_eq!(words(selected.tools), "patch read_file search_files write_file");
        let selected = toolsets.select(&selection(&["hermes-cli"], &["debugging"]));
        assert_eq!(selected.tools.len(), 52 - 8);
        assert!(selected.advisories.is_empty());
        let selected = toolsets.select(&Selection { enabled: None, disabled: strings(&["all"]) });
        assert!(selected.tools.is_empty());
    });
}

#[test]
fn c28_empty_and_unknown_selections_give_no_tools() {
    plain(|toolsets| {
        assert_eq!(toolsets.select(&selection(&[], &[])), Selected::default());
        let selected = toolsets.select(&selection(&["nope", "nope"], &["trminal", "web"]));
        assert!(selected.tools.is_empty());
        let messages: Vec<String> = selected.unknown.iter().map(Unknown::to_string).collect();
        assert_eq!(
            messages,
            ["Unknown toolset: nope", "Unknown toolset: trminal; did you mean `terminal`?"]
        );
        let everything = toolsets.select(&Selection::default());
        assert_eq!(everything.tools, toolsets.resolve("all"));
    });
}

#[test]
fn c30_plugin_tools_join_static_toolsets() {
    let (user, live) = (BTreeMap::new(), live(&[("web", &["web_archive"])], &[]));
    let toolsets = Toolsets::new(&user, &live);
    assert_eq!(words(toolsets.resolve("web")), "web_archive web_extract web_search");
    assert_eq!(words(toolsets.resolve_static("web")), "web_extract web_search");
    assert!(toolsets.resolve("debugging").contains("web_archive"));
    assert!(!toolsets.resolve_static("debugging").contains("web_archive"));
    let info = toolsets.info("web").expect("known");
    assert_eq!(words(info.direct_tools), "web_archive web_extract web_search");
    assert_eq!(info.origin, ToolsetOrigin::Static);
}

#[test]
fn toolsets_of_the_registry_have_aliases() {
    let user = BTreeMap::new();
    let live = live(
        &[("mcp-git", &["mcp__git__log"]), ("mcp-terminal", &["mcp__terminal__run"])],
        &[("git", "mcp-git"), ("terminal", "mcp-terminal"), ("gone", "mcp-gone")],
    );
    let toolsets = Toolsets::new(&user, &live);
    assert_eq!(words(toolsets.resolve("git")), "mcp__git__log");
    assert_eq!(words(toolsets.resolve("mcp-git")), "mcp__git__log");
    assert_eq!(words(toolsets.resolve_static("git")), "");
    let info = toolsets.info("git").expect("known");
    assert_eq!((&*info.name, info.origin), ("mcp-git", ToolsetOrigin::Registry));
    // An alias neither joins nor replaces a static toolset, and without its toolset means nothing.
    assert_eq!(words(toolsets.resolve("terminal")), "process terminal");
    assert!(!toolsets.is_known("gone"));
    assert!(toolsets.names().contains(&"mcp-git".to_owned()));
    assert!(!toolsets.names().contains(&"git".to_owned()));
}

#[test]
fn old_names_are_accepted() {
    let user = BTreeMap::new();
    plain(|toolsets| {
        let selected = toolsets.select(&selection(&["web_tools", "terminal_tools"], &[]));
        assert_eq!(words(selected.tools), "terminal web_extract web_search");
        assert!(selected.unknown.is_empty());
        assert_eq!(toolsets.resolve("browser_tools").len(), 10);
        let origin = toolsets.info("file_tools").expect("known").origin;
        assert_eq!(origin, ToolsetOrigin::Legacy);
        assert!(!toolsets.names().contains(&"web_tools".to_owned()));
    });
    let live = live(&[("file_tools", &["own"])], &[]);
    assert_eq!(words(Toolsets::new(&user, &live).resolve("file_tools")), "own");
}

#[test]
fn toolsets_of_users_compose() {
    let user = user(&[
        ("mine", &["my_tool"], &["safe", "deeper", "git"]),
        ("deeper", &["deep_tool"], &["terminal_tools", "nope"]),
        ("web", &["stolen"], &[]),
    ]);
    let live = live(&[("mcp-git", &["log"]), ("deeper", &["joined"])], &[("git", "mcp-git")]);
    let toolsets = Toolsets::new(&user, &live);
    assert_eq!(
        words(toolsets.resolve("mine")),
        "deep_tool image_generate joined log my_tool terminal vision_analyze web_extract web_search"
    );
    let info = toolsets.info("mine").expect("known");
    assert_eq!((&*info.description, info.origin), ("Mine.", ToolsetOrigin::User));
    assert_eq!(info.includes, ["safe", "deeper", "git"]);
    assert_eq!((words(info.direct_tools), info.is_composite), ("my_tool".to_owned(), true));
    assert!(!toolsets.resolve("web").contains("stolen"));
    assert_eq!(toolsets.info("nope"), None);
    let all = toolsets.info("all").expect("known");
    assert_eq!(all.resolved_tools, toolsets.resolve("all"));
}

#[test]
fn circles_and_diamonds_give_the_whole_union() {
    let user = user(&[
        ("a", &["ta"], &["b", "c"]),
        ("b", &["tb"], &["d", "a"]),
        ("c", &["tc"], &["d", "c"]),
        ("d", &["td"], &["b"]),
    ]);
    let live = Live::default();
    let toolsets = Toolsets::new(&user, &live);
    assert_eq!(words(toolsets.resolve("a")), "ta tb tc td");
    assert_eq!(words(toolsets.resolve("d")), "ta tb tc td");
    assert_eq!(toolsets.cycles().len(), 3);
}

#[test]
fn depth_is_up_to_the_user() {
    let count = 50_000;
    let next = |number: usize| strings(&[&*format!("t{}", (number + 1) % count)]);
    let user = (0..count)
        .map(|number| {
            let tools = vec![format!("tool{number}")];
            let toolset = UserToolset { tools, includes: next(number), ..UserToolset::default() };
            (format!("t{number}"), toolset)
        })
        .collect();
    assert_eq!(Toolsets::new(&user, &Live::default()).resolve("t7").len(), count);
}

#[test]
fn disabled_presets_keep_the_core() {
    plain(|toolsets| {
        let check = |enabled: &str, disabled: &str, gone: &[&str], says: &str| {
            let before = toolsets.resolve(enabled);
            let selected = toolsets.select(&selection(&[enabled], &[disabled]));
            let taken: Vec<&String> = before.difference(&selected.tools).collect();
            assert_eq!(taken, gone, "{disabled}");
            assert_eq!(selected.advisories.len(), 1, "{disabled}");
            assert!(selected.advisories[0].contains(says), "{}", selected.advisories[0]);
        };
        check("hermes-cli", "hermes-telegram", &[], "`hermes-telegram` takes away no tool,");
        check("hermes-cli", "coding", &[], "`coding` takes away no tool,");
        let discord = ["discord", "discord_admin"];
        check("hermes-discord", "hermes-discord", &discord, "core tools: discord, discord_admin;");
        check(
            "hermes-gateway",
            "hermes-feishu",
            &[
                "feishu_doc_read",
                "feishu_drive_add_comment",
                "feishu_drive_list_comment_replies",
                "feishu_drive_list_comments",
                "feishu_drive_reply_comment",
            ],
            "feishu_doc_read",
        );
        let twice = selection(&["web"], &["hermes-sms", "hermes-sms", "hermes-cron"]);
        assert_eq!(toolsets.select(&twice).advisories.len(), 2);
    });
}

#[test]
fn a_users_bundle_is_disabled_whole() {
    let user = user(&[("hermes-mine", &[], &["hermes-telegram"])]);
    let live = Live::default();
    let toolsets = Toolsets::new(&user, &live);
    let selected = toolsets.select(&selection(&["hermes-cli", "x_search"], &["hermes-mine"]));
    assert_eq!(words(selected.tools), "x_search");
    assert!(selected.advisories.is_empty());
}

#[test]
fn floods_of_unknown_names_are_bounded() {
    plain(|toolsets| {
        let mut names = strings(&["trminal"]);
        names.extend((0..100).map(|number| format!("termina{number}")));
        names.push("x".repeat(1_000_000));
        let unknown =
            toolsets.select(&Selection { enabled: Some(names), disabled: vec![] }).unknown;
        assert_eq!(unknown.len(), 102);
        assert_eq!(unknown[1].near, ["terminal"]);
        assert!(unknown[101].near.is_empty());
        assert!(toolsets.unknown(&"x".repeat(1_000_000)).to_string().len() < 100);
        assert_eq!(unknown.iter().filter(|unknown| !unknown.near.is_empty()).count(), 16);
    });
}

#[test]
fn a_selection_among_many_tools_is_quick() {
    let tools =
        |set: usize| (0..100).map(move |tool| format!("mcp__s{set}__tool_{tool}")).collect();
    let live = Live {
        toolsets: (0..100).map(|set| (format!("mcp-s{set}"), tools(set))).collect(),
        aliases: (0..100).map(|set| (format!("s{set}"), format!("mcp-s{set}"))).collect(),
    };
    let user = BTreeMap::new();
    let toolsets = Toolsets::new(&user, &live);
    let selection = Selection { enabled: None, disabled: strings(&["s1", "hermes-cli", "web"]) };
    let started = Instant::now();
    let count = (0..10).map(|_| toolsets.select(&selection).tools.len()).max();
    let taken = started.elapsed() / 10;
    assert!(count > Some(9_900), "{count:?}");
    // Generous: without optimisation and on a busy machine.
    assert!(taken < Duration::from_millis(200), "{taken:?}");
}
