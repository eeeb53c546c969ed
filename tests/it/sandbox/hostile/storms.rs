//! Storms: thousands of calls that crash, from many sides at once, while others go on correctly.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::json;
use toolhost_core::tool::Call;

use super::by_hand::{self, ByHand, PATIENCE, the_other_works};

/// Two thousand calls into a crash from eight tasks; another plugin's calls all succeed. After a
/// few, the plugin may be refused as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn of_traps() {
    let cases = vec![
        ('u', "unreachable".to_owned()),
        ('r', "(drop (call $recurse))".to_owned()),
        ('d', "(drop (i32.div_s (i32.const 1) (i32.const 0)))".to_owned()),
        ('o', "(drop (i32.load (i32.const -4)))".to_owned()),
    ];
    let bytes = ByHand { cases, ..ByHand::default() }.build();
    let (_lab, host) = by_hand::host("", &bytes).await;
    let attacks: Vec<_> = (0..8)
        .map(|task| {
            let host = Arc::clone(&host);
            tokio::spawn(async move {
                let mut codes: BTreeMap<&str, u32> = BTreeMap::new();
                for n in 0..250 {
                    let case = ["u", "r", "d", "o"][(task + n) % 4];
                    let call = Call::new("strike", json!({ "n": case }).to_string());
                    let error = host.call(call).await.result.expect_err("it crashes");
                    assert!(error.message.len() < 500, "{}", error.message);
                    *codes.entry(error.code.as_str()).or_default() += 1;
                }
                codes
            })
        })
        .collect();
    let (over, good) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let others: Vec<_> = (0..2)
        .map(|_| {
            let (host, over, good) = (Arc::clone(&host), Arc::clone(&over), Arc::clone(&good));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    the_other_works(&host).await;
                    good.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut codes: BTreeMap<&str, u32> = BTreeMap::new();
    for attack in attacks {
        let ended = tokio::time::timeout(PATIENCE, attack).await.expect("it ends");
        for (code, count) in ended.expect("no panic") {
            *codes.entry(code).or_default() += count;
        }
    }
    over.store(true, Ordering::Relaxed);
    for other in others {
        other.await.expect("every call of the other succeeded");
    }
    assert_eq!(codes.values().sum::<u32>(), 2_000);
    assert!(codes.keys().all(|code| ["trap", "quarantined"].contains(code)), "{codes:?}");
    assert!(codes["trap"] >= 1 && good.load(Ordering::Relaxed) >= 1, "{codes:?}");
    the_other_works(&host).await;
}

/// Calls that are given up by whoever made them, at every point on their way.
#[tokio::test(flavor = "multi_thread")]
async fn of_calls_given_up() {
    let cases = vec![('l', "(loop $again (br $again))".to_owned())];
    let bytes = ByHand { cases, ..ByHand::default() }.build();
    let (_lab, host) = by_hand::host("permit_wait_max = \"20s\"", &bytes).await;
    for round in 0..200_u64 {
        let call = Call::new("strike", r#"{"n":"l"}"#);
        let given_up = std::time::Duration::from_micros(round * 40);
        assert!(tokio::time::timeout(given_up, host.call(call)).await.is_err());
    }
    // All permits are free again, and its own calls work.
    let many: Vec<_> = (0..16)
        .map(|_| {
            let host = Arc::clone(&host);
            tokio::spawn(async move { host.call(Call::new("strike", r#"{"n":"x"}"#)).await })
        })
        .collect();
    for call in many {
        let outcome = call.await.expect("no panic");
        assert_eq!(by_hand::told(&outcome), r#"{"content":[]}"#);
    }
    the_other_works(&host).await;
}

/// Plugins that crash while they load, all at once: each says so, and the good one is there.
#[tokio::test(flavor = "multi_thread")]
async fn of_plugins_that_do_not_load() {
    let mut lab = crate::support::Lab::new().with("json.wasm", crate::support::guest("json"));
    for n in 0..40 {
        let register = match n % 4 {
            0 => "unreachable",
            1 => "(drop (call $recurse))",
            2 => "(return (i32.const -8))",
            _ => "(drop (memory.grow (i32.const 65000))) unreachable",
        };
        let register = format!("(drop (i32.const {n})) {register}");
        let bytes = ByHand { register, ..ByHand::default() }.build();
        lab = lab.with(&format!("bad-{n}.wasm"), bytes);
    }
    let host = lab.host().await;
    let statuses = host.loaded().await;
    let failed = statuses.iter().filter_map(|status| status.state.as_ref().err());
    let failed: Vec<_> = failed.map(ToString::to_string).collect();
    assert_eq!(failed.len(), 40);
    for reason in failed {
        assert!(reason.starts_with("`register` failed: ") && reason.len() < 400, "{reason}");
        assert!(!reason.contains('\n'), "{reason}");
    }
    the_other_works(&host).await;
}
