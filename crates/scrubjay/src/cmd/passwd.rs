//! `scrubjay passwd`: a line for the users file. The password comes from standard input, never from the command line,
//! which everybody on the machine can read.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use scrubjay_io::{entropy, terminal};
use scrubjay_server::auth::{Auth, hash_password};

use super::generate::print;

/// Longest password, in bytes.
const PASSWORD_LEN_MAX: usize = 512;

/// The subcommand.
pub fn command() -> Command {
    Command::new("passwd")
        .about("Print a user's line for the file of -Y, with the hash of a password read from standard input")
        .arg(Arg::new("user").required(true).help("The user's name"))
        .arg(
            Arg::new("attribute")
                .action(ArgAction::Append)
                .num_args(0..)
                .value_parser(["ro", "rw", "admin"])
                .help("What the user may do besides reading: rw, the default, to change items; admin, to administer the server too; ro, nothing"),
        )
}

/// Reads a password and prints the line.
pub fn run(matches: &ArgMatches) -> ExitCode {
    match line(matches) {
        Ok(line) => print(line.as_bytes()),
        Err(why) => crate::fail(&why, 1),
    }
}

fn line(matches: &ArgMatches) -> Result<String, String> {
    let user = matches.get_one::<String>("user").expect("clap demands it");
    let attributes = matches.get_many::<String>("attribute").into_iter().flatten();
    let names: Vec<&str> = std::iter::once(user)
        .chain(attributes)
        .map(String::as_str)
        .collect();
    let prompt = format!("Password of {user}: ");
    let password = terminal::read_secret(&prompt, PASSWORD_LEN_MAX)
        .map_err(|error| format!("cannot read a password from standard input: {error}"))?;
    if password.is_empty() {
        return Err("there is no password on standard input; type or pipe one".to_owned());
    }
    let hash = hash_password(&password, entropy::bytes())?;
    let line = format!("{}:{hash}\n", names.join(" "));
    let wrong = |why: String| format!("user {user:?}: {}", why.trim_start_matches("line 1: "));
    if user.contains([' ', ':', '\r', '\n', '\0']) || user.starts_with('#') {
        return Err(wrong(
            "a name has no blanks, colons and line ends, and starts with no #".to_owned(),
        ));
    }
    // What the server would refuse is not printed.
    Auth::new(line.as_bytes(), None, [0; 32]).map_err(wrong)?;
    Ok(line)
}
