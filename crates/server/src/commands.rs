//! The text commands as a document, read off the protocol's table.

use scrubjay_protocol::command::COMMANDS;

/// A Markdown table of all text commands.
pub fn markdown() -> String {
    let mut text =
        "| command | words of its line, itself among them | what it does |\n|---|---|---|\n".to_owned();
    for command in COMMANDS {
        let (least, most) = command.tokens;
        let words = match most {
            usize::MAX => format!("{least} or more"),
            _ if least == most => format!("{least}"),
            _ => format!("{least} to {most}"),
        };
        text.push_str(&format!("| `{}` | {words} | {} |\n", command.verb, command.doc));
    }
    text
}
