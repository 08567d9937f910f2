//! What is told of a server, or of all together: one table of columns, read by the screen, the plain table and JSON.

use std::cmp::Ordering;

use serde_json::{Value as Json, json};

use super::fleet::Server;
use super::sums::{Count, Figures, Gauge};

/// What stands in a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// Nothing is known.
    Missing,
    /// So many, or so many a second.
    Number(f64),
    Bytes(f64),
    /// A part of 1.
    Ratio(f64),
    Secs(u64),
    Text(String),
}

impl Cell {
    fn of(value: Option<f64>, kind: fn(f64) -> Cell) -> Cell {
        value.map_or(Cell::Missing, kind)
    }

    /// As people read it, in few characters.
    pub(super) fn text(&self) -> String {
        match self {
            Cell::Missing => "-".to_owned(),
            Cell::Number(number) => short(*number, 1000.0, ["k", "M", "G", "T", "P", "E"]),
            Cell::Bytes(bytes) => short(*bytes, 1024.0, ["K", "M", "G", "T", "P", "E"]),
            Cell::Ratio(ratio) => format!("{:.1}", 100.0 * ratio),
            Cell::Secs(secs) => span(*secs),
            Cell::Text(text) => text.clone(),
        }
    }

    fn json(&self) -> Json {
        match self {
            Cell::Missing => Json::Null,
            // What has no fraction is told without.
            Cell::Number(number) | Cell::Bytes(number) if number.fract() == 0.0 && *number < 1e15 => {
                json!(*number as u64)
            }
            Cell::Number(number) | Cell::Bytes(number) | Cell::Ratio(number) => json!(number),
            Cell::Secs(secs) => json!(secs),
            Cell::Text(text) => json!(text),
        }
    }

    /// The order of cells of one column, small ones first.
    fn compare(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Text(left), Cell::Text(right)) => left.cmp(right),
            (Cell::Secs(left), Cell::Secs(right)) => left.cmp(right),
            (
                Cell::Number(left) | Cell::Bytes(left) | Cell::Ratio(left),
                Cell::Number(right) | Cell::Bytes(right) | Cell::Ratio(right),
            ) => left.total_cmp(right),
            _ => Ordering::Equal,
        }
    }
}

/// Whose cells are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    figures: &'a Figures,
    server: Option<&'a Server>,
}

impl<'a> Row<'a> {
    /// A server's; `None` while it does not answer.
    pub(super) fn of_server(server: &'a Server) -> Option<Row<'a>> {
        let figures = server.figures()?;
        Some(Row {
            figures,
            server: Some(server),
        })
    }

    /// That of all together: without what is a server's alone.
    pub(super) fn of_all(figures: &'a Figures) -> Row<'a> {
        Row {
            figures,
            server: None,
        }
    }

    fn of_sample(&self, cell: impl Fn(&'a Server) -> Option<Cell>) -> Cell {
        self.server.and_then(cell).unwrap_or(Cell::Missing)
    }
}

/// A column.
pub(super) struct Column {
    /// Its name in JSON.
    pub(super) name: &'static str,
    /// What stands above it.
    pub(super) title: &'static str,
    /// What it is, for help.
    pub(super) about: &'static str,
    pub(super) width: usize,
    cell: fn(&Row<'_>) -> Cell,
}

/// All columns but the server's name; the first ones stay when there is little room.
pub(super) const COLUMNS: [Column; 15] = [
    Column {
        name: "requests_per_sec",
        title: "REQ/S",
        about: "requests a second, by key",
        width: 6,
        cell: |row| Cell::of(row.figures.rate(Count::Requests), Cell::Number),
    },
    Column {
        name: "hit_ratio",
        title: "HIT%",
        about: "hits in all look-ups of late",
        width: 5,
        cell: |row| Cell::of(row.figures.hit_ratio(), Cell::Ratio),
    },
    Column {
        name: "sets_per_sec",
        title: "SET/S",
        about: "stores a second",
        width: 6,
        cell: |row| Cell::of(row.figures.rate(Count::Sets), Cell::Number),
    },
    Column {
        name: "evictions_per_sec",
        title: "EVICT/S",
        about: "evictions a second",
        width: 7,
        cell: |row| Cell::of(row.figures.rate(Count::Evictions), Cell::Number),
    },
    Column {
        name: "memory_ratio",
        title: "MEM%",
        about: "part of -m that items take",
        width: 5,
        cell: |row| Cell::of(row.figures.memory_ratio(), Cell::Ratio),
    },
    Column {
        name: "curr_items",
        title: "ITEMS",
        about: "items now",
        width: 6,
        cell: |row| Cell::Number(row.figures.gauge(Gauge::Items) as f64),
    },
    Column {
        name: "curr_connections",
        title: "CONNS",
        about: "connections, this one too",
        width: 5,
        cell: |row| Cell::Number(row.figures.gauge(Gauge::Connections) as f64),
    },
    Column {
        name: "bytes_read_per_sec",
        title: "IN/S",
        about: "bytes received a second",
        width: 6,
        cell: |row| Cell::of(row.figures.rate(Count::BytesRead), Cell::Bytes),
    },
    Column {
        name: "bytes_written_per_sec",
        title: "OUT/S",
        about: "bytes sent a second",
        width: 6,
        cell: |row| Cell::of(row.figures.rate(Count::BytesWritten), Cell::Bytes),
    },
    Column {
        name: "gets_per_sec",
        title: "GET/S",
        about: "keys asked for a second",
        width: 6,
        cell: |row| Cell::of(row.figures.rate(Count::Gets), Cell::Number),
    },
    Column {
        name: "bytes",
        title: "MEM",
        about: "bytes that items take",
        width: 6,
        cell: |row| Cell::Bytes(row.figures.gauge(Gauge::Bytes) as f64),
    },
    Column {
        name: "limit_maxbytes",
        title: "LIMIT",
        about: "bytes of -m",
        width: 6,
        cell: |row| Cell::Bytes(row.figures.gauge(Gauge::BytesMax) as f64),
    },
    Column {
        name: "reply_ms",
        title: "REPLY",
        about: "ms until it had answered",
        width: 6,
        cell: |row| row.of_sample(|server| Some(Cell::Number(server.nanos as f64 / 1e6))),
    },
    Column {
        name: "uptime",
        title: "UPTIME",
        about: "time since its start",
        width: 7,
        cell: |row| row.of_sample(|server| Some(Cell::Secs(server.now.as_ref()?.uptime_secs()))),
    },
    Column {
        name: "version",
        title: "VERSION",
        about: "its version",
        width: 15,
        cell: |row| row.of_sample(|server| Some(Cell::Text(server.version()))),
    },
];

impl Column {
    pub(super) fn cell(&self, row: &Row<'_>) -> Cell {
        (self.cell)(row)
    }
}

/// The cells of a row by the columns' names, and what it counted since the start.
pub(super) fn json(row: &Row<'_>) -> serde_json::Map<String, Json> {
    let cells = COLUMNS
        .iter()
        .filter(|column| row.server.is_some() || !["reply_ms", "uptime", "version"].contains(&column.name))
        .map(|column| (column.name.to_owned(), column.cell(row).json()));
    let mut object: serde_json::Map<String, Json> = cells.collect();
    let counts = super::sums::COUNTS.iter().zip(row.figures.counts());
    let counts = counts.map(|((name, _), count)| ((*name).to_owned(), json!(count)));
    object.insert("since_start".to_owned(), Json::Object(counts.collect()));
    object
}

/// Places of `servers` in the order of a column; `None` is the name. Those that do not answer come last.
pub(super) fn order(servers: &[Server], column: Option<usize>, is_descending: bool) -> Vec<usize> {
    let cell = |server: &Server| match column {
        None => Cell::Text(server.name.clone()),
        Some(column) => Row::of_server(server).map_or(Cell::Missing, |row| COLUMNS[column].cell(&row)),
    };
    let cells: Vec<Cell> = servers.iter().map(cell).collect();
    let mut order: Vec<usize> = (0..servers.len()).collect();
    order.sort_by(|&left, &right| {
        let (left, right) = (&cells[left], &cells[right]);
        let missing = (*left == Cell::Missing).cmp(&(*right == Cell::Missing));
        let compared = left.compare(right);
        missing.then(if is_descending {
            compared.reverse()
        } else {
            compared
        })
    });
    order
}

/// `text` in `width` characters: cut with a mark, or filled up at its end.
pub(super) fn left(text: &str, width: usize) -> String {
    if text.chars().count() > width {
        let kept: String = text.chars().take(width.saturating_sub(1)).collect();
        return format!("{kept}…");
    }
    format!("{text:width$}")
}

/// As [`left`], filled up in front.
pub(super) fn right(text: &str, width: usize) -> String {
    let pad = width.saturating_sub(text.chars().count());
    format!("{}{}", " ".repeat(pad), left(text, width - pad))
}

/// At most six characters for what is below 10^21.
fn short(number: f64, base: f64, units: [&str; 6]) -> String {
    if number < 9.95 && number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    if number < 9999.5 {
        return format!("{number:.0}");
    }
    let mut rest = number;
    let mut unit = "";
    for larger in units {
        if rest < 999.5 {
            break;
        }
        rest /= base;
        unit = larger;
    }
    match rest {
        rest if rest < 9.995 => format!("{rest:.2}{unit}"),
        rest if rest < 99.95 => format!("{rest:.1}{unit}"),
        rest => format!("{rest:.0}{unit}"),
    }
}

/// The two largest units of a time.
pub(super) fn span(secs: u64) -> String {
    let (minutes, hours, days) = (secs / 60, secs / 3_600, secs / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{secs}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", secs % 60),
        (0, ..) => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Cell, left, order, right, span};
    use crate::cmd::top::fleet::Fleet;
    use crate::cmd::top::fleet::tests::{reading, stats};

    #[test]
    fn numbers_are_short_and_three_digits_true() {
        for (number, text) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (9.96, "10"),
            (7.0, "7"),
            (9999.4, "9999"),
            (9999.6, "10.0k"),
            (123_456.0, "123k"),
            (999_600.0, "1.00M"),
            (1_234_567.0, "1.23M"),
            (u64::MAX as f64, "18.4E"),
        ] {
            assert_eq!(Cell::Number(number).text(), text);
        }
        assert_eq!(Cell::Bytes(1024.0 * 1024.0 * 1.5).text(), "1.50M");
        assert_eq!(Cell::Ratio(0.98765).text(), "98.8");
        assert_eq!(Cell::Missing.text(), "-");
        for (secs, text) in [(59, "59s"), (61, "1m01s"), (3_700, "1h01m"), (90_000, "1d01h")] {
            assert_eq!(span(secs), text);
        }
    }

    #[test]
    fn texts_fill_their_width() {
        assert_eq!(left("abc", 5), "abc  ");
        assert_eq!(left("abcdef", 5), "abcd…");
        assert_eq!(right("abc", 5), "  abc");
        assert_eq!(right("abcdef", 5), "abcd…");
        for column in COLUMNS {
            assert!(column.title.len() <= column.width, "{}", column.title);
        }
    }

    #[test]
    fn any_column_gives_an_order_with_the_silent_at_the_end() {
        let names = ["b:1", "a:1", "c:1", "d:1"].map(str::to_owned);
        let mut fleet = Fleet::new(&names);
        for (server, rate) in [(0, 30), (1, 10), (2, 20)] {
            fleet.take(reading(server, 1, Ok(stats(10, rate))));
            fleet.take(reading(server, 2, Ok(stats(11, rate))));
        }
        let servers = &fleet.servers;
        assert_eq!(order(servers, None, false), [1, 0, 2, 3]);
        assert_eq!(order(servers, Some(0), true), [0, 2, 1, 3]);
        assert_eq!(order(servers, Some(0), false), [1, 2, 0, 3]);
        for column in 0..COLUMNS.len() {
            assert_eq!(order(servers, Some(column), true).last(), Some(&3));
        }
    }
}
