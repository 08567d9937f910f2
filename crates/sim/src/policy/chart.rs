//! Miss ratios relative to the engine's as SVG: a panel a source, a line a player, readable on light and dark ground.

use std::fmt::Write;

use super::Row;

/// Colours that colour-blind readers can tell apart. Source: Okabe and Ito, "Color Universal Design".
const COLOURS: [&str; 8] = [
    "#e69f00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442",
];

/// What a panel's axis spans; what is beyond is drawn at its edge.
const LOW: f64 = 0.85;
const HIGH: f64 = 2.0;

/// Ratios with a line across.
const MARKS: [f64; 6] = [0.9, 1.0, 1.1, 1.25, 1.5, 2.0];

/// Panels in a row, and their measures.
const PANELS: usize = 4;
const WIDTH: f64 = 180.0;
const HEIGHT: f64 = 150.0;
const GAP: f64 = 14.0;
const LEFT: f64 = 44.0;
const ROW: f64 = HEIGHT + 52.0;

/// Draws every player but the one named `base`, against that one.
pub(super) fn svg(rows: &[Row], base: &str) -> String {
    let mut sources: Vec<&str> = rows.iter().map(|row| row.source.as_str()).collect();
    sources.dedup();
    let players: Vec<&str> = rows.first().map_or(Vec::new(), |row| {
        let names = row.outcomes.iter().map(|(name, _)| *name);
        names.filter(|name| *name != base).collect()
    });
    let top = 34.0 + 18.0 * players.len().div_ceil(PANELS) as f64;
    let width = LEFT + PANELS as f64 * (WIDTH + GAP);
    let height = top + ROW * sources.len().div_ceil(PANELS) as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<style>text{{fill:#333}}path{{stroke:#8888;fill:none}}polyline{{fill:none;stroke-width:1.5}}\
         @media(prefers-color-scheme:dark){{text{{fill:#ccc}}}}</style>\n"
    );
    label(
        &mut text,
        4.0,
        16.0,
        "start",
        &format!("Misses, {base} = 1; at shares of the footprint"),
    );
    for (at, name) in players.iter().enumerate() {
        let x = LEFT + (at % PANELS) as f64 * (WIDTH + GAP);
        let y = 36.0 + 18.0 * (at / PANELS) as f64;
        let colour = COLOURS[at % COLOURS.len()];
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/>",
            y - 4.0
        );
        label(&mut text, x + 9.0, y, "start", name);
    }
    for (at, source) in sources.iter().enumerate() {
        let left = LEFT + (at % PANELS) as f64 * (WIDTH + GAP);
        let top = top + 24.0 + ROW * (at / PANELS) as f64;
        let rows: Vec<&Row> = rows.iter().filter(|row| row.source == *source).collect();
        panel(&mut text, &rows, base, (left, top), at % PANELS == 0);
    }
    text + "</svg>\n"
}

/// One source's shares, side by side.
fn panel(text: &mut String, rows: &[&Row], base: &str, (left, top): (f64, f64), is_first: bool) {
    let Some(first) = rows.first() else { return };
    label(text, left + WIDTH / 2.0, top - 6.0, "middle", &first.source);
    for mark in MARKS {
        let y = top + height_of(mark);
        let _ = writeln!(text, "<path d=\"M{left:.1} {y:.1}h{WIDTH:.1}\"/>");
        if is_first {
            label(text, left - 6.0, y + 4.0, "end", &mark.to_string());
        }
    }
    let step = WIDTH / rows.len() as f64;
    let x_of = |at: usize| left + step * (at as f64 + 0.5);
    for (at, row) in rows.iter().enumerate() {
        label(
            text,
            x_of(at),
            top + HEIGHT + 14.0,
            "middle",
            &row.share.to_string(),
        );
    }
    let names = first
        .outcomes
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| *name != base);
    for (name, colour) in names.zip(COLOURS.iter().cycle()) {
        let points = rows.iter().enumerate().filter_map(|(at, row)| {
            let ratio = row.outcome(name)?.miss_ratio / row.outcome(base)?.miss_ratio;
            ratio.is_finite().then(|| (x_of(at), top + height_of(ratio)))
        });
        let points: Vec<(f64, f64)> = points.collect();
        let line = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
        let line = line.collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "<polyline points=\"{line}\" stroke=\"{colour}\"/>");
        for (x, y) in points {
            let _ = writeln!(
                text,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>"
            );
        }
    }
}

/// From a panel's top, on a scale of logarithms.
fn height_of(ratio: f64) -> f64 {
    HEIGHT * (HIGH / ratio.clamp(LOW, HIGH)).ln() / (HIGH / LOW).ln()
}

fn label(text: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        text,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::{height_of, svg};
    use crate::policy::Row;
    use crate::policy::play::Outcome;

    #[test]
    fn every_player_but_the_base_has_a_line_in_every_panel() {
        let outcome = |miss_ratio| Outcome {
            miss_ratio,
            ..Outcome::default()
        };
        let row = |source: &str| Row {
            source: source.to_owned(),
            share: 0.5,
            outcomes: vec![("base", outcome(0.1)), ("a", outcome(0.2)), ("b<", outcome(0.1))],
        };
        let text = svg(&[row("one"), row("two")], "base");
        assert_eq!(text.matches("<polyline").count(), 4);
        assert_eq!(text.matches("<circle").count(), 2 + 4);
        assert!(text.contains("b&lt;") && text.ends_with("</svg>\n"), "{text}");
        assert_eq!((height_of(2.0), height_of(9.0)), (0.0, 0.0));
        assert!(height_of(0.1) <= super::HEIGHT);
    }
}
