//! `scrubjay mrc`: the miss-ratio curve of a running scrubjay server, drawn: what more or less memory would miss.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;

use super::connection::{Connection, server_args};

/// Exit status when the server cannot be asked.
const UNUSABLE: u8 = 2;

/// Cells of a bar that stands for every request missing.
const BAR: f64 = 60.0;

/// The subcommand.
pub fn command() -> Command {
    Command::new("mrc")
        .about("Show what a scrubjay server would miss with more or less memory")
        .args(server_args())
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the curve and what the memory holds as JSON"),
        )
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> ExitCode {
    match ask(matches) {
        Ok(curve) if matches.get_flag("json") => {
            println!("{}", curve.json());
            ExitCode::SUCCESS
        }
        Ok(curve) => {
            print!("{}", curve.chart());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("scrubjay mrc: {why}");
            ExitCode::from(UNUSABLE)
        }
    }
}

struct Point {
    factor: f64,
    memory_max: u64,
    miss_ratio: Option<f64>,
}

struct Curve {
    points: Vec<Point>,
    /// What the memory holds now, by name.
    held: Vec<(String, u64)>,
}

fn ask(matches: &ArgMatches) -> Result<Curve, String> {
    let mut connection = Connection::of(matches)?;
    let stats = connection.stats("mrc")?;
    let of = |factor: &str, what: &str| {
        let name = format!("{factor}x:{what}");
        let found = stats.iter().find(|(known, _)| *known == name)?;
        found.1.parse::<f64>().ok()
    };
    let limits = stats
        .iter()
        .filter_map(|(name, _)| name.strip_suffix("x:limit_maxbytes"));
    let points: Vec<Point> = limits
        .filter_map(|factor| {
            Some(Point {
                factor: factor.parse().ok()?,
                memory_max: of(factor, "limit_maxbytes")? as u64,
                miss_ratio: of(factor, "miss_ratio"),
            })
        })
        .collect();
    if points.is_empty() {
        return Err("the server has no curve: it is no scrubjay, or its -m is below 32".to_owned());
    }
    let general = connection.stats("")?;
    let held = ["bytes", "dead_bytes", "expired_bytes", "unread_bytes"];
    let held = held.iter().filter_map(|wanted| {
        let (name, value) = general.iter().find(|(name, _)| name == wanted)?;
        Some((name.clone(), value.parse().ok()?))
    });
    Ok(Curve {
        points,
        held: held.collect(),
    })
}

impl Curve {
    fn json(&self) -> serde_json::Value {
        let point = |point: &Point| {
            json!({
                "factor": point.factor,
                "limit_maxbytes": point.memory_max,
                "miss_ratio": point.miss_ratio,
            })
        };
        let mut object = json!({ "curve": self.points.iter().map(point).collect::<Vec<_>>() });
        for (name, bytes) in &self.held {
            object[name] = json!(bytes);
        }
        object
    }

    fn chart(&self) -> String {
        let line = |point: &Point| {
            let mib = point.memory_max as f64 / f64::from(1 << 20);
            let here = if point.factor == 1.0 { "<" } else { " " };
            match point.miss_ratio {
                Some(ratio) => {
                    let bar = "#".repeat((ratio * BAR).round() as usize);
                    format!("{mib:>10.0} MiB {here} {:>6.2} % {bar}\n", 100.0 * ratio)
                }
                None => format!("{mib:>10.0} MiB {here} no look-ups yet\n"),
            }
        };
        let points: String = self.points.iter().map(line).collect();
        let held: String = self
            .held
            .iter()
            .map(|(name, bytes)| format!("{name:>14} {bytes}\n"))
            .collect();
        format!("misses since the start, by memory limit (< is the present one)\n{points}{held}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Curve, Point};

    #[test]
    fn chart_marks_the_present_limit() {
        let point = |factor: f64, miss_ratio| Point {
            factor,
            memory_max: (factor * f64::from(64 << 20)) as u64,
            miss_ratio,
        };
        let curve = Curve {
            points: vec![point(0.5, Some(0.5)), point(1.0, Some(0.25)), point(2.0, None)],
            held: vec![("bytes".to_owned(), 7)],
        };
        let chart = curve.chart();
        assert!(chart.contains("64 MiB <  25.00 % ###############\n"), "{chart}");
        assert!(chart.contains("128 MiB   no look-ups yet"), "{chart}");
        assert_eq!(curve.json()["curve"][0]["miss_ratio"], 0.5);
    }
}
