//! The figures of one run: a table for people, and `target/bench/NAME.json` for machines.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

/// One figure. What does not apply is `None`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Row {
    case: String,
    metric: String,
    unit: String,
    ax: Option<f64>,
    peer: Option<String>,
    peer_value: Option<f64>,
    /// `ax` by `peer_value`, or as measured side by side.
    ratio: Option<f64>,
    target: Option<String>,
    met: Option<bool>,
}

/// Makes a row: `row("submit, idle", "p50", "ms").ax(6.1).at_most(10.0)`.
pub fn row(case: &str, metric: &str, unit: &str) -> Row {
    Row { case: case.to_owned(), metric: metric.to_owned(), unit: unit.to_owned(), ..Row::default() }
}

impl Row {
    pub fn ax(mut self, value: f64) -> Self {
        self.ax = Some(rounded(value));
        self
    }

    /// What else was measured in the same run.
    pub fn peer(mut self, name: &str, value: f64) -> Self {
        self.peer = Some(name.to_owned());
        self.peer_value = Some(rounded(value));
        self.ratio = self.ax.filter(|_| value > 0.0).map(|ax| rounded(ax / value));
        self
    }

    /// In place of `ax` by `peer_value`: the median of the ratios of each repetition.
    pub fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = Some(rounded(ratio));
        self
    }

    pub fn at_most(mut self, limit: f64) -> Self {
        self.target = Some(format!("<= {limit}"));
        self.met = self.ax.map(|ax| ax <= limit);
        self
    }

    pub fn at_most_of_peer(mut self, share: f64) -> Self {
        self.target = Some(format!("ratio <= {share}"));
        self.met = self.ratio.map(|ratio| ratio <= share);
        self
    }

    pub fn at_least_of_peer(mut self, share: f64) -> Self {
        self.target = Some(format!("ratio >= {share}"));
        self.met = self.ratio.map(|ratio| ratio >= share);
        self
    }
}

#[derive(Serialize)]
struct Report<'a> {
    bench: &'a str,
    rows: &'a [Row],
}

/// Writes the rows to `target/bench/NAME.json`; returns where that is.
pub fn write(bench: &str, rows: &[Row]) -> std::io::Result<PathBuf> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/bench");
    std::fs::create_dir_all(&dir)?;
    let path = dir.join(format!("{bench}.json"));
    let text = serde_json::to_string_pretty(&Report { bench, rows })?;
    std::fs::write(&path, text + "\n")?;
    Ok(path)
}

/// The rows as columns of text.
pub fn table(rows: &[Row]) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let mut lines = vec![["case", "metric", "unit", "ax", "peer", "ratio", "target", "met"].map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        let peer =
            row.peer.as_ref().map_or_else(|| "-".to_owned(), |peer| format!("{} {peer}", number(row.peer_value)));
        let met = match row.met {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        [
            row.case.clone(),
            row.metric.clone(),
            row.unit.clone(),
            number(row.ax),
            peer,
            number(row.ratio),
            row.target.clone().unwrap_or_else(|| "-".to_owned()),
            met.to_owned(),
        ]
    }));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        // Writing to a String never fails.
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

/// The smallest value that at least `percent` of all do not exceed.
pub fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied().unwrap_or(f64::NAN)
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Three digits after the point: more would claim too much.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
