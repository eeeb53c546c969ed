//! Limits are set by name, within their ranges.

use super::*;

#[test]
fn values_are_read_and_bounded() {
    let mut limits = Limits::default();
    assert_eq!(limits.set("wall_time_max", "90s"), Ok(()));
    assert_eq!(limits.wall_time_max, seconds(90));
    assert_eq!(limits.set("memory_bytes_max", "64 MiB"), Ok(()));
    assert_eq!(limits.memory_bytes_max, Bytes(64 * MIB));
    assert_eq!(limits.set("tools_max", "12"), Ok(()));
    assert_eq!(limits.tools_max, Count(12));

    let error = |limits: &mut Limits, name, text| {
        limits.set(name, text).expect_err("a refusal").to_string()
    };
    assert_eq!(
        error(&mut limits, "wall_time_max", "11min"),
        "`wall_time_max` is 11min; allowed is 1ms to 10m"
    );
    assert_eq!(
        error(&mut limits, "tools_max", "many"),
        "`tools_max` is many, which is not a whole number such as `16`"
    );
    assert_eq!(error(&mut limits, "nope", "1"), "there is no limit `nope`");
}

#[test]
fn defaults_lie_within_their_own_ranges() {
    let defaults = Limits::default();
    for row in defaults.rows() {
        let mut limits = defaults.clone();
        assert_eq!(limits.set(row.name, &row.value), Ok(()), "{}", row.name);
        assert_eq!(limits, defaults, "{}", row.name);
    }
}

#[test]
fn what_narrows_is_never_less_strict() {
    let mut limits = Limits::default();
    let other = |name, text| {
        let mut other = Limits::default();
        assert_eq!(other.set(name, text), Ok(()));
        other
    };
    limits.narrow(&other("memory_all_bytes_max", "64 MiB"));
    assert_eq!(limits.memory_all_bytes_max, MemoryShare::Bytes(Bytes(64 * MIB)));
    limits.narrow(&Limits::default());
    assert_eq!(limits.memory_all_bytes_max, MemoryShare::Bytes(Bytes(64 * MIB)));
    // A shorter quarantine would be more than was allowed.
    limits.narrow(&other("quarantine_time", "1s"));
    assert_eq!(limits.quarantine_time, Guard(seconds(60)));
    limits.narrow(&other("quarantine_time", "2min"));
    assert_eq!(limits.quarantine_time, Guard(seconds(120)));
}
