//! `scrubjay why`: asks a scrubjay server where keys are or why they are gone, and says it in a sentence.

use std::collections::HashMap;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use super::connection::{Connection, server_args};

/// Exit status when the server cannot be asked.
const UNUSABLE: u8 = 2;

/// Longest key of the protocol.
const KEY_LEN_MAX: usize = 250;

/// The subcommand.
pub fn command() -> Command {
    Command::new("why")
        .about("Say where keys are in a scrubjay server, or why they are gone")
        .arg(
            Arg::new("keys")
                .required(true)
                .num_args(1..)
                .value_name("KEY")
                .help("Keys, as clients send them"),
        )
        .args(server_args())
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print one JSON object a key"),
        )
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let keys = matches.get_many::<String>("keys").into_iter().flatten();
    let as_json = matches.get_flag("json");
    let answers = Connection::of(matches).and_then(|mut connection| {
        keys.map(|key| ask(&mut connection, key).map(|answer| (key, answer)))
            .collect::<Result<Vec<_>, _>>()
    });
    match answers {
        Ok(answers) => {
            for (key, answer) in answers {
                if as_json {
                    println!("{}", answer.json(key));
                } else {
                    println!("{key}: {}", answer.sentence());
                }
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("scrubjay why: {why}");
            ExitCode::from(UNUSABLE)
        }
    }
}

/// A server's answer: its state and its facts.
#[derive(Debug)]
struct Answer {
    state: String,
    facts: HashMap<String, String>,
}

fn ask(connection: &mut Connection, key: &str) -> Result<Answer, String> {
    if key.is_empty() || key.len() > KEY_LEN_MAX || key.bytes().any(|byte| byte <= b' ') {
        return Err(format!(
            "{key:?} is no key: 1 to {KEY_LEN_MAX} bytes without blanks"
        ));
    }
    let reply = connection.ask(&format!("why {key}"))?;
    parse(&reply).ok_or_else(|| {
        format!("the server answered {reply:?}; is it scrubjay? memcached does not know the command")
    })
}

fn parse(reply: &str) -> Option<Answer> {
    let mut words = reply.strip_prefix("WHY ")?.split(' ').skip(1);
    let state = words.next()?.to_owned();
    let fact = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    Some(Answer {
        state,
        facts: words.filter_map(fact).collect(),
    })
}

impl Answer {
    fn fact(&self, name: &str) -> &str {
        self.facts.get(name).map_or("?", String::as_str)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.fact(name).parse().ok()
    }

    fn json(&self, key: &str) -> Value {
        let mut object = json!({ "key": key, "state": self.state });
        for (name, text) in &self.facts {
            object[name] = text.parse::<i64>().map_or(json!(text), |number| json!(number));
        }
        object
    }

    fn reads(&self) -> String {
        match self.number("reads") {
            Some(0) => "never read".to_owned(),
            Some(1) => "read once".to_owned(),
            Some(reads) => format!("read {reads} times or more"),
            None => "reads unknown".to_owned(),
        }
    }

    fn life(&self, what: &str) -> String {
        match self.number("ttl") {
            Some(-1) => "without an expiry time".to_owned(),
            _ => format!("{} s {what}", self.fact("ttl")),
        }
    }

    fn sentence(&self) -> String {
        match self.state.as_str() {
            "present" => format!(
                "is here: {} bytes ({} of value), {}, {}, last used {} s ago, in segment {}",
                self.fact("bytes"),
                self.fact("value"),
                self.life("to live"),
                self.reads(),
                self.fact("la"),
                self.fact("segment"),
            ),
            "gone" => format!(
                "is gone: {} {} s ago; it had {} bytes, {}, and was {}",
                self.fact("cause").replace('_', " "),
                self.fact("ago"),
                self.fact("bytes"),
                self.life("left to live"),
                self.reads(),
            ),
            _ => format!(
                "is not here and did not leave within the last {} s: never stored, or gone before that (a wrong match is \
                 less likely than 1 in 10^9)",
                self.fact("not_for"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn answers_become_sentences() {
        let check = |reply: &str, says: &[&str]| {
            let sentence = parse(reply).expect("an answer").sentence();
            says.iter()
                .for_each(|words| assert!(sentence.contains(words), "{sentence}"));
        };
        check(
            "WHY k present bytes=28 value=5 ttl=-1 la=3 placed=9 fetch=yes reads=4 segment=12",
            &[
                "is here",
                "28 bytes",
                "without an expiry",
                "4 times or more",
                "segment 12",
            ],
        );
        check(
            "WHY k gone cause=limit_lowered ago=7 bytes=99 ttl=60 reads=0",
            &["limit lowered 7 s ago", "60 s left to live", "never read"],
        );
        check("WHY k unknown not_for=50", &["last 50 s"]);
        assert!(parse("ERROR").is_none());
    }
}
