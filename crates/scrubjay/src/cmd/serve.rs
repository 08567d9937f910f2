//! `scrubjay serve`: from the command line to a running cache server, and back to a clean end.

use std::process::ExitCode;
use std::time::Duration;

use clap::ArgMatches;
use scrubjay_io::process::{self, Launcher, PidFile};
use scrubjay_server::options::{
    self, DEFAULT_HOST, EXIT_NO_USER, EXIT_OS, Environment, OptionError, Options, size_text,
};

use crate::args::VERSION;

const LICENSE: &str = include_str!("../../../../LICENSE");

/// How often the cache is looked after when nothing is urgent.
const MAINTENANCE_PERIOD: Duration = Duration::from_millis(250);

/// Files that are open besides connections: listeners, event queues, the binary's own.
const OTHER_FILES: u64 = 64;

/// Runs the server until it is told to stop.
pub fn run(matches: &ArgMatches) -> ExitCode {
    if matches.get_flag("license") {
        return super::generate::print(format!("scrubjay {VERSION}\n\n{LICENSE}").as_bytes());
    }
    match serve(matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::fail(&error.message, error.exit),
    }
}

fn serve(matches: &ArgMatches) -> Result<(), OptionError> {
    let environment = Environment {
        memory_limit: None,
        is_root: process::is_root(),
    };
    let options = options::resolve(matches, &environment)?;
    options.notices.iter().for_each(|notice| say(notice));
    settle_limits(&options)?;
    settle_user(&options, environment.is_root)?;
    // The last moment with one thread and nothing in memory that a new process would not inherit.
    let launcher = if options.daemon {
        Some(process::detach().map_err(|error| refused("-d: cannot go into the background", error))?)
    } else {
        None
    };
    process::block_signals();
    serve_requests(options, launcher)
}

fn settle_limits(options: &Options) -> Result<(), OptionError> {
    if options.core_dumps {
        process::allow_core_dumps().map_err(|error| refused("-r: cannot allow core dumps", error))?;
    }
    let files = options.conn_limit as u64 + OTHER_FILES;
    process::raise_open_files(files).map_err(|error| {
        let what = format!(
            "-c {0}: cannot open {files} files; lower -c or raise ulimit -n",
            options.conn_limit
        );
        refused(&what, error)
    })
}

fn settle_user(options: &Options, is_root: bool) -> Result<(), OptionError> {
    let Some(name) = options.user.as_deref().filter(|_| is_root) else {
        return Ok(());
    };
    let user = process::find_user(name).ok_or_else(|| OptionError {
        message: format!("-u {name}: there is no such user; create it or name another"),
        exit: EXIT_NO_USER,
    })?;
    process::become_user(user).map_err(|error| refused(&format!("-u {name}: cannot become this user"), error))
}

fn refused(what: &str, error: impl std::fmt::Display) -> OptionError {
    OptionError {
        message: format!("{what}: {error}"),
        exit: EXIT_OS,
    }
}

fn say(text: &str) {
    eprintln!("scrubjay: {text}");
}

fn serve_requests(options: Options, launcher: Option<Launcher>) -> Result<(), OptionError> {
    drop((options, launcher));
    Err(refused("the event loop", "not wired yet"))
}
