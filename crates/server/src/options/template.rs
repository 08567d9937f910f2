//! Configuration files that are written: the one with every default, and what is in force.

use std::fmt::Write;

use super::file::{expected, has_place};
use super::row::{Effect, Kind, Row};
use super::{Options, Origin, ROWS};

/// Columns of a comment.
const WIDTH: usize = 100;

const HEAD: &str = "\
# Options of scrubjay, each with its default. Take the # away before what you change.
# The server reads this file if it is started with --config and its name; what the command line says goes before it.
# `scrubjay check FILE` looks for mistakes. kill -HUP reads the file again: what is marked `live` changes at once,
# the rest at the next start.
";

/// A file with every option that does something, as comments.
pub fn default_file() -> String {
    let mut text = HEAD.to_owned();
    let mut idle = Vec::new();
    for row in ROWS.iter().filter(|row| has_place(row)) {
        if matches!(row.effect, Effect::None(_) | Effect::Refused(_)) {
            idle.push(row.long());
            continue;
        }
        let live = if row.live.is_some() { " Live." } else { "" };
        let help = format!(
            "{} ({}). Takes {}.{live}",
            row.help,
            row.spelling(),
            expected(row)
        );
        text.push('\n');
        comment(&mut text, &help);
        let value = match default_of(row) {
            "" => example(row),
            default => toml_value(row, &[default]),
        };
        // Memory takes no error when it is written to.
        let _ = writeln!(text, "#{} = {value}", row.long());
    }
    text.push('\n');
    let idle = format!("Known and without effect: {}.", idle.join(", "));
    comment(&mut text, &idle);
    text
}

/// The default as it can be given; empty if there is none.
fn default_of(row: &Row) -> &'static str {
    match row.default {
        "NULL" => "",
        default => default,
    }
}

/// What stands for an option that has no default.
fn example(row: &Row) -> String {
    match row.kind {
        Kind::Flag(_) => "false".to_owned(),
        Kind::Count(_) => "0".to_owned(),
        Kind::Text { .. } if row.many => "[]".to_owned(),
        _ => "\"\"".to_owned(),
    }
}

fn comment(text: &mut String, words: &str) {
    let mut width = WIDTH + 1;
    for word in words.split(' ') {
        if width + word.len() + 1 > WIDTH {
            let start = if text.ends_with('\n') { "#" } else { "\n#" };
            text.push_str(start);
            width = 1;
        }
        text.push(' ');
        text.push_str(word);
        width += 1 + word.chars().count();
    }
    text.push('\n');
}

/// The options in force as a configuration file: a line an option with where it came from, defaults as comments.
pub fn in_force(options: &Options) -> String {
    let mut text = String::new();
    let is_idle = |row: &Row| matches!(row.effect, Effect::None(_) | Effect::Refused(_));
    for row in ROWS.iter().filter(|row| has_place(row)) {
        let origin = options.origin(row.name);
        if *origin == Origin::Default && is_idle(row) {
            continue;
        }
        let line = line(row, options);
        let _ = match origin {
            Origin::Default if line.ends_with(NOT_SET) => writeln!(text, "# {line}"),
            Origin::Default => writeln!(text, "# {line}  # default"),
            _ => writeln!(text, "{line}  # {}", origin.text(row)),
        };
    }
    text
}

const NOT_SET: &str = "is not set";

/// An option as a line of a file.
pub fn line(row: &Row, options: &Options) -> String {
    let name = row.long();
    let value = match (row.kind, &options.texts(row)[..], default_of(row)) {
        (Kind::Count(_), ..) => options.verbosity.to_string(),
        (Kind::Flag(_), [], "") => "false".to_owned(),
        (_, [], "") => return format!("{name} {NOT_SET}"),
        (_, [], default) => toml_value(row, &[default]),
        (_, given, _) => toml_value(row, given),
    };
    format!("{name} = {value}")
}

/// The texts of a row's values as TOML writes them.
fn toml_value(row: &Row, texts: &[&str]) -> String {
    let text = texts.last().copied().unwrap_or_default();
    let string = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let number = |text: &str| text.trim().parse::<i64>().map(|number| number.to_string());
    match row.kind {
        Kind::Flag(_) => matches!(text, "yes" | "on").to_string(),
        Kind::Number { .. } | Kind::Size { .. } => number(text).unwrap_or_else(|_| string(text)),
        Kind::Real { .. } => text
            .trim()
            .parse::<f64>()
            .map_or_else(|_| string(text), |number| format!("{number:?}")),
        Kind::Text { .. } if row.negatable && matches!(text, "yes" | "no") => (text == "yes").to_string(),
        Kind::Text { .. } if row.many => {
            let all: Vec<String> = texts.iter().map(|text| string(text)).collect();
            format!("[{}]", all.join(", "))
        }
        _ => string(text),
    }
}

#[cfg(test)]
mod tests {
    use super::default_file;
    use crate::options::File;

    #[test]
    fn the_default_file_is_in_order_with_every_default_written_out() {
        let text = default_file();
        File::parse("default", text.as_bytes()).expect("comments only");
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
        // What has no default is left out: an empty name is none.
        let plain = |line: &&str| line.starts_with('#') && !line.starts_with("# ") && !line.ends_with("\"\"");
        let lines: Vec<&str> = text.lines().filter(plain).map(|line| &line[1..]).collect();
        assert!(
            lines.len() > 30 && lines.contains(&"memory-limit = 64"),
            "{lines:?}"
        );
        let file = File::parse("default", lines.join("\n").as_bytes());
        file.unwrap_or_else(|error| panic!("{}", error.message));
    }
}
