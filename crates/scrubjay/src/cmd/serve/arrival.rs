//! How this process came to be: on its own, by a keeper, by a supervisor, as the successor of another server.

use std::process::ExitCode;

use scrubjay_io::keeper::{Keeper, Kept};
use scrubjay_io::memory::MemoryFile;
use scrubjay_io::process::{Launcher, Quiet};
use scrubjay_io::program::Program;
use scrubjay_io::supervisor::{self, Given};
use scrubjay_server::options::{OptionError, Options};

use super::refused;
use super::successor::Predecessor;

/// What this process was given by whoever started it.
pub struct Arrival {
    /// How it was started.
    pub program: Program,
    /// The parent that holds the memory.
    pub keeper: Option<Kept>,
    /// The server whose place it is to take.
    pub predecessor: Option<Predecessor>,
    /// Open files of a supervisor.
    pub given: Vec<Given>,
}

impl Arrival {
    /// Finds out. To be called once, before anything is opened.
    ///
    /// # Errors
    /// Something that was announced is not there.
    pub fn find() -> Result<Arrival, OptionError> {
        let cannot = |error| refused("this process was started with files that are not open", error);
        Ok(Arrival {
            program: Program::this(),
            keeper: Kept::find().map_err(cannot)?,
            predecessor: Predecessor::find().map_err(cannot)?,
            given: supervisor::given().map_err(cannot)?,
        })
    }

    /// Becomes the keeper, until the server ends for good.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn keep(self, options: &Options, launcher: Option<Launcher>) -> Result<ExitCode, OptionError> {
        let cannot = |error| refused("--keep: cannot keep a server", error);
        let memory = match options.memory_file {
            None => Some(MemoryFile::anonymous().map_err(cannot)?),
            Some(_) => None,
        };
        let keeper = Keeper {
            program: &self.program,
            memory: memory.as_ref().map(std::os::fd::AsFd::as_fd),
            launcher: launcher.map(|launcher| (launcher, quiet(options))),
            say: super::say,
        };
        keeper.keep().map(ExitCode::from).map_err(cannot)
    }
}

/// What a server in the background lets go of.
pub fn quiet(options: &Options) -> Quiet {
    Quiet {
        keep_output: options.verbosity > 0,
        keep_directory: options.core_dumps,
    }
}
