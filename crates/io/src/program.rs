//! This program, started once more: as its own successor, or as the server that a keeper looks after.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

/// How this process was started: to be remembered before it changes its directory.
#[derive(Clone, Debug)]
pub struct Program {
    path: OsString,
    arguments: Vec<OsString>,
    folder: Option<PathBuf>,
}

impl Program {
    /// How this process was started. By the path as it was given, not by the file that it led to: that may be replaced.
    pub fn this() -> Program {
        let mut words = std::env::args_os();
        let path = words.next().unwrap_or_else(|| OsString::from("scrubjay"));
        Program {
            path,
            arguments: words.collect(),
            folder: std::env::current_dir().ok(),
        }
    }

    /// Its path, for people.
    pub fn path(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Starts it with the same arguments, in the same directory, with `environment` added and `without` taken away; it
    /// inherits `files` under their numbers. `is_apart` keeps signals of a terminal from it.
    ///
    /// # Errors
    /// There is no such file any more, or it cannot be run.
    pub fn start(
        &self,
        environment: &[(&str, String)],
        without: &[&str],
        files: &[BorrowedFd<'_>],
        is_apart: bool,
    ) -> io::Result<Child> {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).stdin(std::process::Stdio::null());
        // Where it began is gone: paths that do not depend on it still lead somewhere.
        if let Some(folder) = self.folder.as_ref().filter(|folder| folder.is_dir()) {
            command.current_dir(folder);
        }
        if is_apart {
            command.process_group(0);
        }
        without.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let numbers: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
        // SAFETY: between fork and exec only fcntl is called, which may be; the numbers are open in the parent, which
        // borrows them until this call returns.
        unsafe {
            command.pre_exec(move || {
                for number in &numbers {
                    if libc::fcntl(*number, libc::F_SETFD, 0) == -1 {
                        return Err(io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        command.spawn()
    }
}

/// How a process ended, for people.
pub fn end_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit status {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}
