//! A configuration file: options by their long names, in TOML. The server names one with `--config`, none is looked for.
//!
//! Read by the option table, so that there is nothing to add here for a new option. A file is refused as a whole, with every
//! mistake in it; what it says comes to the same as on the command line, which goes before it.

use std::sync::Arc;

use clap::ArgMatches;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::parse::{nearest, set};
use super::row::{Kind, Row};
use super::{EXIT_USAGE, OptionError, Options, Origin, ROWS};

/// Longest file that is read.
pub const FILE_LEN_MAX: usize = 1 << 20;

/// Most that `verbose` may be; as much as is ever said.
const VERBOSITY_MAX: u8 = 3;

/// A file that is in order by itself.
#[derive(Clone, Debug)]
pub struct File {
    name: Arc<str>,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    row: &'static Row,
    value: Value,
    line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Switch(bool),
    Times(u8),
    Texts(Vec<String>),
}

/// The file that the command line names.
pub fn path(matches: &ArgMatches) -> Option<&str> {
    matches
        .get_many::<String>("config")?
        .next_back()
        .map(String::as_str)
}

impl File {
    /// Reads the text of the file `name`.
    ///
    /// # Errors
    /// Every mistake with line and column, what is expected, and what may have been meant.
    pub fn parse(name: &str, text: &[u8]) -> Result<File, OptionError> {
        let refuse = |why: String| OptionError::new(EXIT_USAGE, why);
        let text = std::str::from_utf8(text).map_err(|error| {
            let (line, column) = position(text, error.valid_up_to());
            refuse(format!("{name}:{line}:{column}: this is not UTF-8 text"))
        })?;
        let at = |offset: usize| {
            let (line, column) = position(text.as_bytes(), offset);
            (line, format!("{name}:{line}:{column}"))
        };
        let table = DeTable::parse(text).map_err(|error| {
            let (_, place) = at(error.span().map_or(0, |span| span.start));
            refuse(format!("{place}: not TOML: {}", error.message()))
        })?;
        let mut lines: Vec<_> = table.get_ref().iter().collect();
        lines.sort_by_key(|(key, _)| key.span().start);
        let mut mistakes = Vec::new();
        let mut file = File {
            name: name.into(),
            entries: Vec::new(),
        };
        for (key, value) in lines {
            let (line, key_place) = at(key.span().start);
            let (_, value_place) = at(value.span().start);
            match file.take(line, key.get_ref(), value) {
                Ok(()) => {}
                Err(Mistake::Key(why)) => {
                    mistakes.push(format!("{key_place}: {key}: {why}", key = key.get_ref()))
                }
                Err(Mistake::Value(why)) => {
                    mistakes.push(format!("{value_place}: {key}: {why}", key = key.get_ref()));
                }
            }
        }
        match mistakes.is_empty() {
            true => Ok(file),
            false => Err(refuse(mistakes.join("\n"))),
        }
    }

    /// Takes one line, if it is in order by itself.
    fn take(&mut self, line: usize, key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), Mistake> {
        let row = row_of(key, value.get_ref())?;
        if let Some(other) = self.entries.iter().find(|entry| entry.row.name == row.name) {
            let other = other.line;
            return Err(Mistake::Key(format!(
                "stands in line {other} too; leave one of them out"
            )));
        }
        let value = read(row, value.get_ref()).ok_or_else(|| {
            let found = value.get_ref().type_str();
            Mistake::Value(format!("takes {}, not a value of type {found}", expected(row)))
        })?;
        let entry = Entry { row, value, line };
        // Even what the command line will override has to be right.
        entry
            .apply(&mut Options::default(), &self.name)
            .map_err(Mistake::Value)?;
        self.entries.push(entry);
        Ok(())
    }

    /// Puts what the file says into `options`, but for what `is_given` elsewhere, which goes before it.
    pub(super) fn apply(
        &self,
        options: &mut Options,
        is_given: impl Fn(&Row) -> bool,
    ) -> Result<(), OptionError> {
        for entry in self.entries.iter().filter(|entry| !is_given(entry.row)) {
            entry.apply(options, &self.name).map_err(|why| {
                let (name, line) = (&self.name, entry.line);
                OptionError::new(EXIT_USAGE, format!("{name}:{line}: {}: {why}", entry.row.long()))
            })?;
        }
        Ok(())
    }
}

impl Entry {
    fn apply(&self, options: &mut Options, file: &Arc<str>) -> Result<(), String> {
        let row = self.row;
        let name = row.long();
        let mut put = |text, on| set(options, row, text, on, &name);
        match &self.value {
            // Left as it is by default, without the word that turns it on.
            Value::Switch(false) if !row.negatable => {}
            Value::Switch(on) => put(None, *on)?,
            Value::Times(times) => options.verbosity = *times,
            Value::Texts(texts) => texts.iter().try_for_each(|text| put(Some(text), true))?,
        }
        options.note_origin(row.name, Origin::File(Arc::clone(file), self.line));
        Ok(())
    }
}

/// Why a line is refused.
enum Mistake {
    /// Its key is wrong.
    Key(String),
    /// Its value is.
    Value(String),
}

/// Whether an option may stand in a file.
pub(super) fn has_place(row: &Row) -> bool {
    !matches!(row.kind, Kind::Print | Kind::Extended) && row.name != "config"
}

fn row_of(key: &str, value: &DeValue<'_>) -> Result<&'static Row, Mistake> {
    let wanted = key.replace('_', "-");
    let rows = || ROWS.iter().filter(|row| has_place(row));
    if let Some(row) = rows().find(|row| row.long() == wanted) {
        return Ok(row);
    }
    let why = match key {
        _ if value.is_table() => {
            "there are no sections; write every option at the top of the file".to_owned()
        }
        "config" => "a file names no other file; put everything into one".to_owned(),
        "extended" => "write what stands behind -o as options of their own".to_owned(),
        _ => {
            let switched =
                |row: &&Row| row.negatable && wanted.strip_prefix("no-") == Some(row.long().as_str());
            let lettered = |row: &&Row| row.short.is_some_and(|short| wanted == short.to_string());
            let near = match (rows().find(switched), rows().find(lettered)) {
                (Some(row), _) => Some(format!("{} = false", row.long())),
                (None, Some(row)) => Some(row.long()),
                (None, None) => nearest(&wanted, rows().map(Row::long)),
            };
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            format!("unknown option{near} (`scrubjay config` lists them all)")
        }
    };
    Err(Mistake::Key(why))
}

/// The value in the form that its row takes; `None` if it is of a wrong type.
fn read(row: &Row, value: &DeValue<'_>) -> Option<Value> {
    let one = |text: String| Some(Value::Texts(vec![text]));
    let number = |value: &DeValue<'_>| {
        let DeValue::Integer(digits) = value else {
            return None;
        };
        i64::from_str_radix(digits.as_str(), digits.radix()).ok()
    };
    match (row.kind, value) {
        (Kind::Flag(_), DeValue::Boolean(on)) => Some(Value::Switch(*on)),
        (Kind::Text { .. }, DeValue::Boolean(on)) if row.negatable => Some(Value::Switch(*on)),
        (Kind::Count(_), DeValue::Integer(_)) => {
            let times = u8::try_from(number(value)?).ok();
            times.filter(|times| *times <= VERBOSITY_MAX).map(Value::Times)
        }
        (Kind::Number { .. } | Kind::Size { .. }, DeValue::Integer(_)) => one(number(value)?.to_string()),
        (Kind::Real { .. }, DeValue::Integer(_)) => one(number(value)?.to_string()),
        (Kind::Real { .. }, DeValue::Float(number)) => one(number.as_str().to_owned()),
        // As it is written, so that 0o700 is not taken for decimal.
        (Kind::Text { .. }, DeValue::Integer(digits)) => one(digits.to_string()),
        (Kind::Size { .. } | Kind::Choice { .. } | Kind::Text { .. }, DeValue::String(text)) => {
            one(text.to_string())
        }
        (Kind::Text { .. }, DeValue::Array(list)) if row.many => {
            let text = |value: &Spanned<DeValue<'_>>| value.get_ref().as_str().map(str::to_owned);
            list.iter().map(text).collect::<Option<_>>().map(Value::Texts)
        }
        _ => None,
    }
}

/// What a row takes, for people.
pub(super) fn expected(row: &Row) -> String {
    let range = row.kind.range();
    match row.kind {
        Kind::Flag(_) => "true or false".to_owned(),
        Kind::Count(_) => format!("a number, 0 to {VERBOSITY_MAX}"),
        Kind::Number { unit: "", .. } => format!("a whole number, {range}"),
        Kind::Number { unit, .. } => format!("a whole number of {unit}, {range}"),
        Kind::Size { unit, .. } => {
            let unit = if unit == 1 { "bytes" } else { "megabytes" };
            format!("a size such as \"64m\" or a number of {unit}, {range}")
        }
        Kind::Real { .. } => format!("a number {range}"),
        Kind::Choice { words, .. } => {
            let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            words.join(", ")
        }
        Kind::Text { value_name, .. } if row.many => {
            format!("a string ({value_name}) or a list of such")
        }
        Kind::Text { value_name, .. } => format!("a string ({value_name})"),
        Kind::Extended | Kind::Print => String::new(),
    }
}

/// Line and column, from 1, of the byte at `offset`.
fn position(text: &[u8], offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line_start = before
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    (
        line,
        String::from_utf8_lossy(&before[line_start..]).chars().count() + 1,
    )
}

#[cfg(test)]
mod tests;
