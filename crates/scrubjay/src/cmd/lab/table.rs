//! What an experiment found, as a table with a column for each server, or as JSON.

use indicatif::HumanCount;
use serde_json::{Map, json};

use crate::cmd::chart::{Chart, Series};

/// A cell of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Count(u64),
    /// Something measured, shown with two decimals.
    Real(f64),
    /// Hundredths, shown with two decimals and a sign.
    Percent(f64),
}

impl Cell {
    /// `part` of `whole`, in percent; of nothing, none.
    pub(crate) fn percent(part: u64, whole: u64) -> Cell {
        Cell::Percent(if whole == 0 {
            0.0
        } else {
            100.0 * part as f64 / whole as f64
        })
    }

    fn text(&self) -> String {
        match self {
            Cell::Count(count) => HumanCount(*count).to_string(),
            Cell::Real(value) => format!("{value:.2}"),
            Cell::Percent(value) => format!("{value:.2} %"),
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Cell::Count(count) => json!(count),
            Cell::Real(value) | Cell::Percent(value) => json!(value),
        }
    }
}

/// Rows under one title.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    title: String,
    rows: Vec<(String, Cell)>,
}

impl Section {
    pub(crate) fn new(title: impl Into<String>) -> Section {
        Section {
            title: title.into(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, name: impl Into<String>, cell: Cell) {
        self.rows.push((name.into(), cell));
    }

    pub(crate) fn count(&mut self, name: impl Into<String>, count: u64) {
        self.row(name, Cell::Count(count));
    }

    fn cell(&self, name: &str) -> Option<&Cell> {
        self.rows
            .iter()
            .find(|(row, _)| row == name)
            .map(|(_, cell)| cell)
    }
}

/// What an experiment found on one server.
#[derive(Clone, Debug)]
pub(crate) struct Findings {
    pub(crate) server: String,
    pub(crate) sections: Vec<Section>,
    pub(crate) chart: Chart,
}

impl Findings {
    /// The main series under the server's name.
    pub(crate) fn series(&self) -> Series<'_> {
        Series {
            name: &self.server,
            chart: &self.chart,
        }
    }

    fn section(&self, title: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.title == title)
    }
}

/// The table: every row that one of the servers has.
pub(crate) fn text(all: &[Findings]) -> String {
    let titles = in_order(
        all.iter()
            .flat_map(|one| &one.sections)
            .map(|section| section.title.as_str()),
    );
    let width = 22.max(all.iter().map(|one| one.server.len()).max().unwrap_or(0));
    let mut text = format!("{:<32}", "");
    for one in all {
        text += &format!(" {:>width$}", one.server);
    }
    text += "\n";
    for title in titles {
        text += &format!("{title}\n");
        let sections: Vec<_> = all.iter().map(|one| one.section(title)).collect();
        let rows = sections.iter().flatten().flat_map(|section| &section.rows);
        for name in in_order(rows.map(|(name, _)| name.as_str())) {
            text += &format!("  {name:<30}");
            for section in &sections {
                let cell = section.and_then(|section| section.cell(name));
                text += &format!(" {:>width$}", cell.map_or("-".to_owned(), Cell::text));
            }
            text += "\n";
        }
    }
    text
}

/// Each name once, where it first occurs.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut once = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    once
}

/// One JSON array, an object a server. Percentages are in hundredths.
pub(crate) fn json(all: &[Findings]) -> String {
    let objects: Vec<_> = all
        .iter()
        .map(|one| {
            let sections = one.sections.iter().map(|section| {
                let rows = section.rows.iter();
                let rows: Map<_, _> = rows.map(|(name, cell)| (identifier(name), cell.json())).collect();
                (identifier(&section.title), json!(rows))
            });
            json!({"server": one.server, "found": sections.collect::<Map<_, _>>(), "chart": one.chart.json()})
        })
        .collect();
    serde_json::to_string_pretty(&objects).expect("it is made of numbers and strings")
}

/// Lower case, with one `_` for whatever stands between words.
fn identifier(name: &str) -> String {
    let lower = name.to_lowercase().replace('%', "percent");
    let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("_")
}

#[cfg(test)]
mod tests {
    use super::{Cell, Findings, Section, identifier, json, text};
    use crate::cmd::chart::Chart;

    fn findings(server: &str, row: &str) -> Findings {
        let mut section = Section::new("#1: 3 items");
        section.count("Items", 63_000);
        section.row(row, Cell::percent(1, 4));
        Findings {
            server: server.to_owned(),
            sections: vec![section],
            chart: Chart::default(),
        }
    }

    #[test]
    fn servers_stand_side_by_side_and_a_row_of_one_only_has_a_dash() {
        let text = text(&[findings("one:1", "Waste"), findings("two:2", "Tail")]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines,
            [
                vec!["one:1", "two:2"],
                vec!["#1:", "3", "items"],
                vec!["Items", "63,000", "63,000"],
                vec!["Waste", "25.00", "%", "-"],
                vec!["Tail", "-", "25.00", "%"],
            ]
        );
    }

    #[test]
    fn json_has_plain_numbers_under_plain_names() {
        let value: serde_json::Value =
            serde_json::from_str(&json(&[findings("one:1", "Waste")])).expect("it is JSON");
        assert_eq!(value[0]["found"]["1_3_items"]["items"], 63_000);
        assert_eq!(value[0]["found"]["1_3_items"]["waste"], 25.0);
        assert_eq!(identifier("Waste, %"), "waste_percent");
    }
}
