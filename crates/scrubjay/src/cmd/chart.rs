//! Series of figures of an experiment or a benchmark: as bars of blocks for the terminal, as SVG for a file.

use std::fmt::Write;

use serde_json::json;

/// Cells of the longest bar, and points of the longest line, in the terminal.
const TERMINAL_WIDTH: usize = 60;

/// Eighths of a block, from the left and from below.
const FROM_LEFT: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const FROM_BELOW: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Colours that colour-blind readers can tell apart. Source: Okabe and Ito, "Color Universal Design".
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#56b4e9", "#e69f00", "#009e73", "#cc79a7"];

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
    /// A value at each of these places, in this unit; the values span powers of ten and are drawn by their logarithm.
    Places(Vec<f64>, &'static str),
}

/// The values of one series.
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
            Axis::Places(places, _) => json!(places),
        };
        json!({"title": self.title, "at": axis, "values": self.values})
    }
}

/// A chart with the name of what it is of.
#[derive(Clone, Debug)]
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    pub(crate) chart: &'a Chart,
}

/// The smallest and the largest value of all series, the latter above zero.
fn range_of(all: &[Series<'_>]) -> (f64, f64) {
    let values = || all.iter().flat_map(|one| one.chart.values.iter().copied());
    (
        values().fold(f64::INFINITY, f64::min),
        values().fold(f64::MIN_POSITIVE, f64::max),
    )
}

/// All series for the terminal, on one scale: bars from zero, lines from the smallest value.
pub(crate) fn blocks(all: &[Series<'_>]) -> String {
    let (low, top) = range_of(all);
    let title = all.first().map_or("", |one| one.chart.title);
    let mut text = format!("{title}\n");
    for one in all {
        text += &format!("  {}\n", one.name);
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
            Axis::Places(places, unit) => {
                for (place, value) in places.iter().zip(&one.chart.values) {
                    let share = (value / low).ln_1p() / (top / low).ln_1p();
                    text += &format!(
                        "    {:>9} {unit} {} {}\n",
                        short(*place),
                        bar(share),
                        short(*value)
                    );
                }
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

/// All series as SVG: bars for names, lines for seconds and places.
pub(crate) fn svg(all: &[Series<'_>]) -> String {
    let scale = Scale::of(all);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        LEFT + WIDTH + 20.0,
        TOP + HEIGHT + 50.0
    );
    let title = all.first().map_or("", |one| one.chart.title);
    label(&mut text, LEFT, 20.0, "start", title);
    for tick in scale.ticks() {
        let y = scale.y(tick);
        let end = LEFT + WIDTH;
        line(
            &mut text,
            &format!("<path d=\"M{LEFT:.1} {y:.1}H{end:.1}\" stroke=\"#ccc\"/>"),
        );
        label(&mut text, LEFT - 6.0, y + 4.0, "end", &short(tick));
    }
    let room = WIDTH / all.len().max(2) as f64;
    for (at, (one, colour)) in all.iter().zip(COLOURS).enumerate() {
        let x = LEFT + at as f64 * room;
        line(
            &mut text,
            &format!("<rect x=\"{x:.1}\" y=\"32\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"),
        );
        label(&mut text, x + 18.0, 42.0, "start", one.name);
        let values = &one.chart.values;
        match &one.chart.axis {
            Axis::Names(names) => bars(&mut text, names, values, scale.top, (at, all.len()), colour),
            Axis::Seconds(step) => {
                let places: Vec<f64> = (0..values.len()).map(|at| at as f64 * step).collect();
                let last = places.last().copied().unwrap_or(0.0);
                curve(&mut text, (&places, last), values, &scale, colour);
                ends(&mut text, last, "s");
            }
            Axis::Places(places, unit) => {
                curve(&mut text, (places, scale.last_place), values, &scale, colour);
                if at == 0 {
                    ends(&mut text, scale.last_place, unit);
                }
            }
        }
    }
    text + "</svg>\n"
}

/// Where values stand between the plot's bottom and top.
struct Scale {
    /// The value at the bottom if the scale is logarithmic.
    bottom: Option<f64>,
    top: f64,
    /// The largest place of all series.
    last_place: f64,
}

impl Scale {
    fn of(all: &[Series<'_>]) -> Scale {
        let (low, high) = range_of(all);
        let places = all.iter().filter_map(|one| match &one.chart.axis {
            Axis::Places(places, _) => Some(places),
            Axis::Names(_) | Axis::Seconds(_) => None,
        });
        let last_place = places.flatten().copied().fold(0.0, f64::max);
        if last_place > 0.0 {
            let bottom = 10f64.powf(low.max(1e-9).log10().floor());
            let top = 10f64.powf(high.log10().ceil()).max(bottom * 10.0);
            return Scale {
                bottom: Some(bottom),
                top,
                last_place,
            };
        }
        Scale {
            bottom: None,
            top: step_above(high),
            last_place,
        }
    }

    /// Quarters, or powers of ten.
    fn ticks(&self) -> Vec<f64> {
        match self.bottom {
            None => (0..=4).map(|tick| self.top * f64::from(tick) / 4.0).collect(),
            Some(bottom) => {
                let powers = (self.top / bottom).log10().round() as i32;
                (0..=powers).map(|power| bottom * 10f64.powi(power)).collect()
            }
        }
    }

    fn y(&self, value: f64) -> f64 {
        let share = match self.bottom {
            None => value / self.top,
            Some(bottom) => (value.max(bottom) / bottom).ln() / (self.top / bottom).ln(),
        };
        TOP + HEIGHT * (1.0 - share)
    }
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

/// A line through the values at their places, the last place being at the right end.
fn curve(text: &mut String, (places, last): (&[f64], f64), values: &[f64], scale: &Scale, colour: &str) {
    let points = places.iter().zip(values).map(|(place, value)| {
        let x = LEFT + WIDTH * place / last.max(f64::MIN_POSITIVE);
        format!("{x:.1},{:.1}", scale.y(*value))
    });
    let points = points.collect::<Vec<_>>().join(" ");
    line(
        text,
        &format!("<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"),
    );
}

/// What stands below the plot's ends.
fn ends(text: &mut String, last: f64, unit: &str) {
    let y = TOP + HEIGHT + 18.0;
    label(text, LEFT, y, "middle", &format!("0 {unit}"));
    label(
        text,
        LEFT + WIDTH,
        y,
        "middle",
        &format!("{} {unit}", short(last)),
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
    use super::{Axis, Chart, Series, bar, blocks, pillar, squeeze, step_above, svg};

    fn chart(axis: Axis, values: &[f64]) -> Chart {
        Chart {
            title: "evictions",
            axis,
            values: values.to_vec(),
        }
    }

    fn series(charts: &[Chart]) -> Vec<Series<'_>> {
        charts.iter().map(|chart| Series { name: "a<b", chart }).collect()
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
        let text = blocks(&series(&[chart(names, &[1.0, 2.0])]));
        let line = blocks(&series(&[chart(Axis::Seconds(2.0), &[50.0, 75.0, 100.0])]));
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
        let text = svg(&series(&[chart(names.clone(), &[3.0]), chart(names, &[0.0])]));
        assert_eq!(text.matches("<rect").count(), 1 + 2 + 2);
        assert!(text.contains("a&lt;b") && text.ends_with("</svg>\n"));
        let text = svg(&series(&[chart(Axis::Seconds(1.0), &[0.0, 4.0])]));
        assert!(text.contains("points=\"80.0,320.0 680.0,60.0\""), "{text}");
        let places = Axis::Places(vec![0.0, 5.0, 10.0], "k/s");
        let text = svg(&series(&[chart(places, &[10.0, 100.0, 1000.0])]));
        assert!(
            text.contains("points=\"80.0,320.0 380.0,190.0 680.0,60.0\"") && text.contains("10 k/s"),
            "{text}"
        );
    }
}
