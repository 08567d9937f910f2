//! `scrubjay check`: would a server start with these options, and with which? Looks at everything that a start looks at, and
//! starts nothing.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use scrubjay_io::clock::Clock;
use scrubjay_io::driver::Listener;
use scrubjay_io::process;
use scrubjay_server::options::{self, EXIT_USAGE, OptionError, Options};

use super::serve;
use super::serve::reload::Source;
use super::users::UsersFile;

/// The subcommand.
pub fn command() -> Command {
    let file = Arg::new("FILE").help("Configuration file; instead of --config");
    let print = Arg::new("print-default")
        .long("print-default")
        .action(ArgAction::SetTrue)
        .help("Print a file with every option and its default instead, as `scrubjay config` does");
    options::add_to(Command::new("check"))
        .about("Check a configuration file and options of the server, and print what would be in force")
        .arg(file)
        .arg(print)
}

/// Prints what would be in force; what is wrong goes to standard error, and makes the exit status 64.
pub fn run(matches: &ArgMatches) -> ExitCode {
    if matches.get_flag("print-default") {
        return super::generate::print(options::default_file().as_bytes());
    }
    let file = matches.get_one::<String>("FILE").map(String::as_str);
    let source = Source::with_file(matches, file.or_else(|| options::path(matches)));
    let options = match source.read() {
        Ok(options) => options,
        Err(error) => {
            return crate::fail(&error.message.replace('\n', "\nscrubjay: "), EXIT_USAGE);
        }
    };
    for notice in &options.notices {
        eprintln!("scrubjay: {notice}");
    }
    let problems = problems(&options, source.is_root());
    for problem in &problems {
        eprintln!("scrubjay: {problem}");
    }
    let printed = super::generate::print(options::in_force(&options).as_bytes());
    match problems.is_empty() {
        true => printed,
        false => ExitCode::from(EXIT_USAGE),
    }
}

/// What this machine has against the options.
fn problems(options: &Options, is_root: bool) -> Vec<String> {
    let clock = Clock::start();
    let checks = [
        serve::settle_limits(options),
        serve::settle_cpus(options),
        user(options, is_root),
        addresses(options),
        unix_socket(options),
        serve::load_certificates(options, clock).map(drop),
        UsersFile::open(options).map(drop),
    ];
    let problems = checks.into_iter().filter_map(Result::err);
    problems.map(|error| error.message).collect()
}

fn user(options: &Options, is_root: bool) -> Result<(), OptionError> {
    match options.user.as_deref().filter(|_| is_root) {
        Some(name) if process::find_user(name).is_none() => Err(serve::no_user(name)),
        _ => Ok(()),
    }
}

/// Whether the addresses are of this machine. Their ports may be taken by the very server whose options these are.
fn addresses(options: &Options) -> Result<(), OptionError> {
    let places = [
        ("-l", options.tcp_addresses()),
        ("-l", options.udp_addresses()),
        ("-o admin", options.admin_address().into_iter().collect()),
    ];
    for (option, asked) in places {
        let asked = asked.into_iter().map(|address| (address, ()));
        for (address, (), is_needed) in serve::look_up(option, asked)? {
            let any_port = SocketAddr::new(address.ip(), 0);
            if let Err(error) = Listener::tcp(any_port, 1)
                && is_needed
            {
                let advice = serve::advice_on_listening(error.kind());
                let what = format!("{option}: cannot listen on {} ({advice})", address.ip());
                return Err(serve::refused(&what, error));
            }
        }
    }
    Ok(())
}

fn unix_socket(options: &Options) -> Result<(), OptionError> {
    let Some(path) = options.unix_socket.as_deref() else {
        return Ok(());
    };
    let folder = Path::new(path)
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => Err(OptionError {
            message: format!("-s {path}: there is no folder {}; create it", folder.display()),
            exit: EXIT_USAGE,
        }),
        None => Ok(()),
    }
}
