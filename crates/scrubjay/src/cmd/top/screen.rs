//! Draws the table of all servers with their sums above it, and the help. What matters is told in words and marks; colours
//! only repeat it.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Sparkline};
use scrubjay_base::time::Now;

use super::columns::{COLUMNS, Cell, Column, Row, left, right, span};
use super::detail;
use super::fleet::{Fleet, History, Series, Server, State};
use super::sums::{Count, Figures, Gauge};
use super::view::View;

/// From this height on, curves have [`CURVE_ROWS`] rows.
const HIGH: u16 = 40;
const CURVE_ROWS: u16 = 3;

/// Width of a name and a value before a curve.
const LABEL: u16 = 22;

/// What is drawn besides the servers.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) now: Now,
    /// The interval as the user reads it.
    pub(super) interval: String,
    pub(super) has_colours: bool,
}

impl Look {
    pub(super) fn bad(&self) -> Style {
        self.coloured(Color::Red)
    }

    pub(super) fn curve(&self) -> Style {
        self.coloured(Color::Cyan)
    }

    fn coloured(&self, colour: Color) -> Style {
        if self.has_colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    /// How long ago a moment was.
    pub(super) fn since(&self, moment: Now) -> String {
        span(self.now.nanos_since(moment) / 1_000_000_000)
    }
}

pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws what `view` says.
pub(super) fn draw(frame: &mut Frame<'_>, fleet: &Fleet, view: &mut View, look: &Look) {
    let area = frame.area();
    match &mut view.detail {
        Some(shown) => detail::draw(frame, area, &fleet.servers[shown.server], shown, look),
        None => draw_table(frame, area, fleet, view, look),
    }
    if view.is_help {
        draw_help(frame, area);
    }
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, fleet: &Fleet, view: &mut View, look: &Look) {
    let curves = curves_rows(area);
    let [title, sums, memory, header, rows, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(curves),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    let sum = fleet.sum();
    frame.render_widget(title_line(fleet, look, area.width), title);
    draw_curves(frame, sums, &fleet.history, Some(&sum), look);
    frame.render_widget(memory_line(&sum), memory);

    let order = view.order(fleet);
    let selected = view.row(&order);
    view.scroll
        .fit(order.len(), usize::from(rows.height), Some(selected));
    let longest = fleet
        .servers
        .iter()
        .map(|server| server.name.chars().count())
        .max();
    let name_width = longest.unwrap_or(0).clamp(6, usize::from(area.width / 3).max(16));
    let columns = columns_that_fit(
        usize::from(area.width).saturating_sub(name_width + 1),
        view.column,
    );
    frame.render_widget(header_line(&columns, name_width, view, area.width), header);
    let lines: Vec<Line<'_>> = view
        .scroll
        .range()
        .map(|row| {
            let is_selected = row == selected;
            let line = server_line(
                &fleet.servers[order[row]],
                &columns,
                name_width,
                look,
                is_selected,
            );
            if is_selected {
                line.patch_style(REVERSED)
            } else {
                line
            }
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), rows);
    frame.render_widget(footer_line(fleet, view, order.len(), area.width), footer);
}

fn title_line(fleet: &Fleet, look: &Look, width: u16) -> Line<'static> {
    let (up, down) = fleet.up_and_down();
    let count = fleet.servers.len();
    let waiting = count - up - down;
    let servers = if count == 1 { "server" } else { "servers" };
    let mut spans = vec![
        Span::styled("scrubjay top  ", BOLD),
        Span::raw(format!("{count} {servers}: {up} up")),
    ];
    if down > 0 {
        spans.push(Span::raw(", "));
        spans.push(Span::styled(format!("{down} DOWN"), look.bad().patch(BOLD)));
        spans.push(Span::raw(" (/down lists)"));
    }
    if waiting > 0 {
        spans.push(Span::raw(format!(", {waiting} not answered yet")));
    }
    let interval = format!("every {}", look.interval);
    let used: usize = spans.iter().map(Span::width).sum();
    spans.push(Span::raw(right(
        &interval,
        usize::from(width).saturating_sub(used),
    )));
    Line::from(spans)
}

/// Rows that [`draw_curves`] needs on a screen of this size.
pub(super) fn curves_rows(screen: Rect) -> u16 {
    // High ones have a blank row below each.
    3 * if screen.height >= HIGH { CURVE_ROWS + 1 } else { 1 }
}

/// Six figures with their curves of late, in two columns.
pub(super) fn draw_curves(
    frame: &mut Frame<'_>,
    area: Rect,
    history: &History,
    figures: Option<&Figures>,
    look: &Look,
) {
    let rate = |count| figures.and_then(|figures| figures.rate(count));
    let number = |count| rate(count).map_or(Cell::Missing, Cell::Number).text();
    let bytes = |count| rate(count).map_or(Cell::Missing, Cell::Bytes).text();
    let hit_ratio = figures
        .and_then(Figures::hit_ratio)
        .map_or("-".to_owned(), |ratio| format!("{:.2} %", 100.0 * ratio));
    let shown = [
        ("requests/s", number(Count::Requests), Series::Requests),
        ("hit ratio", hit_ratio, Series::HitRatio),
        ("sets/s", number(Count::Sets), Series::Sets),
        ("evictions/s", number(Count::Evictions), Series::Evictions),
        ("bytes in/s", bytes(Count::BytesRead), Series::BytesRead),
        ("bytes out/s", bytes(Count::BytesWritten), Series::BytesWritten),
    ];
    let rows = Layout::vertical([Constraint::Ratio(1, 3); 3]).areas::<3>(area);
    let without_blank = |row: Rect| Rect {
        height: row.height.min(CURVE_ROWS),
        ..row
    };
    for (row, pair) in rows.map(without_blank).into_iter().zip(shown.chunks(2)) {
        let halves = Layout::horizontal([Constraint::Ratio(1, 2); 2])
            .spacing(2)
            .areas::<2>(row);
        for (half, (label, value, series)) in halves.into_iter().zip(pair) {
            let [words, curve] =
                Layout::horizontal([Constraint::Length(LABEL), Constraint::Min(0)]).areas(half);
            frame.render_widget(
                Line::from(vec![
                    Span::raw(left(
                        label,
                        usize::from(words.width.min(LABEL)).saturating_sub(10),
                    )),
                    Span::styled(right(value, 9), BOLD),
                ]),
                words,
            );
            draw_curve(frame, curve, history, *series, look);
        }
    }
}

fn draw_curve(frame: &mut Frame<'_>, area: Rect, history: &History, series: Series, look: &Look) {
    // The widget knows whole numbers only.
    let scaled = |value: Option<f32>| value.map(|value| (f64::from(value) * 1_000.0) as u64);
    let values = history
        .last(series, usize::from(area.width))
        .into_iter()
        .map(scaled);
    let mut curve = Sparkline::default()
        .data(values.collect::<Vec<_>>())
        .absent_value_symbol(" ")
        .style(look.curve());
    if series == Series::HitRatio {
        curve = curve.max(1_000);
    }
    frame.render_widget(curve, area);
}

fn memory_line(sum: &Figures) -> Line<'static> {
    let bytes = |gauge| Cell::Bytes(sum.gauge(gauge) as f64).text();
    let number = |gauge| Cell::Number(sum.gauge(gauge) as f64).text();
    let ratio = sum.memory_ratio();
    let plain = |text: &str| Span::raw(text.to_owned());
    let bold = |text: String| Span::styled(text, BOLD);
    Line::from(vec![
        plain("memory "),
        bold(bytes(Gauge::Bytes)),
        plain(" of "),
        bold(bytes(Gauge::BytesMax)),
        plain(&format!(" [{}] ", bar(ratio.unwrap_or(0.0), 16, '#', '.'))),
        bold(ratio.map_or("-".to_owned(), |ratio| format!("{:.1} %", 100.0 * ratio))),
        plain("   items "),
        bold(number(Gauge::Items)),
        plain("   connections "),
        bold(number(Gauge::Connections)),
    ])
}

/// `part` of 1 in `width` characters.
pub(super) fn bar(part: f64, width: usize, full: char, empty: char) -> String {
    let cells = (part.clamp(0.0, 1.0) * width as f64).round() as usize;
    (0..width)
        .map(|cell| if cell < cells { full } else { empty })
        .collect()
}

/// As many of the first columns as there is room for; that of the order is among them.
fn columns_that_fit(width: usize, sorted: Option<usize>) -> Vec<usize> {
    let mut room = width;
    let mut columns: Vec<usize> = Vec::new();
    for (place, column) in COLUMNS.iter().enumerate() {
        let Some(rest) = room.checked_sub(column.width + 1) else {
            break;
        };
        room = rest;
        columns.push(place);
    }
    if let Some(sorted) = sorted.filter(|sorted| !columns.contains(sorted)) {
        // Room for it is made at the end.
        while room < COLUMNS[sorted].width + 1 {
            let Some(dropped) = columns.pop() else { break };
            room += COLUMNS[dropped].width + 1;
        }
        columns.push(sorted);
    }
    columns
}

fn header_line(columns: &[usize], name_width: usize, view: &View, width: u16) -> Line<'static> {
    let mark = if view.is_descending { '▼' } else { '▲' };
    let cell = |place: Option<usize>, text: String| {
        if place != view.column {
            return Span::raw(text);
        }
        // The mark takes the place of a blank beside the title.
        let title = text.trim();
        let marked = if place.is_some() {
            format!("{mark}{title}")
        } else {
            format!("{title}{mark}")
        };
        let marked = if place.is_some() {
            right(&marked, text.chars().count())
        } else {
            left(&marked, text.chars().count())
        };
        Span::styled(marked, Style::new().add_modifier(Modifier::UNDERLINED))
    };
    let mut spans = vec![Span::raw(" "), cell(None, left("SERVER", name_width))];
    for &place in columns {
        let Column { title, width, .. } = &COLUMNS[place];
        spans.push(cell(Some(place), right(title, width + 1)));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    spans.push(Span::raw(" ".repeat(usize::from(width).saturating_sub(used))));
    Line::from(spans).style(BOLD)
}

fn server_line(
    server: &Server,
    columns: &[usize],
    name_width: usize,
    look: &Look,
    is_selected: bool,
) -> Line<'static> {
    let mark = if is_selected { ">" } else { " " };
    let name = format!("{mark}{}", left(&server.name, name_width));
    let Some(row) = Row::of_server(server) else {
        let State::Down(why) = &server.state else {
            return Line::raw(format!("{name} not answered yet"));
        };
        let state = format!(" DOWN {}: ", look.since(server.since));
        return Line::from(vec![
            Span::raw(name),
            Span::styled(state, look.bad().patch(BOLD)),
            Span::styled(why.clone(), look.bad()),
        ]);
    };
    let cells = columns.iter().map(|&place| {
        let column = &COLUMNS[place];
        right(&column.cell(&row).text(), column.width + 1)
    });
    Line::raw(name + &cells.collect::<String>())
}

fn footer_line(fleet: &Fleet, view: &View, shown: usize, width: u16) -> Line<'static> {
    let range = view.scroll.range();
    let part = match shown {
        0 => "none".to_owned(),
        _ => format!("{}-{} of {shown}", range.start + 1, range.end),
    };
    let filter = &view.filter;
    let words = if filter.is_open {
        format!("filter: {}_   (Enter keeps it, Esc shows all)", filter.text)
    } else if filter.text.is_empty() {
        "q quit  ? help  / filter  Enter details  ←→ order  r reverse".to_owned()
    } else {
        format!(
            "filter {:?}: {shown} of {}   (Esc shows all)",
            filter.text,
            fleet.servers.len()
        )
    };
    two_ends(&words, &part, width)
}

/// A line with `first` at its beginning and `last` at its end, where there is room for both.
pub(super) fn two_ends(first: &str, last: &str, width: u16) -> Line<'static> {
    let room = usize::from(width).saturating_sub(first.chars().count());
    let last = if room > last.chars().count() {
        right(last, room)
    } else {
        String::new()
    };
    Line::styled(format!("{first}{last}"), Style::new().add_modifier(Modifier::DIM))
}

const HELP: &str = "\
In the table
  up down, PgUp PgDn, Home End   choose a server
  left right, < >                choose the column of the order
  r                              reverse the order
  /                              filter: names, versions, up, down
  Enter                          all about the chosen server
Of one server
  left right                     the one before, the next
  /                              search its statistics
  Tab                            statistics alone, or all
  Esc                            back to the table
q quits, Esc ends a filter, any key ends this.
A server that is down has no part in the sums. - is what is not known.
";

/// Width of a column's help, beside its title.
const ABOUT: usize = 28;

fn draw_help(frame: &mut Frame<'_>, screen: Rect) {
    let mut lines: Vec<Line<'_>> = HELP.lines().map(Line::raw).collect();
    let about = |column: &Column| format!("{:8}{}", column.title, left(column.about, ABOUT));
    // In two halves, beside each other.
    let half = COLUMNS.len().div_ceil(2);
    lines.extend((0..half).map(|row| {
        let second = COLUMNS.get(row + half).map(about).unwrap_or_default();
        Line::raw(format!("{}  {second}", about(&COLUMNS[row])))
    }));
    let height = (lines.len() as u16 + 2).min(screen.height);
    let width = (lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 4).min(screen.width);
    let area = Rect {
        x: screen.x + (screen.width - width) / 2,
        y: screen.y + (screen.height - height) / 2,
        width,
        height,
    };
    let frame_around = Block::bordered()
        .title(" scrubjay top ")
        .padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(frame_around), area);
}

#[cfg(test)]
mod tests;
