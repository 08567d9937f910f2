//! Where the items live (`-e`), and what that means for a restart.

use super::Options;

/// Who holds the items besides the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holder {
    /// Nobody: they go with the process.
    #[default]
    Nobody,
    /// The parent process of `--keep`.
    Keeper,
    /// A supervisor such as systemd that took a descriptor.
    Supervisor,
    /// The file system, under a name (`-e`).
    File,
}

impl Holder {
    /// What the items survive, in `stats settings`.
    pub fn survives(self) -> &'static str {
        match self {
            Holder::Nobody => "upgrade",
            Holder::Keeper => "upgrade,kill",
            Holder::Supervisor | Holder::File => "upgrade,restart,kill",
        }
    }

    /// As [`Holder::survives`], for people.
    pub fn words(self) -> &'static str {
        match self {
            Holder::Nobody => {
                "items survive an upgrade (kill -USR2); not a stop, not a crash: see --keep and -e"
            }
            Holder::Keeper => {
                "items survive an upgrade (kill -USR2), a crash and kill -9 (--keep); not a stop: see -e"
            }
            Holder::Supervisor => {
                "items survive an upgrade (kill -USR2), a restart, a crash and kill -9, if the unit has FileDescriptorStoreMax="
            }
            Holder::File => {
                "items survive an upgrade (kill -USR2), a stop and start, a crash and kill -9 (-e); not a reboot"
            }
        }
    }
}

/// Takes the path of `-e`.
pub(super) fn set(options: &mut Options, path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("the path is empty; give a file on tmpfs, such as /dev/shm/scrubjay".to_owned());
    }
    options.memory_file = Some(path.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Holder;

    #[test]
    fn what_is_said_to_people_and_to_tools_agrees() {
        for holder in [Holder::Nobody, Holder::Keeper, Holder::Supervisor, Holder::File] {
            let (kept, _) = holder.words().split_once(';').unwrap_or((holder.words(), ""));
            for (word, said) in [("kill", "kill -9"), ("upgrade", "upgrade")] {
                let survives = holder.survives().split(',').any(|part| part == word);
                assert_eq!(survives, kept.contains(said), "{holder:?}: {word}");
            }
        }
    }
}
