//! What a process, or one thread of this one, has used so far, as `/proc` tells it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Whose usage is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// All threads of the process with this id.
    Process(u32),
    /// One thread of this process.
    Thread(u32),
}

/// What was used up to a moment, or between two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Nanoseconds on a processor, by thread.
    pub cpu_nanos: BTreeMap<u32, u64>,
    /// Context switches, voluntary and not.
    pub switches: u64,
    /// Calls of read, write and their vectored kin. The kernel does not count recv and send here, so a server that
    /// receives by read and answers by send shows its reads.
    pub reads_and_writes: u64,
}

impl Usage {
    /// Nanoseconds of all threads together.
    pub fn cpu_nanos_sum(&self) -> u64 {
        self.cpu_nanos.values().sum()
    }

    /// Nanoseconds of the thread that ran most.
    pub fn cpu_nanos_max(&self) -> u64 {
        self.cpu_nanos.values().copied().max().unwrap_or(0)
    }

    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Usage) -> Usage {
        let before = |thread| earlier.cpu_nanos.get(thread).copied().unwrap_or(0);
        Usage {
            cpu_nanos: self
                .cpu_nanos
                .iter()
                .map(|(thread, nanos)| (*thread, nanos.saturating_sub(before(thread))))
                .collect(),
            switches: self.switches.saturating_sub(earlier.switches),
            reads_and_writes: self.reads_and_writes.saturating_sub(earlier.reads_and_writes),
        }
    }
}

impl Whose {
    /// The ids of its threads; none if there is no such process.
    pub(crate) fn threads(self) -> Vec<u32> {
        let process = match self {
            Whose::Process(process) => process,
            Whose::Thread(thread) => return vec![thread],
        };
        let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
        let ids = tasks.into_iter().flatten().flatten();
        ids.filter_map(|task| task.file_name().to_string_lossy().parse().ok())
            .collect()
    }

    /// What was used so far; `None` if there is no such process or it may not be looked at.
    pub fn usage(self) -> Option<Usage> {
        let mut usage = Usage::default();
        let io = match self {
            Whose::Process(process) => {
                let folder = PathBuf::from(format!("/proc/{process}"));
                let threads = self.threads();
                if threads.is_empty() {
                    return None;
                }
                for thread in threads {
                    // A thread may end while it is looked at.
                    let _ = usage.add_thread(thread, &folder.join(format!("task/{thread}")));
                }
                folder.join("io")
            }
            Whose::Thread(thread) => {
                let folder = PathBuf::from(format!("/proc/self/task/{thread}"));
                usage.add_thread(thread, &folder)?;
                folder.join("io")
            }
        };
        // Another user's process does not show this one.
        let text = std::fs::read_to_string(io).unwrap_or_default();
        usage.reads_and_writes = sum_of(&text, &["syscr:", "syscw:"]);
        Some(usage)
    }
}

impl Usage {
    fn add_thread(&mut self, thread: u32, folder: &Path) -> Option<()> {
        let text = std::fs::read_to_string(folder.join("schedstat")).ok()?;
        let nanos = text.split(' ').next()?.parse().ok()?;
        let status = std::fs::read_to_string(folder.join("status")).ok()?;
        self.cpu_nanos.insert(thread, nanos);
        self.switches += sum_of(
            &status,
            &["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"],
        );
        Some(())
    }
}

/// The sum of the numbers behind `names` at the beginnings of lines.
fn sum_of(text: &str, names: &[&str]) -> u64 {
    let number = |line: &str| {
        let rest = names.iter().find_map(|name| line.strip_prefix(name))?;
        rest.trim().parse::<u64>().ok()
    };
    text.lines().filter_map(number).sum()
}

#[cfg(test)]
mod tests {
    use super::{Usage, Whose, sum_of};

    #[test]
    fn own_usage_grows_and_a_process_that_is_not_there_has_none() {
        let own = Whose::Process(std::process::id());
        let before = own.usage().expect("this process");
        let thread = Whose::Thread(crate::thread::id());
        assert_eq!(thread.usage().expect("this thread").cpu_nanos.len(), 1);
        let _ = std::fs::read("/proc/self/status");
        let used = own.usage().expect("this process").since(&before);
        assert!(used.reads_and_writes > 0);
        assert_eq!(Whose::Process(u32::MAX).usage(), None);
    }

    #[test]
    fn what_is_used_between_two_moments_is_the_difference_thread_by_thread() {
        let usage = |threads: &[(u32, u64)], switches| Usage {
            cpu_nanos: threads.iter().copied().collect(),
            switches,
            reads_and_writes: 0,
        };
        let used = usage(&[(1, 50), (2, 70)], 9).since(&usage(&[(1, 40)], 4));
        assert_eq!(used, usage(&[(1, 10), (2, 70)], 5));
        assert_eq!((used.cpu_nanos_sum(), used.cpu_nanos_max()), (80, 70));
        assert_eq!(sum_of("a: 3\nb:\t4\nc: 5\n", &["a:", "b:"]), 7);
    }
}
