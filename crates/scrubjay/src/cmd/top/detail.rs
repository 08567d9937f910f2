//! Draws the page of one server: its rates, where its memory goes, why items left, and all that it tells.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use scrubjay_admin::memory;

use super::columns::{Cell, left, right, span};
use super::fleet::{Server, State};
use super::screen::{BOLD, Look, bar, curves_rows, draw_curves, two_ends};
use super::sums::Sample;
use super::view::Detail;

/// From this width on, the statistics stand beside the rest.
const WIDE: u16 = 158;

/// Width of the rest then.
const OVERVIEW: u16 = 90;

/// Rows of the longest of the three blocks, with its title.
const BLOCK_ROWS: u16 = 12;

/// Shortest bar that shows anything, and the longest.
const BAR_MIN: usize = 8;
const BAR_MAX: usize = 32;

/// The line of what all parts are parts of.
const LIMIT: &str = "limit, -m";

/// What is done a second, and the statistics that count it.
const RATES: [(&str, &[&str]); 11] = [
    ("gets", &["cmd_get"]),
    ("hits", &["get_hits"]),
    ("misses", &["get_misses"]),
    ("sets", &["cmd_set"]),
    ("deletes", &["delete_hits", "delete_misses"]),
    (
        "incr, decr",
        &["incr_hits", "incr_misses", "decr_hits", "decr_misses"],
    ),
    ("touches", &["touch_hits", "touch_misses"]),
    ("cas", &["cas_hits", "cas_misses", "cas_badval"]),
    ("meta", &["cmd_meta"]),
    ("evictions", &["evictions"]),
    ("new conns", &["total_connections"]),
];

/// Why items left, as memcached counts it; a scrubjay tells `removed_` and the cause.
const REMOVALS: [(&str, &str); 4] = [
    ("evicted", "evictions"),
    ("expired", "reclaimed"),
    ("by crawler", "crawler_reclaimed"),
    ("deleted", "delete_hits"),
];

/// Draws the page.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, server: &Server, detail: &mut Detail, look: &Look) {
    let [title, body, footer] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]).areas(area);
    frame.render_widget(title_line(server, look), title);
    let list = if detail.is_list_only {
        body
    } else if area.width >= WIDE {
        let halves = Layout::horizontal([Constraint::Length(OVERVIEW), Constraint::Min(0)]).spacing(2);
        let [overview, list] = halves.areas(body);
        draw_overview(frame, area, overview, server, look);
        list
    } else {
        let rows = curves_rows(area) + BLOCK_ROWS;
        let [overview, list] = Layout::vertical([Constraint::Length(rows), Constraint::Min(0)]).areas(body);
        draw_overview(frame, area, overview, server, look);
        list
    };
    let part = draw_list(frame, list, server, detail);
    let words = if detail.search.is_open {
        format!(
            "search: {}_   (Enter keeps it, Esc shows all)",
            detail.search.text
        )
    } else if detail.search.text.is_empty() {
        "q quit  ? help  Esc back  ←→ servers  / search  Tab statistics".to_owned()
    } else {
        format!("search {:?}   (Esc shows all)", detail.search.text)
    };
    frame.render_widget(two_ends(&words, &part, area.width), footer);
}

fn title_line(server: &Server, look: &Look) -> Line<'static> {
    let mut spans = vec![Span::styled(server.name.clone(), BOLD)];
    match &server.state {
        State::Waiting => spans.push(Span::raw("  not answered yet")),
        State::Down(why) => {
            let state = format!("  DOWN {}: {why}", look.since(server.since));
            spans.push(Span::styled(state, look.bad().patch(BOLD)));
        }
        State::Up => (),
    }
    if let Some(sample) = &server.now {
        let reply = Cell::Number(server.nanos as f64 / 1e6).text();
        let process = sample.get("pid").unwrap_or("-");
        let version = server.version();
        spans.push(Span::raw(format!(
            "  {version}, up {}, process {process}, reply {reply} ms",
            span(sample.uptime_secs())
        )));
    }
    if server.restarts > 0 {
        spans.push(Span::styled(
            format!(", restarted {} times", server.restarts),
            BOLD,
        ));
    }
    Line::from(spans)
}

fn draw_overview(frame: &mut Frame<'_>, screen: Rect, area: Rect, server: &Server, look: &Look) {
    let [curves, blocks] =
        Layout::vertical([Constraint::Length(curves_rows(screen)), Constraint::Min(0)]).areas(area);
    draw_curves(frame, curves, &server.history, server.figures(), look);
    let Some(now) = &server.now else { return };
    let before = server.before.as_ref().filter(|before| now.continues(before));
    let thirds = [
        Constraint::Length(18),
        Constraint::Min(30),
        Constraint::Length(27),
    ];
    let [rates, memory, removals] = Layout::horizontal(thirds).spacing(2).areas(blocks);
    frame.render_widget(Paragraph::new(rate_lines(now, before)), rates);
    frame.render_widget(
        Paragraph::new(memory_lines(now, usize::from(memory.width))),
        memory,
    );
    frame.render_widget(Paragraph::new(removal_lines(now, before)), removals);
}

/// How much `names` together grew a second.
fn growth(now: &Sample, before: Option<&Sample>, names: &[&str]) -> Cell {
    let Some(before) = before else {
        return Cell::Missing;
    };
    let grown = |name: &&str| now.number(name).saturating_sub(before.number(name)) as f64;
    Cell::Number(names.iter().map(grown).sum::<f64>() / now.secs_since(before))
}

fn heading(text: String) -> Line<'static> {
    Line::styled(text, BOLD.add_modifier(Modifier::UNDERLINED))
}

fn rate_lines(now: &Sample, before: Option<&Sample>) -> Vec<Line<'static>> {
    let line = |(label, names): &(&str, &[&str])| {
        let rate = growth(now, before, names).text();
        Line::raw(format!("{label:11}{}", right(&rate, 7)))
    };
    let title = heading(format!("{:11}{:>7}", "RATES", "/s"));
    [title].into_iter().chain(RATES.iter().map(line)).collect()
}

/// Where the limit goes, as a scrubjay tells it; of another server, what items take.
fn memory_lines(now: &Sample, width: usize) -> Vec<Line<'static>> {
    let number = |name: &str| now.number(name);
    let limit = number("limit_maxbytes");
    let parts: Vec<(&str, u64)> = if now.get("segments_total").is_some() {
        memory::parts_of(number)
            .iter()
            .map(|part| (part.name, part.bytes))
            .collect()
    } else {
        let bytes = number("bytes");
        vec![("items", bytes), ("other or free", limit.saturating_sub(bytes))]
    };
    let line = |(label, bytes): (&str, u64)| {
        let ratio = if limit == 0 {
            0.0
        } else {
            bytes as f64 / limit as f64
        };
        let words = format!(
            "{label:13}{}{}% ",
            right(&Cell::Bytes(bytes as f64).text(), 7),
            right(&Cell::Ratio(ratio).text(), 6)
        );
        let room = width.saturating_sub(words.chars().count()).min(BAR_MAX);
        let room = if room < BAR_MIN || label == LIMIT { 0 } else { room };
        Line::raw(format!("{words}{}", bar(ratio, room, '#', ' ')))
    };
    let title = heading(left(
        &format!("{:13}{:>7}{:>7}", "MEMORY", "bytes", "of -m"),
        width,
    ));
    let whole = line((LIMIT, limit));
    [title]
        .into_iter()
        .chain(parts.into_iter().map(line))
        .chain([whole])
        .collect()
}

fn removal_lines(now: &Sample, before: Option<&Sample>) -> Vec<Line<'static>> {
    let own = now
        .rows()
        .filter_map(|(name, _)| Some((name.strip_prefix("removed_")?, name)));
    let own: Vec<(&str, &str)> = own.collect();
    let causes = if own.is_empty() { &REMOVALS[..] } else { &own };
    let line = |(label, name): &(&str, &str)| {
        let count = Cell::Number(now.number(name) as f64).text();
        let rate = growth(now, before, &[name]).text();
        Line::raw(format!(
            "{}{}{}",
            left(&label.replace('_', " "), 14),
            right(&count, 7),
            right(&rate, 6)
        ))
    };
    let title = heading(format!("{:14}{:>7}{:>6}", "REMOVED", "items", "/s"));
    [title].into_iter().chain(causes.iter().map(line)).collect()
}

/// All that the server tells and the search leaves; returns which part of it is seen.
fn draw_list(frame: &mut Frame<'_>, area: Rect, server: &Server, detail: &mut Detail) -> String {
    let Some(now) = &server.now else {
        return "no statistics yet".to_owned();
    };
    let before = server.before.as_ref().filter(|before| now.continues(before));
    let [title, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let rows: Vec<(&str, &str)> = now
        .rows()
        .filter(|(name, value)| detail.search.finds(&[name, value]))
        .collect();
    detail.scroll.fit(rows.len(), usize::from(body.height), None);
    let name_width = rows
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0)
        .clamp(10, 34);
    let line = |&(name, value): &(&str, &str)| {
        let change = change(name, value, before, now);
        Line::raw(format!(
            "{} {}  {change}",
            left(name, name_width),
            right(value, 20)
        ))
    };
    let heading_text = format!(
        "{} {:>20}  {:>10}",
        left("STATISTICS", name_width),
        "value",
        "change /s"
    );
    frame.render_widget(heading(left(&heading_text, usize::from(title.width))), title);
    let lines: Vec<Line<'_>> = rows[detail.scroll.range()].iter().map(line).collect();
    frame.render_widget(Paragraph::new(lines), body);
    let range = detail.scroll.range();
    match rows.len() {
        0 => "none".to_owned(),
        len => format!("{}-{} of {len}", range.start + 1, range.end),
    }
}

/// How much a whole number changed a second; nothing if it did not.
fn change(name: &str, value: &str, before: Option<&Sample>, now: &Sample) -> String {
    let numbers = before.and_then(|before| {
        let then: i128 = before.get(name)?.parse().ok()?;
        Some((value.parse::<i128>().ok()? - then, now.secs_since(before)))
    });
    match numbers {
        Some((difference, secs)) if difference != 0 => {
            let rate = Cell::Number(difference.unsigned_abs() as f64 / secs).text();
            let sign = if difference < 0 { '-' } else { '+' };
            right(&format!("{sign}{rate}"), 10)
        }
        _ => String::new(),
    }
}
