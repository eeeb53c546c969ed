//! One row a rule, and the promise that no order of loading changes anything.

use std::path::PathBuf;

use super::*;
use toolhost_core::tool::PluginId;

/// A source and its one tool, owned, so that tables can be written down.
#[derive(Clone)]
struct WishedTool {
    source: SourceId,
    origin: Origin,
    rank: usize,
    name: ToolName,
    toolset: String,
    overrides: bool,
    allowed: bool,
}

fn wish(source: SourceId, origin: Origin, name: &str) -> WishedTool {
    WishedTool {
        source,
        origin,
        rank: 0,
        name: ToolName::new(name).expect(name),
        toolset: "data".to_owned(),
        overrides: false,
        allowed: false,
    }
}

fn plugin_in(folder: &str, id: &str, origin: Origin, name: &str) -> WishedTool {
    let id = PluginId::from_stem(id).expect(id);
    wish(SourceId::Plugin { id, folder: PathBuf::from(folder) }, origin, name)
}

fn user(id: &str, name: &str) -> WishedTool {
    plugin_in("/home/plugins", id, Origin::User, name)
}

fn project(id: &str, name: &str) -> WishedTool {
    plugin_in("/project/plugins", id, Origin::Project, name)
}

fn bundled(id: &str, name: &str) -> WishedTool {
    plugin_in("/bundled", id, Origin::Bundled, name)
}

fn builtin(name: &str) -> WishedTool {
    wish(SourceId::Builtin, Origin::Builtin, name)
}

fn mcp(server: &str, rank: usize, name: &str) -> WishedTool {
    let source = SourceId::Mcp(server.to_owned());
    WishedTool { rank, toolset: format!("mcp-{server}"), ..wish(source, Origin::Mcp, name) }
}

impl WishedTool {
    fn overriding(self) -> WishedTool {
        WishedTool { overrides: true, ..self }
    }

    fn allowed(self) -> WishedTool {
        WishedTool { allowed: true, ..self }
    }

    fn toolset(self, toolset: &str) -> WishedTool {
        WishedTool { toolset: toolset.to_owned(), ..self }
    }

    fn claim(&self) -> Claim<'_> {
        Claim {
            source: &self.source,
            origin: self.origin,
            rank: self.rank,
            name: &self.name,
            toolset: &self.toolset,
            overrides: self.overrides,
            allow_tool_override: self.allowed,
        }
    }
}

fn decided(wishes: &[WishedTool], owners: &Owners) -> Vec<Verdict> {
    let claims: Vec<Claim<'_>> = wishes.iter().map(WishedTool::claim).collect();
    decide(&claims, owners)
}

/// Checks the verdicts: `ok`, `shadowed by SOURCE`, or a part of the reason for a rejection.
fn check_with(wishes: &[WishedTool], owners: &[(&str, &WishedTool)], expected: &[&str]) {
    let owners = owners
        .iter()
        .map(|(name, owner)| ((*name).to_owned(), vec![owner.source.clone()]))
        .collect();
    let verdicts = decided(wishes, &owners);
    assert_eq!(verdicts.len(), expected.len());
    for (verdict, expected) in verdicts.iter().zip(expected) {
        match verdict {
            Verdict::Registered => assert_eq!("ok", *expected),
            Verdict::Shadowed { by } => assert_eq!(format!("shadowed by {by}"), *expected),
            Verdict::Rejected(reason) => {
                assert!(reason.to_string().contains(expected), "{reason} lacks {expected:?}");
            }
        }
    }
}

fn check(wishes: &[WishedTool], expected: &[&str]) {
    check_with(wishes, &[], expected);
}

#[test]
fn every_row_of_the_table() {
    // No holder.
    check(&[user("a", "x")], &["ok"]);
    // A plugin, and another plugin: both owners are named.
    check(
        &[user("a", "x"), user("b", "x")],
        &["ok", "`x` is already registered by plugin:a; remove plugin:a or plugin:b"],
    );
    check(&[user("b", "x"), user("a", "x")], &["already registered by plugin:a", "ok"]);
    // Two MCP servers: the later in the configuration wins.
    check(&[mcp("z", 0, "x"), mcp("a", 1, "x")], &["shadowed by mcp:a", "ok"]);
    // Overriding, allowed by the operator; the second one is refused.
    check(&[builtin("x"), user("a", "x").overriding().allowed()], &["shadowed by plugin:a", "ok"]);
    check(
        &[user("a", "x"), user("b", "x").overriding().allowed()],
        &["shadowed by plugin:b", "ok"],
    );
    check(
        &[
            builtin("x"),
            user("a", "x").overriding().allowed(),
            user("b", "x").overriding().allowed(),
        ],
        &["shadowed by plugin:a", "ok", "a second override (plugin:b) is refused"],
    );
    // Overriding, not allowed: the key is named.
    check(
        &[builtin("x"), user("a", "x").overriding()],
        &["ok", "set `plugins.\"/home/plugins/a\".allow_tool_override = true` in toolhost.toml"],
    );
    // Being allowed is not asking.
    check(&[builtin("x"), user("a", "x").allowed()], &["ok", "already registered by builtin"]);
    // Anything else, and an MCP server.
    check(
        &[builtin("x"), mcp("s", 0, "x")],
        &["ok", "an MCP server (mcp:s) replaces nothing else"],
    );
    check(&[user("a", "x"), mcp("s", 0, "x")], &["ok", "already registered by plugin:a"]);
    // An MCP server that had the name before, and a plugin.
    let server = mcp("s", 0, "x");
    check_with(
        &[server.clone(), user("a", "x")],
        &[("x", &server)],
        &["ok", "already registered by mcp:s"],
    );
    check_with(
        &[server.clone(), user("a", "x").overriding().allowed()],
        &[("x", &server)],
        &["shadowed by plugin:a", "ok"],
    );
    check_with(
        &[server.clone(), user("a", "x").overriding()],
        &[("x", &server)],
        &["ok", "set `plugins.\"/home/plugins/a\".allow_tool_override = true`"],
    );
}

#[test]
fn the_order_of_origin_decides() {
    check(&[user("aaa", "x"), bundled("json", "x")], &["already registered by plugin:json", "ok"]);
    check(&[project("aaa", "x"), user("b", "x")], &["already registered by plugin:b", "ok"]);
    // Whoever had a name keeps it against a newcomer with an earlier id.
    let old = user("old", "x");
    check_with(
        &[user("aaa", "x"), old.clone()],
        &[("x", &old)],
        &["already registered by plugin:old", "ok"],
    );
    // But a project's plugin never stands before the user's own.
    let squatter = project("squatter", "x");
    check_with(
        &[squatter.clone(), user("z", "x")],
        &[("x", &squatter)],
        &["already registered by plugin:z", "ok"],
    );
    // The same id in two folders is two plugins.
    check(&[user("a", "x"), project("a", "x")], &["ok", "already registered by plugin:a"]);
}

#[test]
fn names_of_the_house_are_reserved() {
    check(&[user("a", "read_file")], &["`read_file` is the name of a core tool"]);
    check(&[user("a", "Read-File")], &["is the name of a core tool"]);
    check(&[user("a", "read_file").allowed()], &["ok"]);
    check(&[bundled("files", "read_file").toolset("file")], &["ok"]);
    check(&[user("a", "x").toolset("web")], &["`web` is a built-in toolset"]);
    check(&[user("a", "x").toolset("web").allowed()], &["ok"]);
    check(&[user("a", "x").toolset("mcp-github").allowed()], &["which is for MCP servers"]);
}

#[test]
fn confusable_names_are_one_name() {
    check(
        &[user("a", "get_item"), user("b", "get-item")],
        &["ok", "`get-item`, which a reader takes for `get_item` of plugin:a"],
    );
    // Not even an override makes two of them.
    check(
        &[user("a", "get_item"), user("b", "Get_Item").overriding().allowed()],
        &["ok", "takes for"],
    );
    check(&[user("a", "x"), user("a", "x")], &["ok", "plugin:a declares `x` twice"]);
    check(&[user("a", "x_1"), user("a", "x-l")], &["ok", "a reader takes for one"]);
}

#[test]
fn what_was_shadowed_returns() {
    let (holder, other) = (user("a", "x"), user("b", "x").overriding().allowed());
    check(&[holder.clone(), other], &["shadowed by plugin:b", "ok"]);
    check(&[holder], &["ok"]);
}

#[test]
fn every_order_of_loading_gives_one_catalog() {
    let wishes = [
        builtin("x"),
        bundled("json", "y"),
        user("a", "y"),
        user("b", "x").overriding().allowed(),
        project("a", "z"),
        mcp("s", 0, "z"),
    ];
    let verdict_of = |order: &[usize]| {
        let ordered: Vec<WishedTool> = order.iter().map(|&index| wishes[index].clone()).collect();
        let mut verdicts: Vec<(usize, Verdict)> =
            order.iter().copied().zip(decided(&ordered, &HashMap::new())).collect();
        verdicts.sort_by_key(|(index, _)| *index);
        verdicts
    };
    let expected = verdict_of(&[0, 1, 2, 3, 4, 5]);
    let mut orders = 0;
    permute(&mut [0, 1, 2, 3, 4, 5], 0, &mut |order| {
        orders += 1;
        assert_eq!(verdict_of(order), expected, "{order:?}");
    });
    assert_eq!(orders, 720);
}

fn permute(order: &mut [usize], fixed: usize, visit: &mut impl FnMut(&[usize])) {
    if fixed == order.len() {
        return visit(order);
    }
    for index in fixed..order.len() {
        order.swap(fixed, index);
        permute(order, fixed + 1, visit);
        order.swap(fixed, index);
    }
}
