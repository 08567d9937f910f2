//! The rates as SVG: a panel a kind of requests, a group of bars for each draw and number of threads, a colour a cache.

use std::fmt::Write as _;

use crate::{Cell, KINDS};

/// Colours that colour-blind readers can tell apart. Source: Okabe and Ito, "Color Universal Design".
const COLOURS: [&str; 5] = ["#0072b2", "#56b4e9", "#e69f00", "#009e73", "#cc79a7"];

/// A panel's measures, and the room around it.
const LEFT: f64 = 46.0;
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 120.0;
const TOP: f64 = 50.0;
const ROW: f64 = HEIGHT + 58.0;

/// Draws all cells.
pub fn svg(cells: &[Cell], keys: u32) -> String {
    let mut names: Vec<&str> = Vec::new();
    for cell in cells {
        if !names.contains(&cell.engine) {
            names.push(cell.engine);
        }
    }
    let kinds: Vec<usize> = (0..KINDS.len())
        .filter(|kind| cells.iter().any(|cell| cell.kind == *kind))
        .collect();
    let (width, height) = (LEFT + WIDTH + 10.0, TOP + ROW * kinds.len() as f64);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<style>text{{fill:#333}}path{{stroke:#8888;fill:none}}\
         @media(prefers-color-scheme:dark){{text{{fill:#ccc}}}}</style>\n"
    );
    let title = format!("Million requests a second, {keys} keys of 16 bytes with values of 64");
    label(&mut text, 4.0, 16.0, "start", &title);
    for (at, name) in names.iter().enumerate() {
        let x = LEFT + at as f64 * 130.0;
        bar(&mut text, x, 26.0, 9.0, 9.0, COLOURS[at % COLOURS.len()]);
        label(&mut text, x + 13.0, 35.0, "start", name);
    }
    for (at, kind) in kinds.into_iter().enumerate() {
        let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.kind == kind).collect();
        panel(&mut text, TOP + ROW * at as f64, KINDS[kind].0, &cells, &names);
    }
    text + "</svg>\n"
}

fn panel(text: &mut String, top: f64, title: &str, cells: &[&Cell], names: &[&str]) {
    let largest = cells
        .iter()
        .map(|cell| cell.rate)
        .fold(f64::MIN_POSITIVE, f64::max);
    let bottom = top + 22.0 + HEIGHT;
    let height = |rate: f64| rate / largest * HEIGHT;
    label(text, LEFT, top + 14.0, "start", title);
    let step = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
        .into_iter()
        .find(|step| largest / step <= 5.0);
    let step = step.unwrap_or(50.0);
    for mark in 0..=(largest / step) as usize {
        let rate = mark as f64 * step;
        let y = bottom - height(rate);
        let _ = writeln!(text, "<path d=\"M{LEFT:.1} {y:.1}h{WIDTH:.1}\"/>");
        label(text, LEFT - 5.0, y + 4.0, "end", &format!("{rate}"));
    }
    let groups: Vec<&[&Cell]> = cells.chunks(names.len()).collect();
    let each = WIDTH / groups.len().max(1) as f64;
    for (at, group) in groups.iter().enumerate() {
        let left = LEFT + at as f64 * each + 10.0;
        let thick = (each - 20.0) / names.len() as f64;
        for (number, cell) in group.iter().enumerate() {
            let x = left + number as f64 * thick;
            let (tall, colour) = (height(cell.rate), COLOURS[number % COLOURS.len()]);
            bar(text, x, bottom - tall, thick - 2.0, tall, colour);
            let figure = format!("{:.1}", cell.rate);
            label(
                text,
                x + thick / 2.0 - 1.0,
                bottom - tall - 3.0,
                "middle",
                &figure,
            );
        }
        if let Some(first) = group.first() {
            let threads = if first.threads > 1 { "threads" } else { "thread" };
            let under = format!("{}, {} {threads}", first.draw.name(), first.threads);
            label(text, left + (each - 20.0) / 2.0, bottom + 15.0, "middle", &under);
        }
    }
}

fn bar(text: &mut String, x: f64, y: f64, width: f64, height: f64, colour: &str) {
    let _ = writeln!(
        text,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
    );
}

fn label(text: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        text,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}
