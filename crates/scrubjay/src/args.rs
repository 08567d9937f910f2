//! The command line: options of the server at the top, other roles as subcommands.

use clap::{ArgMatches, Command};
use scrubjay_server::options::{self, OptionError};

use crate::cmd::{
    bench, check, dump, generate, item, lab, load, mrc, passwd, plan, replay, stats, top, upgrade, why,
};

/// Version of this program and of the protocol that it speaks.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (speaks the protocol of memcached 1.6.45)"
);

const ABOUT: &str =
    "A memory cache that never loses live data to dead data, and a drop-in replacement of memcached.";

const AFTER_HELP: &str = "\
Without -l only this machine is served; -l 0.0.0.0 serves the network.
Signals: SIGTERM and SIGINT stop, SIGUSR1 stops when connections are done, SIGUSR2 upgrades, SIGHUP reads files again:
configuration (--config), users, certificates. In that file each option has its long name; what is marked [live] changes then.
Exit status: 0 stopped, 1 or 64 wrong options, 67 unknown user, 71 refused by the operating system.";

/// The whole command line.
pub fn command() -> Command {
    let server = |command: Command| options::add_to(command).after_help(AFTER_HELP);
    server(Command::new("scrubjay"))
        .about(ABOUT)
        .version(VERSION)
        .args_conflicts_with_subcommands(true)
        .subcommand(server(Command::new("serve")).about("Run the cache server (also without this word)"))
        .subcommand(check::command())
        .subcommand(plan::command())
        .subcommand(replay::command())
        .subcommand(bench::command())
        .subcommand(lab::command())
        .subcommand(stats::command())
        .subcommand(top::command())
        .subcommands(item::commands())
        .subcommand(dump::command())
        .subcommand(load::command())
        .subcommand(why::command())
        .subcommand(mrc::command())
        .subcommand(upgrade::command())
        .subcommand(passwd::command())
        .subcommands(generate::commands())
}

/// Reads the command line.
///
/// # Errors
/// With what to print and the exit status; `Ok(None)` if help or the version was asked for and is printed.
pub fn parse() -> Result<Option<ArgMatches>, OptionError> {
    match command().try_get_matches() {
        Ok(matches) => Ok(Some(matches)),
        Err(error) if !error.use_stderr() => {
            // Nobody is left to tell if standard output is closed.
            let _ = error.print();
            Ok(None)
        }
        Err(error) => Err(options::explain(&error)),
    }
}
