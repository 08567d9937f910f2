//! `docs/client/options.md` has the options as the table has them. `cargo xtask docs` runs this with `SCRUBJAY_WRITE_DOCS` set: then it writes them.

use std::fmt::Write;
use std::path::Path;

use scrubjay_client::Config;
use scrubjay_client::config::OPTIONS;

const START: &str = "<!-- generated: options of the client -->\n";
const END: &str = "<!-- end -->";

fn table() -> String {
    let defaults = Config::new(Vec::new());
    let mut text = "| option | takes | default | |\n|---|---|---|---|\n".to_owned();
    for row in OPTIONS {
        let default = match row.show(&defaults) {
            empty if empty.is_empty() => String::new(),
            shown => format!("`{shown}`"),
        };
        writeln!(
            text,
            "| `{}` | {} | {default} | {} |",
            row.name, row.wanted, row.help
        )
        .expect("text takes text");
    }
    text
}

#[test]
fn document_has_every_option_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/client/options.md");
    let old = std::fs::read_to_string(&path).expect("the document");
    let (before, rest) = old.split_once(START).expect("a mark");
    let (_, after) = rest.split_once(END).expect("its end");
    let new = format!("{before}{START}{}{END}{after}", table());
    if std::env::var_os("SCRUBJAY_WRITE_DOCS").is_some() {
        std::fs::write(&path, new).expect("writable");
    } else {
        assert!(
            old == new,
            "a generated part is not fresh: run `cargo xtask docs`"
        );
    }
}
