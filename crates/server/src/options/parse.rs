//! From a command line to [`Options`], by the table.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::row::{Effect, Kind, Row, size_text};
use super::{EXIT_USAGE, File, Options, Origin, Protocol, ROWS, admin, cpus, tls, udp};

/// What the options depend on besides the command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Environment {
    /// Bytes that this process's cgroup may use, if that is limited.
    pub memory_limit: Option<u64>,
    /// Started by root.
    pub is_root: bool,
}

/// Why a command line is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// What is wrong and what to do.
    pub message: String,
    /// Exit status, as memcached's.
    pub exit: u8,
}

impl OptionError {
    pub(super) fn new(exit: u8, message: impl Into<String>) -> OptionError {
        OptionError {
            message: message.into(),
            exit,
        }
    }
}

/// Adds every option of the table to `command`.
pub fn add_to(command: Command) -> Command {
    let command = command.args_override_self(true).infer_long_args(true);
    ROWS.iter()
        .filter(|row| !matches!(row.name, "help" | "version"))
        .fold(command, |command, row| {
            let command = command.arg(argument(row));
            if !row.negatable {
                return command;
            }
            let name = negated(row);
            let off = Arg::new(name.clone())
                .long(name.replace('_', "-"))
                .action(ArgAction::SetTrue);
            command.arg(
                off.help(format!("Turn --{} off", row.long()))
                    .help_heading(heading(row))
                    .hide(true),
            )
        })
}

fn negated(row: &Row) -> String {
    format!("no_{}", row.name)
}

fn heading(row: &Row) -> Option<&'static str> {
    row.extended.then_some("Options behind -o")
}

fn argument(row: &'static Row) -> Arg {
    let mut help = row.help.to_owned();
    let mut add = |text: String| help = format!("{help} [{text}]");
    if !row.default.is_empty() {
        add(format!("default: {}", row.default));
    }
    if let Kind::Choice { words, .. } = row.kind {
        add(words.join(", "));
    }
    if row.live.is_some() {
        add("live".to_owned());
    }
    match row.effect {
        Effect::None(why) => add(format!("no effect: {why}")),
        Effect::Refused(why) => add(format!("refused: {why}")),
        Effect::Same | Effect::Differs(_) => {}
    }
    let arg = Arg::new(row.name)
        .long(row.long())
        .help(help)
        .help_heading(heading(row));
    let arg = if let Some(short) = row.short {
        arg.short(short)
    } else {
        arg
    };
    let arg = arg.hide_short_help(row.extended || matches!(row.effect, Effect::None(_) | Effect::Refused(_)));
    match row.kind {
        Kind::Flag(_) | Kind::Print => arg.action(ArgAction::SetTrue),
        Kind::Count(_) => arg.action(ArgAction::Count),
        _ => {
            let arg = arg
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
                .value_name(row.kind.value_name());
            // memcached takes -o slab_automove with and without a value.
            if row.name == "slab_automove" {
                arg.num_args(0..=1).require_equals(true)
            } else {
                arg
            }
        }
    }
}

/// Turns what clap says about a wrong command line into our words and memcached's exit status.
pub fn explain(error: &clap::Error) -> OptionError {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg)
        .or(context(ContextKind::InvalidSubcommand))
        .unwrap_or_default();
    let message = match error.kind() {
        ErrorKind::UnknownArgument => {
            let near = context(ContextKind::SuggestedArg).or_else(|| nearest_option(&argument));
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            format!("unknown option {argument}{near} (scrubjay --help lists them all)")
        }
        ErrorKind::InvalidSubcommand => {
            let near = context(ContextKind::SuggestedSubcommand);
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            format!("unknown command {argument}{near} (scrubjay --help lists them all)")
        }
        ErrorKind::InvalidValue
            if context(ContextKind::InvalidValue).is_none_or(|value| value.is_empty()) =>
        {
            format!("{} needs a value", argument.split(' ').next().unwrap_or_default())
        }
        _ => {
            let text = error.to_string();
            let what = text.lines().next().unwrap_or_default();
            let may_be = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(names)) if !names.is_empty() => {
                    format!("; it may be {}", names.join(", "))
                }
                _ => String::new(),
            };
            format!("{}{may_be}", what.trim_start_matches("error: "))
        }
    };
    OptionError::new(1, message)
}

fn nearest_option(argument: &str) -> Option<String> {
    let letter = argument.strip_prefix('-')?.chars().next()?;
    let other_case = |row: &&Row| row.short.is_some_and(|short| short.eq_ignore_ascii_case(&letter));
    if !argument.starts_with("--") {
        let row = ROWS.iter().find(other_case)?;
        return row.short.map(|short| format!("-{short} (--{})", row.long()));
    }
    let names = ROWS.iter().map(Row::long);
    nearest(argument.trim_start_matches('-'), names).map(|name| format!("--{name}"))
}

/// The name that takes the fewest edits to reach from `word`, if they are few.
pub(super) fn nearest(word: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let edits_max = 1 + word.len() / 4;
    names
        .map(|name| (edit_distance(word, &name), name))
        .filter(|(edits, _)| *edits <= edits_max)
        .min()
        .map(|(_, name)| name)
}

fn edit_distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, byte) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in right.bytes().enumerate() {
            let substituted = diagonal + usize::from(byte != other);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

/// Checks what was given and completes it with the defaults.
///
/// # Errors
/// [`OptionError`] says which value is wrong, what is accepted, and what to do.
pub fn resolve(matches: &ArgMatches, environment: &Environment) -> Result<Options, OptionError> {
    resolve_with(matches, None, environment)
}

/// As [`resolve`], with what `file` says where the command line says nothing.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_with(
    matches: &ArgMatches,
    file: Option<&File>,
    environment: &Environment,
) -> Result<Options, OptionError> {
    let mut options = Options::default();
    if let Some(file) = file {
        file.apply(&mut options, |row| is_given(matches, row.name))?;
    }
    for (_, row, value) in in_order(matches) {
        if matches!(row.kind, Kind::Extended) {
            let list = value.unwrap_or_default();
            list.split(',')
                .try_for_each(|text| apply_extended(&mut options, text))?;
        } else if value == Some(OFF) {
            apply(&mut options, row, None, false)?;
        } else {
            apply(&mut options, row, value, true)?;
        }
    }
    let verbosity = matches.get_count("verbose");
    if verbosity > 0 {
        options.verbosity = verbosity;
        options.note_origin("verbose", Origin::Flag);
    }
    settle_memory(&mut options, environment)?;
    settle_listeners(&mut options, environment)?;
    settle_users(&mut options)?;
    tls::settle(&mut options)?;
    udp::settle(&mut options)?;
    cpus::settle(&mut options)?;
    admin::settle(&mut options);
    Ok(options)
}

/// Stands for the `no_` form of a flag; no value can be this, arguments hold no zero byte.
const OFF: &str = "\0";

fn is_given(matches: &ArgMatches, name: &str) -> bool {
    matches.value_source(name) == Some(ValueSource::CommandLine)
}

/// The options as they stand on the command line; a later one overrides an earlier one, behind `-o` too.
fn in_order(matches: &ArgMatches) -> Vec<(usize, &'static Row, Option<&str>)> {
    let mut all = Vec::new();
    for row in ROWS
        .iter()
        .filter(|row| !matches!(row.kind, Kind::Print | Kind::Count(_)))
    {
        if row.negatable && is_given(matches, &negated(row)) {
            let indices = matches.indices_of(&negated(row)).into_iter().flatten();
            all.extend(indices.map(|index| (index, row, Some(OFF))));
        }
        if !is_given(matches, row.name) {
            continue;
        }
        let indices: Vec<usize> = matches.indices_of(row.name).into_iter().flatten().collect();
        if matches!(row.kind, Kind::Flag(_)) {
            all.extend(indices.first().map(|index| (*index, row, None)));
            continue;
        }
        let values = matches.get_many::<String>(row.name).into_iter().flatten();
        let before = all.len();
        all.extend(
            indices
                .iter()
                .zip(values)
                .map(|(index, value)| (*index, row, Some(value.as_str()))),
        );
        if all.len() == before {
            all.push((0, row, None));
        }
    }
    all.sort_by_key(|(index, ..)| *index);
    all
}

fn apply_extended(options: &mut Options, text: &str) -> Result<(), OptionError> {
    if text.is_empty() {
        return Ok(());
    }
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let rows = || ROWS.iter().filter(|row| row.extended);
    if let Some(row) = rows().find(|row| row.name == name) {
        return apply(options, row, value, true);
    }
    if let Some(row) = rows().find(|row| row.negatable && negated(row) == name) {
        return apply(options, row, value, false);
    }
    let names = rows().flat_map(|row| [row.name.to_owned(), negated(row)]);
    let near = nearest(name, names).map_or(String::new(), |near| format!("; did you mean {near}?"));
    Err(OptionError::new(
        1,
        format!("unknown option -o {name}{near} (scrubjay --help lists them all)"),
    ))
}

fn apply(options: &mut Options, row: &'static Row, value: Option<&str>, on: bool) -> Result<(), OptionError> {
    let spelling = row.spelling();
    set(options, row, value, on, &spelling).map_err(|why| {
        let given = value.map_or(String::new(), |value| match row.extended {
            true => format!("={value}"),
            false => format!(" {value}"),
        });
        OptionError::new(row.exit, format!("{spelling}{given}: {why}"))
    })?;
    options.note_origin(row.name, Origin::Flag);
    Ok(())
}

/// Puts a value where it belongs; the error says what is wrong with it. `spelling` is how the user writes the option.
pub(super) fn set(
    options: &mut Options,
    row: &'static Row,
    value: Option<&str>,
    on: bool,
    spelling: &str,
) -> Result<(), String> {
    let refuse = |why: &str| Err(why.to_owned());
    match row.effect {
        Effect::Refused(why) => return refuse(why),
        // `-U 0` and the like ask for what is there anyway.
        Effect::None(why) if on && value != Some(row.default) && options.given(row.name).is_none() => {
            options.notices.push(format!("{spelling} has no effect: {why}"));
        }
        _ => {}
    }
    let wanted = || format!("takes {}", row.kind.range());
    match (row.kind, value) {
        (Kind::Flag(set), None) => set(options, on),
        (Kind::Flag(_), Some(_)) => return refuse("takes no value"),
        (Kind::Text { .. }, None) if row.negatable => {}
        (Kind::Count(_) | Kind::Extended | Kind::Print, _) => {}
        (_, None) => return refuse("needs a value"),
        (Kind::Number { min, max, set, .. }, Some(text)) => match text.trim().parse::<i64>() {
            Ok(number) if (min..=max).contains(&number) => set(options, number),
            Ok(_) => return refuse(&format!("out of range; {}", wanted())),
            Err(_) => return refuse(&format!("not a whole number; {}", wanted())),
        },
        (Kind::Size { unit, min, max, set }, Some(text)) => match parse_size(text, unit) {
            Some(bytes) if (min..=max).contains(&bytes) => set(options, bytes),
            Some(_) => return refuse(&format!("out of range; {}", wanted())),
            None => return refuse(&format!("not a size; {}, such as {}", wanted(), row.default)),
        },
        (Kind::Real { above, max }, Some(text)) => match text.trim().parse::<f64>() {
            Ok(number) if number > above && number <= max => {}
            _ => return refuse(&wanted()),
        },
        (Kind::Choice { words, set }, Some(text)) => match words.contains(&text) {
            true => set(options, text),
            false => return refuse(&wanted()),
        },
        (Kind::Text { set, .. }, Some(text)) => {
            set(options, text)?;
        }
    }
    let text = value.map_or_else(|| if on { "yes" } else { "no" }.to_owned(), str::to_owned);
    options.given.push((row.name, text));
    Ok(())
}

/// Reads a number with an optional suffix k, m, g or t; without one it counts `unit` bytes.
pub fn parse_size(text: &str, unit: u64) -> Option<u64> {
    let text = text.trim();
    let suffix = text.chars().last()?.to_ascii_lowercase();
    let (digits, unit) = match suffix {
        'k' => (&text[..text.len() - 1], 1 << 10),
        'm' => (&text[..text.len() - 1], 1 << 20),
        'g' => (&text[..text.len() - 1], 1 << 30),
        't' => (&text[..text.len() - 1], 1 << 40),
        _ => (text, unit),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn settle_memory(options: &mut Options, environment: &Environment) -> Result<(), OptionError> {
    if let Some(limit) = environment.memory_limit {
        // Whole megabytes, as -m counts.
        let share = ((limit / 5 * 4).max(1 << 20) as usize) & !((1 << 20) - 1);
        if options.given("memory-limit").is_none() && options.memory_max > share {
            options.memory_max = share;
            options.given.push(("memory-limit", format!("{}m", share >> 20)));
            options.note_origin("memory-limit", Origin::Machine("cgroup"));
            options.item_size_max = options.item_size_max.min(share / 2);
            options.notices.push(format!(
                "-m is {} here, 80 % of the cgroup's memory limit of {}",
                mib_text(share as u64),
                mib_text(limit)
            ));
        } else if options.memory_max as u64 > limit {
            options.notices.push(format!(
                "warning: -m {} is more than the cgroup's memory limit of {}; the kernel may kill this process",
                mib_text(options.memory_max as u64),
                mib_text(limit)
            ));
        }
    }
    if options.item_size_max > options.memory_max / 2 {
        let half = (options.memory_max / 2) as u64;
        return Err(OptionError::new(
            EXIT_USAGE,
            format!(
                "-I {}: an item may take at most half of the memory, {} here; lower -I or raise -m",
                size_text(options.item_size_max as u64),
                size_text(half)
            ),
        ));
    }
    Ok(())
}

/// Whole mebibytes, for people.
fn mib_text(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn settle_listeners(options: &mut Options, environment: &Environment) -> Result<(), OptionError> {
    udp::share_port(options);
    let network_given = options.given("port").is_some_and(|port| port != "0") || !options.listen.is_empty();
    if options.unix_socket.is_some() && network_given {
        options
            .notices
            .push("-s turns TCP off, as in memcached; -p and -l have no effect beside it".to_owned());
    }
    if options.tcp_addresses().is_empty()
        && options.udp_addresses().is_empty()
        && options.unix_socket.is_none()
    {
        options
            .notices
            .push("warning: with -p 0 and neither -s nor -U nobody can connect".to_owned());
    }
    if environment.is_root && options.user.is_none() {
        if !options.is_loopback_only() {
            let message =
                "will not serve a network as root; say with -u which user to run as (-u root if it must be)";
            return Err(OptionError::new(EXIT_USAGE, message));
        }
        options
            .notices
            .push("warning: running as root; say with -u which user to run as".to_owned());
    }
    // Many more threads than cores only cost; memcached warns at the same number.
    const THREADS_ADVISED: usize = 64;
    if options.threads > THREADS_ADVISED {
        options.notices.push(format!(
            "warning: -t {} is a lot; as many as there are cores is enough",
            options.threads
        ));
    }
    Ok(())
}

fn settle_users(options: &mut Options) -> Result<(), OptionError> {
    let refuse = |message: &str| Err(OptionError::new(EXIT_USAGE, message));
    if options.sasl {
        if options.auth_file.is_none() {
            return refuse(
                "-S: there are no users; name a file of them with -Y, a line each: NAME:PASSWORD \
                 (SASL's own database is not read; `scrubjay passwd NAME` makes a line)",
            );
        }
        if options.protocol == Protocol::Text {
            return refuse("-S with -B ascii: SASL is of the binary protocol; leave one of them out");
        }
    }
    if options.connections_per_user.is_some() && options.auth_file.is_none() {
        return refuse("--connections-per-user: there are no users to count by; name a file of them with -Y");
    }
    if options.requests_per_user > 0 && options.auth_file.is_none() {
        return refuse("--requests-per-user: there are no users to count by; name a file of them with -Y");
    }
    Ok(())
}

#[cfg(test)]
pub(in crate::options) mod tests;
