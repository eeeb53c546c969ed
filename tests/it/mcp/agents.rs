//! docs/agents.md: what it says to copy is read by the agents, and starts a server.

use serde_json::Value;

use crate::support::{Lab, guest};

const PAGE: &str = include_str!("../../../docs/agents.md");

/// The blocks of a language, each with the heading that it stands below.
fn blocks(language: &str) -> Vec<(&'static str, &'static str)> {
    let sections = PAGE.split("\n## ").skip(1);
    let of = |section: &'static str| {
        let heading = section.lines().next().expect("a heading");
        let fence = format!("```{language}\n");
        let blocks: Vec<&str> = section.split(fence.as_str()).skip(1).collect();
        blocks.into_iter().map(move |rest| (heading, rest.split("\n```").next().expect("an end")))
    };
    sections.flat_map(of).collect()
}

/// The one server of a configuration: its program and arguments.
fn server(value: &Value) -> Vec<String> {
    let servers = value.as_object().and_then(|object| object.values().next()).expect("servers");
    let server = &servers["toolhost"];
    let words = [&server["command"]].into_iter().chain(server["args"].as_array().expect("args"));
    words.map(|word| word.as_str().expect("a text").to_owned()).collect()
}

#[test]
fn every_configuration_starts_a_server() {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for (agent, block) in blocks("json") {
        found.push((agent, server(&block.parse().expect(agent))));
    }
    for (agent, block) in blocks("toml") {
        let table: toml_edit::DocumentMut = block.parse().expect(agent);
        let server = &table["mcp_servers"]["toolhost"];
        let mut words = vec![server["command"].as_str().expect("a text").to_owned()];
        let arguments = server["args"].as_array().expect("args").iter();
        words.extend(arguments.map(|word| word.as_str().expect("a text").to_owned()));
        found.push((agent, words));
    }
    for (agent, block) in blocks("sh") {
        // All that follows is the server's command line, in the vendor's own way to write it.
        let line = block.lines().next().expect("a line");
        let (_, command) = line
            .split_once(" toolhost toolhost ")
            .or_else(|| line.split_once(" toolhost -- toolhost "))
            .unwrap_or_else(|| panic!("{agent}: {line}"));
        let words = command.split(' ').filter(|word| *word != "--").map(str::to_owned);
        found.push((agent, std::iter::once("toolhost".to_owned()).chain(words).collect()));
    }
    let agents = ["Claude Code", "Codex", "Cursor", "VS Code", "Zed", "Gemini CLI"];
    for agent in agents {
        assert!(found.iter().any(|(known, _)| *known == agent), "{agent}: {found:?}");
        // Each says which directory to grant.
        let section = PAGE.split("\n## ").find(|section| section.starts_with(agent));
        let section = section.unwrap_or_else(|| panic!("no section for {agent}"));
        assert!(section.contains("toolhost grant files --dir /home/me/project:ro"), "{agent}");
        assert!(PAGE.contains(&format!("| {agent} | ")), "{agent} is not in the table");
    }
    let lab = ["files", "json"].iter().fold(Lab::new(), |lab, id| {
        lab.record_bundled(id);
        lab.with(&format!("{id}.wasm"), guest(id))
    });
    let hello = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#,
        "\n"
    );
    for (agent, words) in found {
        assert_eq!((&*words[0], &*words[1]), ("toolhost", "serve"), "{agent}");
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let said = lab.run_with(&arguments, hello);
        assert!(
            said.starts_with("exit 0\n") && said.contains(r#""protocolVersion""#),
            "{agent}: {said}"
        );
    }
}

#[test]
fn its_grant_is_what_the_file_tools_take() {
    let lab = Lab::new().with("files.wasm", guest("files"));
    lab.record_bundled("files");
    std::fs::write(lab.work().join("notes.txt"), "noted\n").expect("written");
    let project = lab.work().display().to_string();
    let granted = lab.run(&["grant", "files", "--dir", &format!("{project}:ro")]);
    assert!(granted.starts_with("exit 0\n"), "{granted}");
    let read = lab.run(&["call", "read_file", "--arg", &format!("path={project}/notes.txt")]);
    assert!(read.starts_with("exit 0\n") && read.contains("noted"), "{read}");
}
