//! `toolhost sample`

use std::hash::{BuildHasher, Hasher, RandomState};

use serde_json::{Value, json};

use super::failure::Failure;
use super::ui::Ui;
use super::{Global, loaded_host};
use toolhost_policy::toolset::{self, Toolsets};

/// Draws toolsets at random, so that data generated in batches covers many of them.
///
/// Each toolset of the distribution is drawn on its own, with the percentage it has there. The
/// same seed gives the same toolsets, on every machine.
#[derive(Debug, clap::Args)]
pub(super) struct SampleArguments {
    /// The distribution, such as `research` or `balanced`; an unknown name is answered with the
    /// nearest, or all of them.
    distribution: String,

    /// The seed. Without it, one is drawn and printed.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
}

/// One toolset that was drawn.
struct Drawn {
    name: String,
    /// Its tools, and whether they are here.
    tools: Vec<(String, bool)>,
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &SampleArguments) -> Result<(), Failure> {
    let seed = given.seed.unwrap_or_else(any_seed);
    let sampled = toolset::sample(&given.distribution, seed, toolset::is_builtin_toolset)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let host = loaded_host(ui, global).await?;
    let catalog = host.catalog();
    let toolsets = Toolsets::new(&host.config().toolsets, catalog.toolsets());
    let draw = |name: &String| {
        let tools = toolsets.resolve(name).into_iter();
        let tools = tools.map(|tool| {
            let is_here = catalog.find(&tool).is_some();
            (tool, is_here)
        });
        Drawn { name: name.clone(), tools: tools.collect() }
    };
    let drawn: Vec<Drawn> = sampled.toolsets.iter().map(draw).collect();
    if ui.json {
        return ui.json(&json!({
            "distribution": given.distribution,
            "seed": seed,
            "toolsets": drawn.iter().map(Drawn::to_json).collect::<Vec<_>>(),
        }));
    }
    ui.line(&format!("Seed {seed}\n"))?;
    let rows: Vec<Vec<String>> = drawn.iter().map(Drawn::cells).collect();
    ui.table(&["TOOLSET", "HERE", "TOOLS"], &rows)?;
    ui.line(&format!("\nTo use them: --enable {}", sampled.toolsets.join(",")))
}

impl Drawn {
    fn cells(&self) -> Vec<String> {
        let here = self.tools.iter().filter(|(_, is_here)| *is_here).count();
        let names: Vec<&str> = self.tools.iter().map(|(name, _)| name.as_str()).collect();
        vec![self.name.clone(), format!("{here} of {}", names.len()), names.join(", ")]
    }

    fn to_json(&self) -> Value {
        let tool = |(name, is_here): &(String, bool)| json!({ "name": name, "is_here": is_here });
        json!({ "name": self.name, "tools": self.tools.iter().map(tool).collect::<Vec<_>>() })
    }
}

/// A seed that nobody chose, short enough to be typed again.
fn any_seed() -> u64 {
    RandomState::new().build_hasher().finish() % 1_000_000_000
}
