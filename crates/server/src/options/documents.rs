//! What is written about the options: `stats settings` and the tables of the documents.

use super::row::{Effect, Row};
use super::table::FIXED_SETTINGS;
use super::{Options, ROWS};

/// The lines of `stats settings`: name and value.
pub fn settings(options: &Options) -> Vec<(&'static str, String)> {
    let fixed = FIXED_SETTINGS.iter().map(|(name, show)| (*name, show(options)));
    let rows = ROWS.iter().filter(|row| !row.stat.is_empty());
    rows.map(|row| (row.stat, setting(row, options)))
        .chain(fixed)
        .collect()
}

/// The lines that follow them: where each value came from.
pub fn origins(options: &Options) -> impl Iterator<Item = (String, String)> {
    let rows = ROWS.iter().filter(|row| !row.stat.is_empty());
    rows.map(|row| (format!("origin_{}", row.stat), options.origin(row.name).text(row)))
}

fn setting(row: &Row, options: &Options) -> String {
    match row.show {
        Some(show) => show(options),
        None if row.many && options.given(row.name).is_some() => options.texts(row).join(","),
        None if row.default.is_empty() => options.given(row.name).unwrap_or("(null)").to_owned(),
        None => options.given(row.name).unwrap_or(row.default).to_owned(),
    }
}

/// The options that change while the server runs, in Markdown.
pub fn live_markdown() -> String {
    let mut text =
        String::from("| in the file | on the command line | in `stats settings` |\n|---|---|---|\n");
    for row in ROWS.iter().filter(|row| row.live.is_some()) {
        let stat = match row.stat {
            "" => String::new(),
            stat => format!("`{stat}`"),
        };
        text.push_str(&format!("| `{}` | `{}` | {stat} |\n", row.long(), row.spelling()));
    }
    text
}

/// The table of all options in Markdown, one row an option.
pub fn markdown() -> String {
    let mut text = String::from(
        "| option | long | value | default | what it does | live | compared with memcached |\n|---|---|---|---|---|---|---|\n",
    );
    for row in ROWS {
        let compared = match row.effect {
            Effect::Same => "same".to_owned(),
            Effect::Differs(how) => format!("differs: {how}"),
            Effect::None(why) => format!("no effect: {why}"),
            Effect::Refused(why) => format!("refused: {why}"),
        };
        let long = match row.negatable {
            true => format!("`--{0}`, `--no-{0}`", row.long()),
            false => format!("`--{}`", row.long()),
        };
        let value = match (row.kind.value_name(), row.kind.range()) {
            ("", _) => String::new(),
            (name, range) if range.is_empty() => name.replace('|', "/"),
            (name, range) => format!("{name}: {range}"),
        };
        let cells = [
            format!("`{}`", row.spelling()),
            long,
            value,
            row.default.to_owned(),
            row.help.to_owned(),
            if row.live.is_some() { "yes" } else { "" }.to_owned(),
            compared,
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}
