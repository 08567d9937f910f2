//! Where the value of an option came from, and what differs between two readings.

use std::sync::Arc;

use super::row::{Effect, Kind, Row};
use super::{Options, ROWS};

/// Where the value of an option came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    #[default]
    Default,
    /// The command line.
    Flag,
    /// A configuration file: its name and the line.
    File(Arc<str>, usize),
    /// What this machine allows; names it.
    Machine(&'static str),
    /// A command of a client, while the server ran.
    Command(&'static str),
}

impl Origin {
    /// For people, and for `stats settings`.
    pub fn text(&self, row: &Row) -> String {
        match self {
            Origin::Default => "default".to_owned(),
            Origin::Flag => format!("flag {}", row.spelling()),
            Origin::File(name, line) => format!("file {name}:{line}"),
            Origin::Machine(what) => format!("machine {what}"),
            Origin::Command(command) => format!("runtime command {command}"),
        }
    }
}

impl Options {
    /// Where the value of the option `name` came from.
    pub fn origin(&self, name: &str) -> &Origin {
        let last = self.origins.iter().rev().find(|(given, _)| *given == name);
        last.map_or(&Origin::Default, |(_, origin)| origin)
    }

    /// Notes that a client's `command` changed the option `name`.
    pub fn note_command(&mut self, name: &'static str, command: &'static str) {
        self.note_origin(name, Origin::Command(command));
    }

    pub(super) fn note_origin(&mut self, name: &'static str, origin: Origin) {
        self.origins.retain(|(noted, _)| *noted != name);
        self.origins.push((name, origin));
    }

    /// The texts that were given for an option: all of them where they add up, else the last one.
    pub(super) fn texts(&self, row: &Row) -> Vec<&str> {
        let given = self.given.iter().filter(|(name, _)| *name == row.name);
        let texts: Vec<&str> = given.map(|(_, text)| text.as_str()).collect();
        match row.many {
            true => texts,
            false => texts.last().copied().into_iter().collect(),
        }
    }

    /// A file was read again: where values came from is where they stand in it now. Values that commands have changed have not.
    pub fn renew_origins(&mut self, old: &Options, new: &Options) {
        let same = |row: &&Row| value(row, old) == value(row, new);
        for row in ROWS.iter().filter(same) {
            if self.origin(row.name) == old.origin(row.name) {
                self.note_origin(row.name, new.origin(row.name).clone());
            }
        }
    }

    /// Takes over from `new`, read while the server runs, what `row` sets.
    ///
    /// # Panics
    /// If the row is not live.
    pub fn take_over(&mut self, row: &Row, new: &Options) {
        let take = row.live.expect("the caller looked whether it is live");
        take(self, new);
        self.given.retain(|(name, _)| *name != row.name);
        let given = new.given.iter().filter(|(name, _)| *name == row.name);
        self.given.extend(given.cloned());
        self.note_origin(row.name, new.origin(row.name).clone());
    }
}

/// The value of an option, for people.
fn value(row: &Row, options: &Options) -> String {
    match row.show {
        Some(show) => show(options),
        None => options.texts(row).join(","),
    }
}

/// The options that are not the same in `new` as in `old`, without those that have no effect.
pub fn changed(old: &Options, new: &Options) -> Vec<&'static Row> {
    let has_effect = |row: &&Row| row.live.is_some() || !matches!(row.effect, Effect::None(_));
    // One may be written otherwise and be the same, and one may follow from another without having been touched.
    let was_touched = |row: &Row| matches!(row.kind, Kind::Count(_)) || old.texts(row) != new.texts(row);
    ROWS.iter()
        .filter(has_effect)
        .filter(|row| value(row, old) != value(row, new) && was_touched(row))
        .collect()
}
