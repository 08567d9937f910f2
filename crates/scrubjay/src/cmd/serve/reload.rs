//! Options read from command line and configuration file, at the start and again at SIGHUP.
//!
//! A file that is wrong changes nothing. Of one that is right, what differs from the last reading and is live holds from now on;
//! the rest is named, and waits for the next start. So what a client's command has changed stays until somebody changes it
//! in the file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use clap::ArgMatches;
use scrubjay_base::time::Now;
use scrubjay_io::{cgroup, file, process};
use scrubjay_net::{Limits, Live, UdpConfig};
use scrubjay_server::options::{self, EXIT_OS, Environment, OptionError, Options, Row};
use scrubjay_server::service::Shared;

use super::settings;
use crate::cmd::users::UsersFile;
use crate::log;

/// Where options come from.
#[derive(Clone, Debug)]
pub struct Source {
    matches: ArgMatches,
    environment: Environment,
    /// The configuration file: as it was named, and from the root.
    file: Option<(String, PathBuf)>,
}

impl Source {
    /// The command line, the file that it names, and this machine.
    pub fn new(matches: &ArgMatches) -> Source {
        Source::with_file(matches, options::path(matches))
    }

    /// As [`Source::new`], with another file.
    pub fn with_file(matches: &ArgMatches, name: Option<&str>) -> Source {
        let absolute = |name: &str| file::absolute(Path::new(name)).unwrap_or_else(|_| name.into());
        Source {
            matches: matches.clone(),
            environment: Environment {
                memory_limit: cgroup::memory_limit(),
                is_root: process::is_root(),
            },
            file: name.map(|name| (name.to_owned(), absolute(name))),
        }
    }

    /// Whether the server was started by root.
    pub fn is_root(&self) -> bool {
        self.environment.is_root
    }

    /// Reads it all.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(&self) -> Result<Options, OptionError> {
        let Some((name, path)) = &self.file else {
            return options::resolve(&self.matches, &self.environment);
        };
        let text = file::read(path, options::FILE_LEN_MAX).map_err(|error| OptionError {
            message: format!("--config {name}: cannot read this file: {error}"),
            exit: EXIT_OS,
        })?;
        let file = options::File::parse(name, &text)?;
        options::resolve_with(&self.matches, Some(&file), &self.environment)
    }
}

/// What happens at SIGHUP.
#[derive(Debug)]
pub struct Reloader {
    source: Source,
    /// As the server was started.
    started: Options,
    /// The last reading that was in order.
    read: Options,
    /// Limits of connections in force.
    pub limits: Arc<Live<Limits>>,
    /// How datagrams are answered now.
    pub udp: Arc<Live<UdpConfig>>,
}

impl Reloader {
    /// For a server that is started with `options`, read from `source`.
    pub fn new(source: Source, options: &Options) -> Reloader {
        Reloader {
            source,
            started: options.clone(),
            read: options.clone(),
            limits: Live::new(settings::limits(options)),
            udp: Live::new(settings::udp(options)),
        }
    }

    /// Reads the configuration file, users and certificates again.
    pub fn reload(&mut self, shared: &Shared, users: Option<&Mutex<UsersFile>>, now: Now) {
        if self.source.file.is_none() && users.is_none() && shared.tls.is_none() {
            log::notice("SIGHUP: there is nothing to read anew; name a file of options with --config");
        }
        if let Some((name, _)) = self.source.file.clone() {
            match self.source.read() {
                Ok(new) => self.take_over(&name, new, shared, users),
                Err(error) => {
                    let why = error.message;
                    return log::error(&format!(
                        "SIGHUP: everything stays as it was; mend this and try again: {why}"
                    ));
                }
            }
        }
        if let Some(users) = users {
            locked(users).reload();
        }
        if let Some(tls) = &shared.tls {
            say_certificates("SIGHUP", &tls.reload(now));
        }
    }

    fn take_over(&mut self, file: &str, new: Options, shared: &Shared, users: Option<&Mutex<UsersFile>>) {
        let said_before = |notice: &&String| self.read.notices.contains(notice);
        new.notices
            .iter()
            .filter(|notice| !said_before(notice))
            .for_each(|notice| log::note(notice));
        let mut now: Vec<&Row> = Vec::new();
        let mut later: Vec<(&Row, String)> = options::changed(&self.started, &new)
            .into_iter()
            .filter(|row| row.live.is_none())
            .map(|row| (row, String::new()))
            .collect();
        for row in options::changed(&self.read, &new)
            .into_iter()
            .filter(|row| row.live.is_some())
        {
            match can_change(row, &new, shared, users) {
                Ok(()) => now.push(row),
                Err(why) => later.push((row, why)),
            }
        }
        shared.change(|options| {
            options.renew_origins(&self.read, &new);
            now.iter().for_each(|row| options.take_over(row, &new));
        });
        let options = shared.options_now();
        self.limits.set(settings::limits(&options));
        self.udp.set(settings::udp(&options));
        // Who sleeps would not look.
        shared.control.wake_all();
        log::start(options.log_format, options.verbosity);
        let changes = now.iter().map(|row| options::line(row, &options));
        let changes: Vec<String> = changes.collect();
        match changes.is_empty() {
            true => log::notice(&format!("SIGHUP: {file}: read again, nothing to change now")),
            false => log::notice(&format!("SIGHUP: {file}: now {}", changes.join(", "))),
        }
        for (row, why) in later {
            let name = row.long();
            log::warning(&format!(
                "SIGHUP: {file}: {name} takes effect at the next start{why}"
            ));
        }
        self.read = new;
    }
}

/// Whether what `row` sets can be changed to what `new` says; if not, why.
fn can_change(
    row: &Row,
    new: &Options,
    shared: &Shared,
    users: Option<&Mutex<UsersFile>>,
) -> Result<(), String> {
    match row.name {
        "memory-limit" => {
            let bounds = shared.memory_bounds();
            let (least, most) = (bounds.start() >> 20, bounds.end() >> 20);
            match bounds.contains(&new.memory_max) {
                true => Ok(()),
                false => Err(format!("; while this server runs it can be {least}m to {most}m")),
            }
        }
        "conn-limit" => super::settle_limits(new).map_err(|error| format!("; {}", error.message)),
        "auth-file" => match (users, new.auth_file.as_deref()) {
            (Some(users), Some(path)) => locked(users)
                .follow(path)
                .map_err(|why| format!("; {path}: {why}")),
            _ => Err(", because whether users log in is settled at the start".to_owned()),
        },
        _ => Ok(()),
    }
}

/// The users file, while nobody else reads it.
pub fn locked(users: &Mutex<UsersFile>) -> MutexGuard<'_, UsersFile> {
    users.lock().expect("nothing panics under this lock")
}

/// Says what became of certificates that were read again.
pub fn say_certificates(why: &str, outcome: &Result<(), scrubjay_tls::CannotLoad>) {
    match outcome {
        Ok(()) => log::notice(&format!(
            "{why}: new connections use the certificates as they are now"
        )),
        Err(error) => log::warning_of(
            "certificates",
            &format!("{why}: the certificates in use stay: {error}"),
        ),
    }
}
