//! The users file of a running server: read at the start, and again when it has changed or when SIGHUP comes.

use std::path::Path;
use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_io::entropy;
use scrubjay_io::file::{self, Watched};
use scrubjay_server::auth::{Auth, FILE_LEN_MAX};
use scrubjay_server::options::{EXIT_OS, EXIT_USAGE, OptionError, Options};

use crate::log;

/// How often the file is looked at, and how often failed logins are told.
const LOOK_MILLIS: u64 = 1_000;
const TELL_MILLIS: u64 = 10_000;

/// The file, and the users it holds.
#[derive(Debug)]
pub struct UsersFile {
    watched: Watched,
    auth: Arc<Auth>,
    looked_at: Now,
    told_at: Option<Now>,
}

impl UsersFile {
    /// Reads the file that the options name; `None` if they name none.
    ///
    /// # Errors
    /// It cannot be read, or is wrong.
    pub fn open(options: &Options) -> Result<Option<UsersFile>, OptionError> {
        let Some(path) = options.auth_file.as_deref() else {
            return Ok(None);
        };
        // A server in the background leaves its directory, and reads this again later.
        let watched = Watched::new(file::absolute(Path::new(path)).unwrap_or_default());
        let text = read(watched.path()).map_err(|error| OptionError {
            message: format!("-Y {path}: cannot read this file: {error}"),
            exit: EXIT_OS,
        })?;
        let auth = Auth::new(&text, options.connections_per_user, entropy::bytes()).map_err(|why| {
            let message = format!("-Y {path}: {why}");
            let exit = EXIT_USAGE;
            OptionError { message, exit }
        })?;
        if auth.has_plain_passwords() && file::is_readable_by_all(watched.path()) {
            log::warning(&format!(
                "-Y {path}: everybody on this machine can read the passwords in it; chmod 640, or hash \
                 them with `scrubjay passwd`"
            ));
        }
        Ok(Some(UsersFile {
            watched,
            auth: Arc::new(auth),
            looked_at: Now::default(),
            told_at: None,
        }))
    }

    /// The users.
    pub fn auth(&self) -> Arc<Auth> {
        Arc::clone(&self.auth)
    }

    /// Reads another file from now on.
    ///
    /// # Errors
    /// It cannot be read, or is wrong; the users stay those of the file before.
    pub fn follow(&mut self, path: &str) -> Result<(), String> {
        let path = file::absolute(Path::new(path)).map_err(|error| error.to_string())?;
        let watched = Watched::new(path);
        let text = read(watched.path()).map_err(|error| format!("cannot read this file: {error}"))?;
        self.auth.replace(&text)?;
        self.watched = watched;
        Ok(())
    }

    /// Reads the file again; says what came of it.
    pub fn reload(&self) {
        let path = self.watched.path().display();
        let read = read(self.watched.path()).map_err(|error| format!("cannot read this file: {error}"));
        match read.and_then(|text| self.auth.replace(&text)) {
            Ok(count) => log::notice(&format!("-Y {path}: read again, {count} users")),
            Err(why) => log::warning(&format!("-Y {path}: {why}; the users stay as they were")),
        }
    }

    /// Reads the file again if it has changed, and tells of logins that failed; now and then.
    pub fn look(&mut self, now: Now) {
        if now.millis() >= self.looked_at.millis() + LOOK_MILLIS {
            self.looked_at = now;
            if self.watched.has_changed() {
                self.reload();
            }
        }
        let may_tell = self
            .told_at
            .is_none_or(|told_at| now.millis() >= told_at.millis() + TELL_MILLIS);
        if may_tell && let Some(failures) = self.auth.take_failures() {
            self.told_at = Some(now);
            log::warning_of(
                "logins",
                &format!("{failures}; if that goes on, see who it is and keep them out"),
            );
        }
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    file::read(path, FILE_LEN_MAX)
}
