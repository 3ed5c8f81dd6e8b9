//! The plugin of kubectl, `kubectl ax ...`: arguments and wiring.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use ax::domain::schedule::{Cron, Refused};
use ax::ops::clock::Clock;

/// Tools for ax's tasks.
#[derive(Debug, Parser)]
#[command(name = "kubectl-ax", bin_name = "kubectl ax", version)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show when a cron expression runs next. Needs no cluster.
    Cron(CronArgs),
}

#[derive(Debug, clap::Args)]
struct CronArgs {
    /// Five fields in quotes (minute, hour, day of month, month, day of week), or @hourly, @daily, @weekly ...
    #[arg(value_name = "EXPRESSION")]
    expression: String,

    /// Time zone whose local clock counts, by its IANA name; default: UTC.
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,

    /// Show what comes after this instant (RFC 3339, any offset); default: now.
    #[arg(long, value_name = "INSTANT")]
    from: Option<Timestamp>,

    /// How many to show, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: u16,

    /// text or json.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// The answer, as `-o json` writes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    schedule: &'a str,
    time_zone: &'a str,
    next: Vec<Run>,
}

#[derive(Debug, Serialize)]
struct Run {
    utc: Timestamp,
    local: String,
}

fn main() -> ExitCode {
    let Verb::Cron(args) = Args::parse().verb;
    let (shown, code) = match next_runs(&args) {
        Ok(runs) => (runs, ExitCode::SUCCESS),
        Err(refused) => {
            eprintln!("error: {refused}");
            (if args.output == Format::Json { error_json(&refused) } else { String::new() }, ExitCode::FAILURE)
        }
    };
    // Who reads may have gone: `| head`.
    match io::stdout().write_all(shown.as_bytes()) {
        Ok(()) => code,
        Err(_) => ExitCode::FAILURE,
    }
}

fn next_runs(args: &CronArgs) -> Result<String, Refused> {
    let cron = Cron::read(&args.expression, args.tz.as_deref())?;
    let from = args.from.unwrap_or_else(|| Clock::start().now().wall);
    let local = |at: Timestamp| at.display_with_offset(cron.zone().time_zone().to_offset(at)).to_string();
    let runs = std::iter::successors(cron.next(from), |last| cron.next(*last)).take(args.count.into());
    let shown = Shown {
        schedule: &args.expression,
        time_zone: cron.zone().name(),
        next: runs.map(|at| Run { utc: at, local: local(at) }).collect(),
    };
    Ok(match args.output {
        Format::Json => json_text(&shown),
        Format::Text => {
            let head = format!("{:<22}{}\n", "UTC", shown.time_zone);
            let rows = shown.next.iter().map(|run| format!("{:<22}{}\n", run.utc.to_string(), run.local));
            head + &rows.collect::<String>()
        }
    })
}

fn error_json(refused: &Refused) -> String {
    let Refused { reason, field, message } = refused;
    json_text(&json!({ "error": { "reason": reason.as_str(), "field": field, "message": message } }))
}

fn json_text(shown: &impl Serialize) -> String {
    serde_json::to_string_pretty(shown).unwrap_or_default() + "\n"
}
