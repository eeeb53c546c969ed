//! One table: what was measured, against what, and the budget of the ratio.

use std::time::{Duration, Instant};

/// Rows as they are measured.
#[derive(Default)]
pub(crate) struct Table {
    over_budget: usize,
}

impl Table {
    pub(crate) fn heading(&self) {
        let (name, median, p99) = ("what", "median us", "p99 us");
        println!("{name:<44} {median:>11} {p99:>11} {:>7} {:>7}", "ratio", "budget");
    }

    /// Prints a row, with its ratio to another median if it has one.
    pub(crate) fn row(
        &mut self,
        name: &str,
        times: &mut [Duration],
        against: Option<(Duration, f64)>,
    ) -> Duration {
        times.sort();
        let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        let mut line = format!("{name:<44} {:>11.2} {:>11.2}", micros(median), micros(p99));
        if let Some((other, budget)) = against {
            let ratio = micros(median) / micros(other);
            let over = ratio > budget;
            self.over_budget += usize::from(over);
            let budget = if budget.is_finite() { format!("{budget:.2}") } else { String::new() };
            line += &format!(" {ratio:>7.2} {budget:>7}{}", if over { " OVER" } else { "" });
        }
        println!("{line}");
        median
    }

    /// Prints a row whose budget is a time, of its p99.
    pub(crate) fn row_within(&mut self, name: &str, times: &mut [Duration], budget: Duration) {
        times.sort();
        let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        let over = p99 > budget;
        self.over_budget += usize::from(over);
        println!(
            "{name:<44} {:>11.2} {:>11.2}   p99 at most {:.1} us{}",
            micros(median),
            micros(p99),
            micros(budget),
            if over { " OVER" } else { "" }
        );
    }

    /// Prints a row whose budget is a speed, of its median, for so many bytes.
    pub(crate) fn row_at_least(
        &mut self,
        name: &str,
        times: &mut [Duration],
        bytes: usize,
        megabytes_per_second_min: f64,
    ) {
        times.sort();
        let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        // Bytes in a microsecond are megabytes in a second.
        let speed = bytes as f64 / micros(median);
        let over = speed < megabytes_per_second_min;
        self.over_budget += usize::from(over);
        println!(
            "{name:<44} {:>11.2} {:>11.2}   {speed:.0} MB/s, at least {megabytes_per_second_min:.0}{}",
            micros(median),
            micros(p99),
            if over { " OVER" } else { "" }
        );
    }

    /// Prints a line between the rows.
    pub(crate) fn note(&self, line: &str) {
        println!("{line}");
    }

    pub(crate) fn end(&self) {
        match self.over_budget {
            0 => println!("every row is within its budget"),
            over => println!("{over} rows are OVER their budget"),
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Runs two things in turns, so that a busy machine is as bad for one as for the other; returns
/// the time of one run of each, as the mean of a round.
pub(crate) async fn in_turns(
    rounds: usize,
    per_round: u32,
    one: impl AsyncFn(),
    other: impl AsyncFn(),
) -> (Vec<Duration>, Vec<Duration>) {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for round in 0..rounds + rounds / 10 {
        let (first, second) = (time(per_round, &one).await, time(per_round, &other).await);
        // The first rounds warm up.
        if round >= rounds / 10 {
            ones.push(first);
            others.push(second);
        }
    }
    (ones, others)
}

pub(crate) async fn time(count: u32, work: impl AsyncFn()) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        work().await;
    }
    start.elapsed() / count
}
