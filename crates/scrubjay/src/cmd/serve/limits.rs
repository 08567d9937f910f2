//! Limits that were reached: what the log tells of them, and what to do about it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use scrubjay_io::driver::choice;
use scrubjay_io::process;
use scrubjay_server::options::{EXIT_OS, OptionError, Options};
use scrubjay_server::service::Shared;

use crate::log;

/// Makes room for the connections that `-c` allows and `others`: as open files of the process where so many are allowed, else in
/// io_uring's slots as well.
///
/// # Errors
/// There is not so much room; nothing was changed but the process's own limit, which is at its highest then.
pub fn settle_files(options: &Options, others: u64) -> Result<(), OptionError> {
    let wanted = options.conn_limit as u64 + others;
    let with_room = choice::files_with_room(wanted);
    if process::raise_open_files(with_room).is_ok() || process::raise_open_files(wanted).is_ok() {
        return Ok(());
    }
    let files = process::raise_open_files_to_the_most();
    let most = choice::files_max(options.io_driver, options.threads, files);
    if wanted <= most {
        return Ok(());
    }
    let connections = most.saturating_sub(others);
    Err(OptionError {
        message: format!(
            "-c {}: this process may open {files} files (ulimit -n), and have {connections} connections with -t {}; lower -c, \
             raise ulimit -n, or raise -t where io_uring can be used",
            options.conn_limit, options.threads
        ),
        exit: EXIT_OS,
    })
}

/// Raises the limit of what may be locked into RAM as far as it is allowed (`-k`), while that may still be done as root.
pub fn settle_locked_bytes(options: &Options) {
    let wanted = options.memory_max as u64;
    let allowed = process::raise_locked_bytes(wanted, options.user.is_none());
    if allowed < wanted {
        log::warning(&format!(
            "-k: this process may lock {} of {} MiB into RAM (RLIMIT_MEMLOCK), the rest can be swapped; give LimitMEMLOCK=infinity \
             in the systemd unit, or raise ulimit -l",
            allowed >> 20,
            wanted >> 20
        ));
    }
}

/// What was seen at the last look.
#[derive(Debug, Default)]
pub struct Watch {
    refused: u64,
    refused_of_address: u64,
    held_by_address: u64,
    held_by_user: u64,
    waiting: u64,
    locks_refused: u64,
    is_full: bool,
}

impl Watch {
    /// Looks, now and then, and tells what is new.
    pub fn look(&mut self, shared: &Shared) {
        let net = &shared.net;
        let most = || shared.options_now().conn_limit;
        if rose(&net.rejected_connections, &mut self.refused) {
            log::warning_of(
                "refused",
                &format!(
                    "there are as many connections as -c allows, {}, and more are refused; raise -c, or close idle ones with \
                     -o idle_timeout",
                    most()
                ),
            );
        }
        if rose(&net.listen_disabled_num, &mut self.waiting) {
            log::warning_of(
                "waiting",
                &format!(
                    "connections wait to be accepted: there are as many as -c allows, {}, or no descriptors are left; raise -c \
                     or ulimit -n",
                    most()
                ),
            );
        }
        if rose(&net.rejected_by_address, &mut self.refused_of_address) {
            log::warning_of(
                "refused_of_address",
                "an address has as many connections as --connections-per-address allows, and more are refused; see who it is \
                 with `stats conns`, or raise that limit",
            );
        }
        if rose(&net.held_by_address.times, &mut self.held_by_address)
            && let Some(address) = net.take_address_held()
        {
            log::warning_of(
                "held_by_address",
                &format!(
                    "{} asks more than --requests-per-address allows, and has to wait; see with `stats conns` who else has \
                     (conn_held_back), or raise that limit",
                    counted(address)
                ),
            );
        }
        let held_user = || shared.auth.as_ref().and_then(|auth| auth.take_held());
        if rose(&net.held_by_user.times, &mut self.held_by_user)
            && let Some(user) = held_user()
        {
            log::warning_of(
                "held_by_user",
                &format!(
                    "user {user} asks more than --requests-per-user allows, and has to wait; find the client that asks too \
                     much, or raise that limit"
                ),
            );
        }
        let locks_refused = shared.cache.locks_refused();
        if std::mem::replace(&mut self.locks_refused, locks_refused) < locks_refused {
            log::warning_of(
                "locks_refused",
                "-k: the operating system refused to lock a segment into RAM, so that it can be swapped; give \
                 LimitMEMLOCK=infinity in the systemd unit, or raise ulimit -l",
            );
        }
        if !self.is_full && shared.cache.counters().removed.evicted > 0 {
            self.is_full = true;
            log::notice(
                "the memory is full: from now on items are evicted for new ones; `scrubjay mrc` tells what more memory would bring",
            );
        }
    }
}

/// What is counted as one address.
fn counted(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(network) => format!("{network}/64"),
    }
}

/// Whether a count is higher than it was.
fn rose(count: &AtomicU64, seen: &mut u64) -> bool {
    let now = count.load(Ordering::Relaxed);
    std::mem::replace(seen, now) < now
}
