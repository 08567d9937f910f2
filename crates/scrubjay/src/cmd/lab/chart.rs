//! The experiment's main series: as bars of blocks for the terminal, as SVG for a file.

use std::fmt::Write;

use serde_json::json;

use super::table::Findings;

/// Cells of the longest bar, and points of the longest line, in the terminal.
const TERMINAL_WIDTH: usize = 60;

/// Eighths of a block, from the left and from below.
const FROM_LEFT: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const FROM_BELOW: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Colours that colour-blind readers can tell apart. Source: Okabe and Ito, "Color Universal Design".
const COLOURS: [&str; 2] = ["#0072b2", "#d55e00"];

/// The plot's room within the SVG.
const LEFT: f64 = 80.0;
const TOP: f64 = 60.0;
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 260.0;

/// What the values are of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Axis {
    /// One name a value.
    Names(Vec<String>),
    /// A value each so many seconds.
    Seconds(f64),
}

/// One server's series.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// What the values are, with their unit.
    pub(crate) title: &'static str,
    pub(crate) axis: Axis,
    pub(crate) values: Vec<f64>,
}

impl Default for Chart {
    fn default() -> Chart {
        Chart {
            title: "",
            axis: Axis::Seconds(1.0),
            values: Vec::new(),
        }
    }
}

impl Chart {
    pub(crate) fn json(&self) -> serde_json::Value {
        let axis = match &self.axis {
            Axis::Names(names) => json!(names),
            Axis::Seconds(step) => json!(
                (0..self.values.len())
                    .map(|at| at as f64 * step)
                    .collect::<Vec<_>>()
            ),
        };
        json!({"title": self.title, "at": axis, "values": self.values})
    }
}

/// The smallest and the largest value of all servers, the latter above zero.
fn range_of(all: &[Findings]) -> (f64, f64) {
    let values = || all.iter().flat_map(|one| one.chart.values.iter().copied());
    (
        values().fold(f64::INFINITY, f64::min),
        values().fold(f64::MIN_POSITIVE, f64::max),
    )
}

/// All series for the terminal, on one scale: bars from zero, lines from the smallest value.
pub(crate) fn blocks(all: &[Findings]) -> String {
    let (low, top) = range_of(all);
    let title = all.first().map_or("", |one| one.chart.title);
    let mut text = format!("{title}\n");
    for one in all {
        text += &format!("  {}\n", one.server);
        match &one.chart.axis {
            Axis::Names(names) => {
                for (name, value) in names.iter().zip(&one.chart.values) {
                    text += &format!("    {name:<12} {} {}\n", bar(value / top), short(*value));
                }
            }
            Axis::Seconds(step) => {
                let seconds = one.chart.values.len() as f64 * step;
                let share = |value: &f64| {
                    if top > low {
                        (value - low) / (top - low)
                    } else {
                        0.0
                    }
                };
                let line: String = squeeze(&one.chart.values)
                    .iter()
                    .map(|value| pillar(share(value)))
                    .collect();
                text += &format!("    0 s {line} {} s\n", short(seconds));
            }
        }
    }
    if all.iter().any(|one| matches!(one.chart.axis, Axis::Seconds(_))) {
        text += &format!(
            "    {} is {}, {} is {}\n",
            FROM_BELOW[0],
            short(low),
            FROM_BELOW[7],
            short(top)
        );
    }
    text
}

fn bar(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (TERMINAL_WIDTH * 8) as f64).round() as usize;
    "█".repeat(eighths / 8) + FROM_LEFT[eighths % 8]
}

fn pillar(share: f64) -> char {
    FROM_BELOW[(share.clamp(0.0, 1.0) * 7.0).round() as usize]
}

/// Means of neighbours, so that a long series fits a line.
fn squeeze(values: &[f64]) -> Vec<f64> {
    let group = values.len().div_ceil(TERMINAL_WIDTH).max(1);
    let groups = values.chunks(group);
    groups
        .map(|group| group.iter().sum::<f64>() / group.len() as f64)
        .collect()
}

/// A number with as many decimals as it needs, two at most.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// All series as SVG: bars for names, lines for seconds.
pub(crate) fn svg(all: &[Findings]) -> String {
    let top = step_above(range_of(all).1);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        LEFT + WIDTH + 20.0,
        TOP + HEIGHT + 50.0
    );
    let title = all.first().map_or("", |one| one.chart.title);
    label(&mut text, LEFT, 20.0, "start", title);
    for tick in 0..=4 {
        let y = TOP + HEIGHT * (1.0 - f64::from(tick) / 4.0);
        let end = LEFT + WIDTH;
        line(
            &mut text,
            &format!("<path d=\"M{LEFT:.1} {y:.1}H{end:.1}\" stroke=\"#ccc\"/>"),
        );
        label(
            &mut text,
            LEFT - 6.0,
            y + 4.0,
            "end",
            &short(top * f64::from(tick) / 4.0),
        );
    }
    for (at, (one, colour)) in all.iter().zip(COLOURS).enumerate() {
        let x = LEFT + at as f64 * WIDTH / 2.0;
        line(
            &mut text,
            &format!("<rect x=\"{x:.1}\" y=\"32\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"),
        );
        label(&mut text, x + 18.0, 42.0, "start", &one.server);
        match &one.chart.axis {
            Axis::Names(names) => bars(&mut text, names, &one.chart.values, top, (at, all.len()), colour),
            Axis::Seconds(step) => curve(&mut text, *step, &one.chart.values, top, colour),
        }
    }
    text + "</svg>\n"
}

/// The bars of one server of several, `place` being its number and how many there are.
fn bars(text: &mut String, names: &[String], values: &[f64], top: f64, place: (usize, usize), colour: &str) {
    let group = WIDTH / names.len() as f64;
    let wide = group * 0.7 / place.1 as f64;
    for (at, (name, value)) in names.iter().zip(values).enumerate() {
        let x = LEFT + group * (at as f64 + 0.15) + wide * place.0 as f64;
        let tall = HEIGHT * value / top;
        let y = TOP + HEIGHT - tall;
        line(
            text,
            &format!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\" fill=\"{colour}\"/>"
            ),
        );
        label(text, x + wide / 2.0, y - 4.0, "middle", &short(*value));
        if place.0 == 0 {
            label(
                text,
                LEFT + group * (at as f64 + 0.5),
                TOP + HEIGHT + 18.0,
                "middle",
                name,
            );
        }
    }
}

fn curve(text: &mut String, step: f64, values: &[f64], top: f64, colour: &str) {
    let last = values.len().saturating_sub(1).max(1) as f64;
    let points = values.iter().enumerate().map(|(at, value)| {
        let (x, y) = (
            LEFT + WIDTH * at as f64 / last,
            TOP + HEIGHT * (1.0 - value / top),
        );
        format!("{x:.1},{y:.1}")
    });
    let points = points.collect::<Vec<_>>().join(" ");
    line(
        text,
        &format!("<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"),
    );
    label(text, LEFT, TOP + HEIGHT + 18.0, "middle", "0 s");
    label(
        text,
        LEFT + WIDTH,
        TOP + HEIGHT + 18.0,
        "middle",
        &format!("{} s", short(last * step)),
    );
}

fn line(text: &mut String, what: &str) {
    text.push_str(what);
    text.push('\n');
}

fn label(text: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(
        text,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    )
    .expect("a string takes every byte");
}

/// The next number above `value` that is 1, 2, 4, 6, 8 or 10 times a power of ten, so that quarters are easily read.
fn step_above(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= value);
    step.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::{Axis, Chart, bar, blocks, pillar, squeeze, step_above, svg};
    use crate::cmd::lab::table::Findings;

    fn findings(axis: Axis, values: &[f64]) -> Findings {
        Findings {
            server: "a<b".to_owned(),
            sections: Vec::new(),
            chart: Chart {
                title: "evictions",
                axis,
                values: values.to_vec(),
            },
        }
    }

    #[test]
    fn lengths_follow_the_values() {
        assert_eq!((bar(0.0), bar(1.0 / 60.0)), (String::new(), "█".to_owned()));
        assert_eq!(bar(1.5 / 60.0), "█▌");
        assert_eq!([pillar(0.0), pillar(0.4), pillar(1.0)], ['▁', '▄', '█']);
        assert_eq!(squeeze(&[1.0; 130]).len(), 44);
        assert_eq!(
            [step_above(20_586.0), step_above(100.0), step_above(0.3)],
            [40_000.0, 100.0, 0.4]
        );
        let names = Axis::Names(vec!["one".to_owned(), "two".to_owned()]);
        let text = blocks(&[findings(names, &[1.0, 2.0])]);
        let line = blocks(&[findings(Axis::Seconds(2.0), &[50.0, 75.0, 100.0])]);
        assert!(line.contains("0 s ▁▅█ 6 s\n    ▁ is 50, █ is 100\n"), "{line}");
        let lengths: Vec<usize> = text
            .lines()
            .skip(2)
            .map(|line| line.matches('█').count())
            .collect();
        assert_eq!(lengths, [30, 60]);
    }

    #[test]
    fn both_kinds_are_drawn_and_names_are_escaped() {
        let names = Axis::Names(vec!["one".to_owned()]);
        let text = svg(&[findings(names.clone(), &[3.0]), findings(names, &[0.0])]);
        assert_eq!(text.matches("<rect").count(), 1 + 2 + 2);
        assert!(text.contains("a&lt;b") && text.ends_with("</svg>\n"));
        let text = svg(&[findings(Axis::Seconds(1.0), &[0.0, 4.0])]);
        assert!(text.contains("points=\"80.0,320.0 680.0,60.0\""), "{text}");
    }
}
