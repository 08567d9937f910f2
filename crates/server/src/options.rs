//! The options of the server: one table, from which parsing, help, man page, completions, `stats settings` and the
//! documents follow, and [`Options`], what they come to.

mod admin;
mod busy_poll;
mod cpus;
mod documents;
mod file;
mod listen;
mod memory_file;
mod origin;
mod parse;
mod row;
mod table;
mod template;
mod tls;
mod udp;

pub use cpus::text as cpus_text;
pub use documents::{live_markdown, markdown, origins, settings};
pub use file::{FILE_LEN_MAX, File, path};
pub use listen::{Guard, Listen};
pub use memory_file::Holder;
pub use origin::{Origin, changed};
pub use parse::{Environment, OptionError, add_to, explain, parse_size, resolve, resolve_with};
pub use row::{Effect, Kind, Row, size_text};
pub use table::ROWS;
pub use template::{default_file, in_force, line};
pub use tls::TlsOptions;

use scrubjay_io::driver::choice as driver;
use scrubjay_net::BusyPoll;
use scrubjay_net::udp::Network;
use scrubjay_tls::Certificate;

/// Exit status of a wrong command line (EX_USAGE of sysexits.h).
pub const EXIT_USAGE: u8 = 64;
/// Exit status when the user of `-u` is unknown (EX_NOUSER).
pub const EXIT_NO_USER: u8 = 67;
/// Exit status when the operating system refuses something (EX_OSERR).
pub const EXIT_OS: u8 = 71;

/// Address that is served when no `-l` is given.
pub const DEFAULT_HOST: &str = "127.0.0.1";

/// The protocols that a listener speaks (`-B`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Told from the first byte of a connection.
    Auto,
    /// Text only, classic and meta.
    Text,
    /// Binary only.
    Binary,
}

impl Protocol {
    fn from_word(word: &str) -> Protocol {
        match word {
            "ascii" => Protocol::Text,
            "binary" => Protocol::Binary,
            _ => Protocol::Auto,
        }
    }

    /// The name in `stats settings`.
    pub fn setting(self) -> &'static str {
        match self {
            Protocol::Auto => "auto-negotiate",
            Protocol::Text => "ascii",
            Protocol::Binary => "binary",
        }
    }
}

/// How lines of the log look (`--log-format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// `key=value`, as logfmt.
    Logfmt,
    /// An object a line.
    Json,
}

impl LogFormat {
    fn from_word(word: &str) -> LogFormat {
        match word {
            "logfmt" => LogFormat::Logfmt,
            "json" => LogFormat::Json,
            _ => LogFormat::Text,
        }
    }

    fn word(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Logfmt => "logfmt",
            LogFormat::Json => "json",
        }
    }
}

/// Where a socket is to be: host (`None` is every address) and port (0 is any free one).
pub type Address<'a> = (Option<&'a str>, u16);

/// What the command line came to: checked, complete, in base units.
#[derive(Clone, Debug)]
pub struct Options {
    /// TCP port (`-p`): 0 is off, -1 any free one.
    pub port: i32,
    /// UDP port (`-U`): 0 is off, -1 any free one.
    pub udp_port: i32,
    /// Networks that datagrams may come from without a limit to replies, besides loopback (`--udp-allow`).
    pub udp_allowed: Vec<Network>,
    /// Bytes that other peers are sent at most for each that they sent by UDP (`--udp-amplification`).
    pub udp_amplification: u32,
    /// Addresses of `-l`; empty means [`DEFAULT_HOST`].
    pub listen: Vec<Listen>,
    /// Unix socket (`-s`).
    pub unix_socket: Option<String>,
    /// Where HTTP is answered (`-o admin`); `None`: nowhere. Always with a port.
    pub admin: Option<Listen>,
    /// Access mask of the Unix socket (`-a`).
    pub unix_mask: u32,
    /// Connections that the kernel queues (`-b`).
    pub listen_backlog: u32,
    /// Most connections at a time (`-c`).
    pub conn_limit: usize,
    /// Most connections of one address (`--connections-per-address`); 0: any number.
    pub connections_per_address: usize,
    /// Most connections of one user (`--connections-per-user`).
    pub connections_per_user: Option<u32>,
    /// Requests a second of one address (`--requests-per-address`); 0: any number.
    pub requests_per_address: u32,
    /// Requests a second of one user (`--requests-per-user`); 0: any number.
    pub requests_per_user: u32,
    /// Close connections over the limit at once, or leave them in the queue (`-o maxconns_fast`).
    pub reject_over_limit: bool,
    /// Close connections that are silent for this many seconds (`-o idle_timeout`); 0 never.
    pub idle_timeout_secs: u32,
    /// Whether `watch` is answered (not `-W`).
    pub watch_enabled: bool,
    /// Most bytes that wait for a watcher (`-o watcher_logbuf_size`).
    pub watcher_logbuf_len: usize,
    /// Bytes of each worker's log buffer (`-o worker_logbuf_size`).
    pub worker_logbuf_len: usize,
    /// How long a worker looks for requests before it sleeps (`-o busy_poll`).
    pub busy_poll: BusyPoll,
    /// CPUs of the workers (`-o worker_cpus`); none: any.
    pub cpus: Vec<usize>,
    /// Protocols spoken (`-B`).
    pub protocol: Protocol,
    /// Bytes that the cache may take (`-m`).
    pub memory_max: usize,
    /// Largest item by memcached's sum (`-I`), at most half of `memory_max`.
    pub item_size_max: usize,
    /// Keep CAS numbers (off with `-C`).
    pub cas: bool,
    /// Evict when memory is short (off with `-M`).
    pub evict: bool,
    /// Lock memory in use (`-k`).
    pub lock_memory: bool,
    /// Bytes of the ledger of items that left; `None`: a hundredth of `memory_max`.
    pub ledger_bytes: Option<usize>,
    /// File that the items live in (`-e`).
    pub memory_file: Option<String>,
    /// Who holds the items besides the server, once it has started.
    pub holder: Holder,
    /// Have a parent process that holds the items (`--keep`).
    pub keep: bool,
    /// Use huge pages (`-L`).
    pub huge_pages: bool,
    /// Put huge pages under memory in full use (`-o no_huge_pages` turns it off).
    pub collapse: bool,
    /// Worker threads (`-t`).
    pub threads: usize,
    /// How the kernel is asked about connections (`-o io_driver`); `None`: what is best here, until the server knows.
    pub io_driver: Option<driver::Kind>,
    /// Requests of one connection handled in one turn (`-R`).
    pub requests_per_turn: usize,
    /// The `shutdown` command works (`-A`).
    pub shutdown_enabled: bool,
    /// The `flush_all` command works (off with `-F`).
    pub flush_enabled: bool,
    /// Dumps of keys work (off with `-X`).
    pub dump_enabled: bool,
    /// Users log in by SASL (`-S`).
    pub sasl: bool,
    /// File of the users (`-Y`); without one nobody logs in.
    pub auth_file: Option<String>,
    /// Ends the prefix of a key in `stats detail` (`-D`).
    pub stat_delimiter: char,
    /// Whether requests are counted by prefix of key from the start (with `-D`).
    pub detail_enabled: bool,
    /// One request in so many is measured (`-o sample_interval`); 0: none.
    pub sample_interval: u32,
    /// TLS (`-Z` and the `ssl_` options).
    pub tls: TlsOptions,
    /// Run in the background (`-d`).
    pub daemon: bool,
    /// File for the process id (`-P`).
    pub pid_file: Option<String>,
    /// User to become (`-u`).
    pub user: Option<String>,
    /// Allow core dumps (`-r`).
    pub core_dumps: bool,
    /// How often `-v` was given.
    pub verbosity: u8,
    /// How lines of the log look.
    pub log_format: LogFormat,
    /// Lines for the user: options without effect, limits that were lowered.
    pub notices: Vec<String>,
    given: Vec<(&'static str, String)>,
    /// Where options got their values; the last one of each counts.
    origins: Vec<(&'static str, Origin)>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            port: 11211,
            udp_port: 0,
            udp_allowed: Vec::new(),
            udp_amplification: 3,
            listen: Vec::new(),
            unix_socket: None,
            admin: None,
            unix_mask: 0o700,
            listen_backlog: 1024,
            conn_limit: 1024,
            connections_per_address: 0,
            connections_per_user: None,
            requests_per_address: 0,
            requests_per_user: 0,
            reject_over_limit: true,
            idle_timeout_secs: 0,
            watch_enabled: true,
            watcher_logbuf_len: 256 << 10,
            worker_logbuf_len: 64 << 10,
            busy_poll: BusyPoll::Auto,
            cpus: Vec::new(),
            protocol: Protocol::Auto,
            memory_max: 64 << 20,
            item_size_max: 1 << 20,
            cas: true,
            evict: true,
            lock_memory: false,
            ledger_bytes: None,
            memory_file: None,
            holder: Holder::default(),
            keep: false,
            huge_pages: false,
            collapse: true,
            threads: 4,
            io_driver: None,
            requests_per_turn: 1024,
            shutdown_enabled: false,
            flush_enabled: true,
            dump_enabled: true,
            sasl: false,
            auth_file: None,
            stat_delimiter: ':',
            detail_enabled: false,
            sample_interval: 32,
            tls: TlsOptions::default(),
            daemon: false,
            pid_file: None,
            user: None,
            core_dumps: false,
            verbosity: 0,
            log_format: LogFormat::Text,
            notices: Vec::new(),
            given: Vec::new(),
            origins: Vec::new(),
        }
    }
}

impl Options {
    /// The text last given for the option `name`, if it was given.
    pub fn given(&self, name: &str) -> Option<&str> {
        let last = self.given.iter().rev().find(|(given, _)| *given == name);
        last.map(|(_, text)| text.as_str())
    }

    /// The TCP listeners asked for; none with `-p 0`, and none beside a Unix socket, as in memcached.
    pub fn tcp_addresses(&self) -> Vec<Address<'_>> {
        self.tcp_listeners()
            .into_iter()
            .map(|(address, _)| address)
            .collect()
    }

    /// As [`Options::tcp_addresses`], each with what its clients are asked for if it is encrypted.
    pub fn tcp_listeners(&self) -> Vec<(Address<'_>, Option<Certificate>)> {
        let guarded = |(address, guard)| (address, self.tls.guard(guard));
        self.addresses(self.port).into_iter().map(guarded).collect()
    }

    /// The UDP sockets asked for; none without `-U`, and none beside a Unix socket, as in memcached.
    pub fn udp_addresses(&self) -> Vec<Address<'_>> {
        let addresses = self.addresses(self.udp_port).into_iter();
        addresses.map(|(address, _)| address).collect()
    }

    /// Where HTTP is to be answered; `None`: nowhere.
    pub fn admin_address(&self) -> Option<Address<'_>> {
        let place = self.admin.as_ref()?;
        Some((place.host.as_deref(), place.port.unwrap_or(0)))
    }

    fn addresses(&self, port: i32) -> Vec<(Address<'_>, Guard)> {
        if port == 0 || self.unix_socket.is_some() {
            return Vec::new();
        }
        let port = u16::try_from(port).unwrap_or(0);
        if self.listen.is_empty() {
            return vec![((Some(DEFAULT_HOST), port), Guard::AsOthers)];
        }
        let address = |listen: &'_ Listen| listen.port.unwrap_or(port);
        self.listen
            .iter()
            .map(|listen| ((listen.host.as_deref(), address(listen)), listen.guard))
            .collect()
    }

    /// Whether nobody outside this machine can connect.
    pub fn is_loopback_only(&self) -> bool {
        let none = self.tcp_addresses().is_empty() && self.udp_addresses().is_empty();
        let cache = none || self.listen.iter().all(Listen::is_loopback);
        cache && self.admin.as_ref().is_none_or(Listen::is_loopback)
    }

    /// The engine's configuration.
    ///
    /// `unix_millis_at_start` is the Unix time at the clock's start, `hash_seed` comes from the system's entropy.
    pub fn cache_config(&self, unix_millis_at_start: u64, hash_seed: u64) -> scrubjay_cache::Config {
        // Whoever touches 2 MiB that become a huge page waits for milliseconds. The smaller a cache, the more touch them, and the
        // nearer its page tables come to fit in the processor's caches.
        const COLLAPSE_MIN: usize = 512 << 20;
        // Beside the worker threads the maintenance thread may look at the cache, and the admin thread does.
        const OTHER_THREADS: usize = 2;
        let admin_threads = usize::from(self.admin.is_some());
        scrubjay_cache::Config {
            memory_max: self.memory_max,
            item_size_max: self.item_size_max,
            cas: self.cas,
            evict: self.evict,
            unix_millis_at_start,
            hash_seed,
            workers_max: self.threads + OTHER_THREADS + admin_threads,
            huge_pages: self.huge_pages,
            collapse: self.collapse && self.memory_max >= COLLAPSE_MIN,
            lock_memory: self.lock_memory,
            ledger_bytes: self.ledger_bytes,
        }
    }
}
