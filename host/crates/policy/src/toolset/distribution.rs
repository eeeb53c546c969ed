//! Distributions: toolsets drawn at random, so that data generated in batches covers many of them.

use std::collections::BTreeMap;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use thiserror::Error;

use super::table::TABLE;
use toolhost_core::text;

/// How many characters of an unknown name a message shows.
const NAME_CHARS_MAX: usize = 64;

/// What a draw came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// The toolsets drawn, sorted; none only if no toolset of the distribution is known.
    pub toolsets: Vec<String>,
    /// Toolsets of the distribution that were left out because they are not known; sorted.
    pub skipped: Vec<String>,
}

/// There is no distribution of that name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("Unknown distribution: {}{}", text::cut(&text::one_line(.name), NAME_CHARS_MAX), hint(.near))]
pub struct UnknownDistribution {
    /// The name as it was given.
    pub name: String,
    /// The few known names most like it, the nearest first.
    pub near: Vec<String>,
}

/// The names of all distributions, sorted.
pub fn distributions() -> impl Iterator<Item = &'static str> {
    TABLE.distributions.keys().map(String::as_str)
}

/// Returns a distribution: of each toolset, in how many samples of a hundred it is.
pub fn distribution(name: &str) -> Option<&'static BTreeMap<String, u8>> {
    TABLE.distributions.get(name)
}

/// Draws each toolset of a distribution on its own; if none is hit, takes the likeliest one (of
/// equal ones the first by name).
///
/// The same seed gives the same sample, on every machine: the numbers are those of ChaCha8, one
/// for each toolset in the order of their names. Toolsets for which `is_known` says no are
/// skipped, without a change for the others.
///
/// # Errors
/// If there is no distribution of that name.
pub fn sample(
    name: &str,
    seed: u64,
    is_known: impl Fn(&str) -> bool,
) -> Result<Sampled, UnknownDistribution> {
    let Some(percents) = distribution(name) else {
        let cut: String = name.chars().take(NAME_CHARS_MAX).collect();
        let near = text::nearest(&cut, distributions());
        return Err(UnknownDistribution { name: name.to_owned(), near });
    };
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let mut sampled = Sampled::default();
    let mut likeliest: Option<(&str, u8)> = None;
    for (toolset, &percent) in percents {
        let is_hit = chance.random::<f64>() * 100.0 < f64::from(percent);
        if !is_known(toolset) {
            sampled.skipped.push(toolset.clone());
            continue;
        }
        if is_hit {
            sampled.toolsets.push(toolset.clone());
        }
        if likeliest.is_none_or(|(_, most)| percent > most) {
            likeliest = Some((toolset, percent));
        }
    }
    if sampled.toolsets.is_empty() {
        sampled.toolsets.extend(likeliest.map(|(toolset, _)| toolset.to_owned()));
    }
    Ok(sampled)
}

fn hint(near: &[String]) -> String {
    match near {
        [] => format!("; there are {}", Vec::from_iter(distributions()).join(", ")),
        near => format!("; did you mean `{}`?", near.join("` or `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(name: &str, seed: u64) -> String {
        sample(name, seed, |_| true).expect("a distribution").toolsets.join(" ")
    }

    #[test]
    fn a_seed_gives_one_sample() {
        assert_eq!(drawn("balanced", 1), "browser file terminal vision");
        assert_eq!(drawn("balanced", 2), "vision");
        assert_eq!(drawn("science", 7), "browser file terminal vision web");
        assert_eq!(drawn("default", 3), "browser file image_gen terminal vision web");
        assert_eq!(drawn("minimal", u64::MAX), "web");
    }

    #[test]
    fn percents_are_obeyed() {
        for (toolset, percent) in distribution("terminal_tasks").expect("it exists") {
            let is_drawn = |seed: &u64| drawn("terminal_tasks", *seed).contains(&**toolset);
            let hits = (0..2_000).filter(is_drawn).count();
            let expected = 20 * usize::from(*percent);
            assert!(hits.abs_diff(expected) < 100, "{toolset}: {hits} of {expected}");
        }
    }

    #[test]
    fn without_a_hit_the_likeliest_is_taken() {
        // Of `reasoning` without the web, file 60 and terminal 20 are left: file is hit in 60 of
        // 100 samples, and neither in 32.
        let of_two = |seed| {
            let sampled = sample("reasoning", seed, |name| name != "web").expect("it exists");
            assert_eq!(sampled.skipped, ["web"]);
            sampled.toolsets
        };
        let with_file = (0..2_000).filter(|&seed| of_two(seed).contains(&"file".to_owned()));
        assert!(with_file.count().abs_diff(1_840) < 60);
        let equal = |seed| sample("balanced", seed, |_| true).expect("it exists").toolsets;
        assert!((0..2_000).all(|seed| !equal(seed).is_empty()));
        let one = sample("creative", 1, |name| name == "web").expect("it exists");
        assert_eq!(one.toolsets, ["web"]);
        let none = sample("minimal", 1, |_| false).expect("it exists");
        assert_eq!(none, Sampled { toolsets: vec![], skipped: vec!["web".to_owned()] });
    }

    #[test]
    fn what_is_unknown_does_not_change_the_rest() {
        let all = sample("mixed_tasks", 5, |_| true).expect("a distribution");
        let without = sample("mixed_tasks", 5, |name| name != "browser").expect("a distribution");
        let rest = all.toolsets.iter().filter(|name| *name != "browser");
        assert!(without.toolsets.iter().eq(rest));
    }

    #[test]
    fn an_unknown_distribution_is_an_error() {
        let message = |name: &str| sample(name, 1, |_| true).expect_err(name).to_string();
        assert_eq!(message("sience"), "Unknown distribution: sience; did you mean `science`?");
        let message = message(&"\u{1b}x".repeat(1_000));
        assert!(message.starts_with("Unknown distribution: \\u{1b}x"), "{message}");
        assert!(message.contains("; there are balanced, browser_only,"), "{message}");
        assert!(message.len() < 400, "{message}");
    }
}
