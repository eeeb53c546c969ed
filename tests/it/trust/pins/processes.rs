//! Many processes, one home: nobody's change is lost, and the chain of the audit log is one.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use toolhost_state::{config, trust_store};
use toolhost_wasm as plugin;

use crate::support::{Lab, guest, made, registering};

const PROCESSES: usize = 4;
const ROUNDS: usize = 3;

/// Runs the program beside others of the same lab.
fn run(lab: &Lab, arguments: &[&str]) {
    let output = lab
        .command(env!("CARGO_BIN_EXE_toolhost"))
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the program");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn four_hosts_share_one_home() {
    let mut lab = Lab::new()
        .config("[plugins.keeper]\nkv = true\n\n# A remark of the operator's.\n")
        .granted("keeper", guest("keeper"));
    for number in 0..PROCESSES {
        let bytes = registering(&format!("one tool_{number}"));
        lab = lab.with(&format!("p{number}.wasm"), bytes);
    }
    let lab = &lab;
    std::thread::scope(|scope| {
        for number in 0..PROCESSES {
            scope.spawn(move || {
                let id = format!("p{number}");
                for round in 0..ROUNDS {
                    let variable = format!("VARIABLE_{number}_{round}");
                    run(lab, &["grant", &id, "--anyway", "--env", &variable]);
                    run(lab, &["call", "count_up", r#"{"n": 5}"#]);
                    run(lab, &["trust", &id, "--yes"]);
                    run(lab, &["call", &format!("tool_{number}")]);
                }
            });
        }
    });

    let config = fs::read_to_string(lab.home().join("toolhost.toml")).expect("a configuration");
    assert!(config.contains("# A remark of the operator's."), "{config}");
    for number in 0..PROCESSES {
        for round in 0..ROUNDS {
            assert!(config.contains(&format!("VARIABLE_{number}_{round}")), "{config}");
        }
    }

    let lock = trust_store::load(&lab.home().join("state")).expect("a lock");
    let folder = fs::canonicalize(lab.plugins()).expect("a folder");
    for number in 0..PROCESSES {
        let digest = plugin::digest(&registering(&format!("one tool_{number}")));
        assert!(lock.trusts(&folder, &format!("p{number}"), &digest));
        let owner = lock.names.keys().filter(|name| name.starts_with("t")).count();
        assert!(owner >= PROCESSES, "{:?}", lock.names);
    }
    assert_eq!(lock.plugins.len(), PROCESSES + 1);
    let kept = fs::read_dir(lab.home().join("state/builds")).expect("builds").count();
    assert_eq!(kept, PROCESSES + 1);

    // Each process has counted on from where the others were.
    let counted = PROCESSES * ROUNDS * 5 + 1;
    let printed = lab.run(&["call", "count_up", r#"{"n": 1}"#]);
    assert_eq!(printed, format!("exit 0\n--- stdout\n{counted}\n--- stderr\n"));

    let verified = lab.run(&["audit", "verify"]);
    assert!(verified.starts_with("exit 0\n"), "{verified}");
    let log = fs::read_to_string(lab.home().join("state/audit/audit.jsonl")).expect("a log");
    let records: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    let count = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    let each = PROCESSES * ROUNDS;
    assert_eq!((count("grant"), count("trust"), count("call")), (each, each, 2 * each + 1));
    assert_eq!(count("gap"), 0);
    let chains: BTreeSet<&str> =
        records.iter().filter_map(|record| record["chain"].as_str()).collect();
    assert!(chains.len() > 3 * each, "{}", chains.len());
}

/// A plugin that asks for the variables `X0`, `X1` and so on.
fn asking(count: usize) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(|number| format!("X{number}")).collect();
    made(&json!({
        "tools": [{ "name": "token", "answer": { "env": "X0" } }],
        "needs": [{ "kind": "env", "value": { "names": names } }],
    }))
}

/// What the plugin `id` of the lab's folder holds: what stands in its table, and what was agreed to.
fn held(lab: &Lab, id: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let text = fs::read_to_string(lab.home().join("toolhost.toml")).unwrap_or_default();
    let config =
        config::parse(&text, &toolhost_state::config::Config::default()).expect("a configuration");
    let folder = fs::canonicalize(lab.plugins()).expect("a folder");
    let mine = |address: &&toolhost_core::tool::PluginAddress| {
        address.id.as_str() == id && address.folder() == Some(folder.as_path())
    };
    let address = config.plugins.keys().find(mine);
    let written = address.map(|address| config.plugins[address].grants.flags());
    let lock = trust_store::load(&lab.home().join("state")).expect("a lock");
    let agreed = lock.plugin(&folder, id).and_then(|known| known.grants.clone());
    let set = |flags: Option<Vec<String>>| flags.unwrap_or_default().into_iter().collect();
    (set(written), set(agreed))
}

#[test]
fn twenty_grants_at_once_are_all_given() {
    const GRANTS: usize = 20;
    let lab = &Lab::new().with("asking.wasm", asking(GRANTS));
    std::thread::scope(|scope| {
        for number in 0..GRANTS {
            scope.spawn(move || run(lab, &["grant", "asking", "--env", &format!("X{number}")]));
        }
    });
    let all: BTreeSet<String> = (0..GRANTS).map(|number| format!("--env X{number}")).collect();
    assert_eq!(held(lab, "asking"), (all.clone(), all));
    let listed = lab.run(&["list"]);
    assert!(
        !listed.contains("Grants that give nothing") && !listed.contains("Pending"),
        "{listed}"
    );
}

#[test]
fn decisions_side_by_side_come_to_some_order() {
    const EACH: usize = 5;
    let lab = &Lab::new()
        .with("asking.wasm", asking(4 * EACH))
        .with("other.wasm", made(&json!({ "tools": [{ "name": "other" }] })));
    for number in 0..EACH {
        run(lab, &["grant", "asking", "--env", &format!("X{number}")]);
    }
    std::thread::scope(|scope| {
        for number in 0..EACH {
            // What was granted goes, more comes, and somebody looks at it meanwhile.
            scope.spawn(move || run(lab, &["revoke", "asking", "--env", &format!("X{number}")]));
            let (more, last) = (format!("X{}", EACH + number), format!("X{}", 2 * EACH + number));
            scope.spawn(move || run(lab, &["grant", "asking", "--env", &more, "--env", &last]));
            scope.spawn(move || run(lab, &["trust", "asking", "--yes"]));
            scope.spawn(move || run(lab, &["grant", "other", "--anyway", "--kv"]));
        }
    });
    let all: BTreeSet<String> = (EACH..3 * EACH).map(|number| format!("--env X{number}")).collect();
    assert_eq!(held(lab, "asking"), (all.clone(), all));
    let kv = BTreeSet::from(["--kv".to_owned()]);
    assert_eq!(held(lab, "other"), (kv.clone(), kv));
}
