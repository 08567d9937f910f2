//! `scrubjay get`, `set`, `delete`, `touch`: items of a server, for hands and scripts. They speak the meta protocol, so any
//! memcached from 1.6 on understands them; a key that would break a line goes as base64.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use scrubjay_protocol::limits::KEY_LEN_MAX;
use serde_json::{Value, json};

use super::connection::{Connection, exptime, server_args};

/// Exit status when an item was not found or not stored.
const MISSED: u8 = 1;

/// Exit status when the server cannot be asked, or refuses.
const UNUSABLE: u8 = 2;

/// The subcommands.
pub fn commands() -> [Command; 4] {
    let keys = || {
        let keys = Arg::new("keys").required(true).num_args(1..);
        keys.value_name("KEY").value_parser(value_parser!(OsString))
    };
    let key = || {
        let key = Arg::new("keys").required(true).value_name("KEY");
        key.value_parser(value_parser!(OsString))
    };
    let seconds = value_parser!(u32);
    [
        Command::new("get")
            .about("Print the values of keys of a server: exit status 0, 1 if one is not there, 2 if it cannot be asked")
            .arg(keys().help("Keys; a line feed follows each value if there are several"))
            .arg(
                Arg::new("json")
                    .long("json")
                    .action(ArgAction::SetTrue)
                    .help("Print one JSON object a key, with flags and ttl; a value that is no text as value_base64"),
            ),
        Command::new("set")
            .about("Store a value in a server: exit status 0, 1 if it was not stored, 2 if it cannot be asked")
            .arg(key().help("Key"))
            .arg(
                Arg::new("value")
                    .value_name("VALUE")
                    .default_value("-")
                    .value_parser(value_parser!(OsString))
                    .help("The value; - reads it from standard input"),
            )
            .arg(
                Arg::new("ttl")
                    .long("ttl")
                    .value_name("SECONDS")
                    .default_value("0")
                    .value_parser(seconds)
                    .help("How long it lives; 0 is without end"),
            )
            .arg(
                Arg::new("flags")
                    .long("flags")
                    .value_name("NUMBER")
                    .default_value("0")
                    .value_parser(value_parser!(u32))
                    .help("Client flags, kept with the value"),
            ),
        Command::new("delete")
            .about("Delete keys of a server: exit status 0, 1 if one is not there, 2 if it cannot be asked")
            .arg(keys().help("Keys")),
        Command::new("touch")
            .about("Give a key of a server another life: exit status 0, 1 if it is not there, 2 if it cannot be asked")
            .arg(key().help("Key"))
            .arg(
                Arg::new("ttl")
                    .required(true)
                    .value_name("TTL")
                    .value_parser(seconds)
                    .help("How many seconds it lives from now; 0 is without end"),
            ),
    ]
    .map(|command| command.args(server_args()))
}

/// Runs the subcommand `name`.
pub fn run(name: &str, matches: &ArgMatches) -> ExitCode {
    let keys: Vec<&[u8]> = matches
        .get_many::<OsString>("keys")
        .into_iter()
        .flatten()
        .map(|key| key.as_encoded_bytes())
        .collect();
    match act(name, matches, &keys) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(MISSED),
        Err(why) => {
            eprintln!("scrubjay {name}: {why}");
            ExitCode::from(UNUSABLE)
        }
    }
}

/// Whether everything was found or stored.
fn act(name: &str, matches: &ArgMatches, keys: &[&[u8]]) -> Result<bool, String> {
    let keys: Vec<Key<'_>> = keys.iter().map(|key| Key::new(key)).collect::<Result<_, _>>()?;
    // Read before anybody is asked to wait for it.
    let value = if name == "set" {
        value(matches)?
    } else {
        Vec::new()
    };
    let number = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or(0);
    let mut connection = Connection::of(matches)?;
    let mut all = true;
    for key in &keys {
        all &= match name {
            "get" => {
                let form = Form {
                    as_json: matches.get_flag("json"),
                    ends_line: keys.len() > 1 || std::io::stdout().is_terminal(),
                };
                get(&mut connection, key, &form)?
            }
            "set" => {
                let head = format!(
                    "ms {} {}{} T{} F{}",
                    key.word,
                    value.len(),
                    key.flag,
                    exptime(number("ttl")),
                    number("flags")
                );
                connection.put(&[head.as_bytes(), b"\r\n", &value]);
                // An empty line behind the value ends its block.
                key.outcome(&connection.ask("")?)?
            }
            "delete" => key.outcome(&connection.ask(&format!("md {}{}", key.word, key.flag))?)?,
            _ => {
                let life = exptime(number("ttl"));
                key.outcome(&connection.ask(&format!("mg {}{} T{life}", key.word, key.flag))?)?
            }
        };
    }
    Ok(all)
}

fn value(matches: &ArgMatches) -> Result<Vec<u8>, String> {
    let given = matches.get_one::<OsString>("value").expect("it has a default");
    if given != "-" {
        return Ok(given.as_encoded_bytes().to_vec());
    }
    let mut value = Vec::new();
    let read = std::io::stdin().read_to_end(&mut value);
    read.map_err(|why| format!("cannot read the value from standard input: {why}"))?;
    Ok(value)
}

/// A key, and how a line says it.
#[derive(Debug)]
struct Key<'a> {
    bytes: &'a [u8],
    word: String,
    flag: &'static str,
}

impl<'a> Key<'a> {
    fn new(bytes: &'a [u8]) -> Result<Key<'a>, String> {
        let plain = std::str::from_utf8(bytes).ok();
        let plain = plain.filter(|key| !key.bytes().any(|byte| byte <= b' ' || byte == 0x7f));
        let (word, flag) = match plain {
            Some(key) => (key.to_owned(), ""),
            None => (STANDARD.encode(bytes), " b"),
        };
        if word.is_empty() || word.len() > KEY_LEN_MAX {
            return Err(format!(
                "{:?} is no key: it takes {} bytes of a line, 1 to {KEY_LEN_MAX} are allowed",
                String::from_utf8_lossy(bytes),
                word.len()
            ));
        }
        Ok(Key { bytes, word, flag })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes).into_owned()
    }

    /// Whether the reply is a success; one that was not there is told.
    fn outcome(&self, reply: &str) -> Result<bool, String> {
        match reply.split(' ').next() {
            Some("HD") => Ok(true),
            Some("EN" | "NF") => {
                eprintln!("{}: not found", self.text());
                Ok(false)
            }
            Some("NS") => {
                eprintln!("{}: not stored", self.text());
                Ok(false)
            }
            _ => Err(format!("the server answered {reply:?}")),
        }
    }
}

/// How values are printed.
struct Form {
    as_json: bool,
    ends_line: bool,
}

fn get(connection: &mut Connection, key: &Key<'_>, form: &Form) -> Result<bool, String> {
    let head = connection.ask(&format!("mg {}{} v f t", key.word, key.flag))?;
    let mut words = head.split(' ');
    if words.next() != Some("VA") {
        return key.outcome(&head);
    }
    let len = words.next().and_then(|word| word.parse::<usize>().ok());
    let len = len.ok_or_else(|| format!("the server answered {head:?}"))?;
    let flag = |letter| {
        let mut flags = head.split(' ').skip(2);
        flags.find_map(|word| word.strip_prefix(letter)?.parse::<i64>().ok())
    };
    let value = connection.read_block(len)?;
    let mut out = if form.as_json {
        let mut object = json!({ "key": key.text(), "flags": flag('f'), "ttl": flag('t') });
        match std::str::from_utf8(value) {
            Ok(text) => object["value"] = Value::from(text),
            Err(_) => object["value_base64"] = Value::from(STANDARD.encode(value)),
        }
        object.to_string().into_bytes()
    } else {
        value.to_vec()
    };
    if form.as_json || form.ends_line {
        out.push(b'\n');
    }
    let mut stdout = std::io::stdout();
    let written = stdout.write_all(&out).and_then(|()| stdout.flush());
    written.map_err(|why| format!("cannot write: {why}"))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn keys_that_break_a_line_go_as_base64_and_long_ones_nowhere() {
        let check = |key: &[u8], word: &str, flag: &str| {
            let key = Key::new(key).expect("a key");
            assert_eq!((key.word.as_str(), key.flag), (word, flag));
        };
        check(b"plain:1", "plain:1", "");
        check("schlüssel".as_bytes(), "schlüssel", "");
        check(b"two words", "dHdvIHdvcmRz", " b");
        check(b"\xff\x00", "/wA=", " b");
        assert!(Key::new(&[b'k'; 250]).is_ok());
        assert!(Key::new(&[0; 186]).is_ok());
        for key in [&[][..], &[b'k'; 251], &[0; 189]] {
            let why = Key::new(key).expect_err("no key");
            assert!(why.contains("1 to 250"), "{why}");
        }
    }
}
