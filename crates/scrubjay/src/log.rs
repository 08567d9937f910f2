//! The log of the server: lines on standard error, for people and for machines.
//!
//! A line has a time, a level and a text; numbers that a machine may want stand behind it as `key=value`. How a line is dressed
//! depends on who reads: a terminal has no need of the time, and systemd's journal has one of its own and takes the level
//! as a prefix. A library of logging would bring filters and sinks that nobody here asks for; this is one file.
//!
//! Levels: errors, warnings and notices (start, stop, what was read again) are always told; `-v` adds what the server does by
//! itself, `-vv` connections. What repeats is told once a minute, with how often it was.

use std::fmt::{Display, Write as _};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock};

use scrubjay_io::{process, terminal};
use scrubjay_net::{Peer, Reason};
use scrubjay_server::options::LogFormat;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something that was asked for does not work.
    Error,
    /// Something needs to be looked at; says what to do.
    Warning,
    /// What an operator wants to know of every server.
    Notice,
    /// What the server does by itself (`-v`).
    Info,
    /// Connections and memory in detail (`-vv`).
    Debug,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Notice => "notice",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }

    /// As syslog counts, for the journal.
    fn priority(self) -> u8 {
        3 + self as u8
    }

    fn verbosity(self) -> u8 {
        (self as u8).saturating_sub(Level::Notice as u8)
    }
}

/// A detail for machines: its name, of letters and underscores, and its value.
pub type Detail<'a> = (&'a str, &'a dyn Display);

/// Who reads standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Terminal,
    Journal,
    File,
}

/// How often a line that repeats is told.
const REPEAT_MILLIS: u64 = 60_000;

static IS_STARTED: AtomicBool = AtomicBool::new(false);
static FORMAT: AtomicU8 = AtomicU8::new(0);
static VERBOSITY: AtomicU8 = AtomicU8::new(0);
static READER: OnceLock<Reader> = OnceLock::new();
static REPEATS: Mutex<Repeats> = Mutex::new(Repeats(Vec::new()));

const FORMATS: [LogFormat; 3] = [LogFormat::Text, LogFormat::Logfmt, LogFormat::Json];

/// From now on lines look like this, and this much is told. May be called again at any time.
pub fn start(format: LogFormat, verbosity: u8) {
    let number = FORMATS.iter().position(|known| *known == format);
    FORMAT.store(number.unwrap_or(0) as u8, Ordering::Relaxed);
    set_verbosity(verbosity);
    IS_STARTED.store(true, Ordering::Relaxed);
}

/// How often `-v` was given, or what the command `verbosity` made of it.
pub fn set_verbosity(verbosity: u8) {
    VERBOSITY.store(verbosity, Ordering::Relaxed);
}

/// Whether this is a server's log, and not a tool's standard error.
pub fn is_started() -> bool {
    IS_STARTED.load(Ordering::Relaxed)
}

/// Whether lines of this level are told.
#[inline]
pub fn tells(level: Level) -> bool {
    level.verbosity() <= VERBOSITY.load(Ordering::Relaxed)
}

/// Whether lines are for people, without any form that a machine expects.
pub fn is_text() -> bool {
    format() == LogFormat::Text
}

/// Whether people see the lines as they come.
pub fn is_terminal() -> bool {
    reader() == Reader::Terminal
}

/// Tells.
pub fn say(level: Level, text: &str, details: &[Detail<'_>]) {
    if !tells(level) {
        return;
    }
    let line = line((format(), reader()), process::unix_millis(), level, text, details);
    // There is nobody else to tell.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Something that was asked for does not work; `text` says what to do.
pub fn error(text: &str) {
    say(Level::Error, text, &[]);
}

/// Something needs to be looked at; `text` says what to do.
pub fn warning(text: &str) {
    say(Level::Warning, text, &[]);
}

/// What an operator wants to know of every server.
pub fn notice(text: &str) {
    say(Level::Notice, text, &[]);
}

/// As options have it: a warning says so itself.
pub fn note(text: &str) {
    match text.strip_prefix("warning: ") {
        Some(text) => warning(text),
        None => notice(text),
    }
}

/// Warns of what may happen again and again: lines of one `kind` are told once a minute, then with how many there were.
pub fn warning_of(kind: &'static str, text: &str) {
    let mut repeats = REPEATS.lock().expect("nothing panics under this lock");
    if repeats.may_tell(kind, text, process::unix_millis()) {
        warning(text);
    }
}

/// Tells of a connection that has come, or why it goes.
pub fn connection(descriptor: u64, peer: Option<Peer>, closed: Option<Reason>) {
    let text = match closed {
        None => "connection opened",
        Some(Reason::Normal) => "connection closed",
        Some(Reason::Error) => "connection closed: it failed",
        Some(Reason::Idle) => "connection closed: it was idle for too long",
        Some(Reason::Stop) => "connection closed: the server stops",
    };
    let from = match peer {
        Some(Peer::Tcp(address)) => format!("tcp:{address}"),
        Some(Peer::Unix) => "unix:".to_owned(),
        Some(Peer::Udp(address)) => format!("udp:{address}"),
        None => "?".to_owned(),
    };
    let details: [Detail<'_>; 2] = [("from", &from), ("fd", &descriptor)];
    say(Level::Debug, text, &details);
}

/// Tells what was held back for a minute. To be called now and then.
pub fn tell_repeated() {
    let mut repeats = REPEATS.lock().expect("nothing panics under this lock");
    for (text, times) in repeats.take_due(process::unix_millis()) {
        say(Level::Warning, &text, &[("repeated", &times)]);
    }
}

/// What was told lately.
struct Repeats(Vec<Repeat>);

struct Repeat {
    kind: &'static str,
    told_at_millis: u64,
    /// Times since, and the text of the last.
    held_back: u64,
    text: String,
}

impl Repeats {
    fn may_tell(&mut self, kind: &'static str, text: &str, now_millis: u64) -> bool {
        let Some(repeat) = self.0.iter_mut().find(|repeat| repeat.kind == kind) else {
            self.0.push(Repeat {
                kind,
                told_at_millis: now_millis,
                held_back: 0,
                text: String::new(),
            });
            return true;
        };
        let is_due = repeat.held_back == 0 && now_millis >= repeat.told_at_millis + REPEAT_MILLIS;
        if is_due {
            repeat.told_at_millis = now_millis;
        } else {
            repeat.held_back += 1;
            text.clone_into(&mut repeat.text);
        }
        is_due
    }

    fn take_due(&mut self, now_millis: u64) -> Vec<(String, u64)> {
        let is_due = |repeat: &&mut Repeat| {
            repeat.held_back > 0 && now_millis >= repeat.told_at_millis + REPEAT_MILLIS
        };
        let due = self.0.iter_mut().filter(is_due).map(|repeat| {
            repeat.told_at_millis = now_millis;
            (
                std::mem::take(&mut repeat.text),
                std::mem::take(&mut repeat.held_back),
            )
        });
        due.collect()
    }
}

fn format() -> LogFormat {
    FORMATS[usize::from(FORMAT.load(Ordering::Relaxed))]
}

fn reader() -> Reader {
    *READER.get_or_init(|| match () {
        () if terminal::stderr_is_journal() => Reader::Journal,
        () if std::io::stderr().is_terminal() => Reader::Terminal,
        () => Reader::File,
    })
}

/// A line, with its end.
fn line(
    (format, reader): (LogFormat, Reader),
    unix_millis: u64,
    level: Level,
    text: &str,
    details: &[Detail<'_>],
) -> String {
    let mut line = String::new();
    if reader == Reader::Journal {
        line = format!("<{}>", level.priority());
    }
    let time = rfc3339(unix_millis);
    match (format, reader) {
        (LogFormat::Json, _) => {
            let mut object = serde_json::Map::new();
            object.insert("time".to_owned(), time.into());
            object.insert("level".to_owned(), level.word().into());
            object.insert("message".to_owned(), text.into());
            for (key, value) in details {
                let value = value.to_string();
                let number = value.parse::<u64>().map(serde_json::Value::from);
                object.insert((*key).to_owned(), number.unwrap_or_else(|_| value.into()));
            }
            line.push_str(&serde_json::Value::Object(object).to_string());
        }
        (LogFormat::Logfmt, _) => {
            line.push_str(&format!(
                "time={time} level={} msg={}",
                level.word(),
                quoted(text)
            ));
            put_details(&mut line, details);
        }
        (LogFormat::Text, Reader::File) => {
            line.push_str(&format!("scrubjay: {time} {}: {}", level.word(), one_line(text)));
            put_details(&mut line, details);
        }
        (LogFormat::Text, Reader::Journal) => {
            line.push_str(&one_line(text));
            put_details(&mut line, details);
        }
        (LogFormat::Text, Reader::Terminal) => {
            let word = if level <= Level::Warning {
                format!("{}: ", level.word())
            } else {
                String::new()
            };
            line.push_str(&format!("scrubjay: {word}{text}"));
            put_details(&mut line, details);
        }
    }
    line.push('\n');
    line
}

fn put_details(line: &mut String, details: &[Detail<'_>]) {
    for (key, value) in details {
        // Memory takes every byte.
        let _ = write!(line, " {key}={}", quoted(&value.to_string()));
    }
}

/// A value of logfmt: as it is, or in quotes where it would not end where it ends.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '=' | '\\');
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => serde_json::Value::from(text).to_string(),
    }
}

/// A file has a line for each line of the log, whatever a text holds.
fn one_line(text: &str) -> String {
    text.replace('\n', "; ")
}

/// The time of RFC 3339 in UTC, such as 2026-01-31T12:00:00.000Z.
fn rfc3339(unix_millis: u64) -> String {
    let (secs, millis) = (unix_millis / 1_000, unix_millis % 1_000);
    let (year, month, day) = date(secs / 86_400);
    let (hour, minute, second) = (secs / 3_600 % 24, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of the Gregorian calendar, so many days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Counted from 0000-03-01, so that the day that may be missing is the last of a year. Eras of 400 years are all alike.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on have 153 days in fives.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use scrubjay_server::options::LogFormat::{self, Json, Logfmt, Text};

    use super::{Level, Reader, Repeats, line, rfc3339};

    #[test]
    fn times_are_those_of_the_calendar() {
        fn check(unix_millis: u64, expected: &str) {
            assert_eq!(rfc3339(unix_millis), expected);
        }
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_399_999, "2000-02-28T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(951_868_800_000, "2000-03-01T00:00:00.000Z");
        check(1_709_210_096_007, "2024-02-29T12:34:56.007Z");
        check(1_798_761_599_000, "2026-12-31T23:59:59.000Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn a_line_is_dressed_for_who_reads_it() {
        fn check(format: LogFormat, reader: Reader, expected: &str) {
            let details: [super::Detail<'_>; 2] = [("refused", &17), ("peer", &"a \"b\"")];
            let line = line((format, reader), 7, Level::Warning, "no room; raise -c", &details);
            assert_eq!(line, format!("{expected}\n"));
        }
        let time = "1970-01-01T00:00:00.007Z";
        let details = r#"refused=17 peer="a \"b\"""#;
        check(
            Text,
            Reader::Terminal,
            &format!("scrubjay: warning: no room; raise -c {details}"),
        );
        check(
            Text,
            Reader::File,
            &format!("scrubjay: {time} warning: no room; raise -c {details}"),
        );
        check(Text, Reader::Journal, &format!("<4>no room; raise -c {details}"));
        let logfmt = format!(r#"time={time} level=warning msg="no room; raise -c" {details}"#);
        check(Logfmt, Reader::File, &logfmt);
        check(Logfmt, Reader::Journal, &format!("<4>{logfmt}"));
        let json = line((Json, Reader::File), 7, Level::Notice, "a\n\"b\"", &[("pid", &5)]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(
            json,
            serde_json::json!({"time": time, "level": "notice", "message": "a\n\"b\"", "pid": 5})
        );
        let plain = line((Text, Reader::Terminal), 7, Level::Notice, "stopped", &[]);
        assert_eq!(plain, "scrubjay: stopped\n");
        let two = line((Text, Reader::File), 7, Level::Error, "a\nb", &[]);
        assert_eq!(two, format!("scrubjay: {time} error: a; b\n"));
    }

    #[test]
    fn levels_are_told_from_their_verbosity_on() {
        let verbosity = [
            Level::Error,
            Level::Warning,
            Level::Notice,
            Level::Info,
            Level::Debug,
        ]
        .map(Level::verbosity);
        assert_eq!(verbosity, [0, 0, 0, 1, 2]);
    }

    #[test]
    fn what_repeats_is_told_once_a_minute_with_how_often() {
        let mut repeats = Repeats(Vec::new());
        assert!(repeats.may_tell("logins", "first", 1_000));
        assert!(repeats.may_tell("files", "other", 1_000));
        assert!(!repeats.may_tell("logins", "second", 2_000));
        assert!(!repeats.may_tell("logins", "third", 3_000));
        assert!(repeats.take_due(60_999).is_empty());
        assert!(
            !repeats.may_tell("logins", "fourth", 61_000),
            "it is told with those before"
        );
        assert_eq!(repeats.take_due(61_000), [("fourth".to_owned(), 3)]);
        assert!(repeats.take_due(500_000).is_empty());
        assert!(repeats.may_tell("logins", "later", 500_000));
    }
}
