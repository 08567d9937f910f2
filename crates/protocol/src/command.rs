//! The table of commands: what a line may start with, how many words it has, what it is for.

/// Which command, with what tells the members of a family apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A look-up of any number of keys.
    Get {
        /// CAS numbers are sent.
        with_cas: bool,
        /// The first word is a new exptime.
        touch: bool,
    },
    /// A line and a data block.
    Store(StoreVerb),
    /// Arithmetic.
    Arith {
        /// Subtract.
        decrement: bool,
    },
    /// `delete`
    Delete,
    /// `touch`
    Touch,
    /// `mg`
    MetaGet,
    /// `ms`
    MetaSet,
    /// `md`
    MetaDelete,
    /// `ma`
    MetaArith,
    /// `mn`
    MetaNoop,
    /// `me`
    MetaDebug,
    /// `flush_all`
    FlushAll,
    /// `version`
    Version,
    /// `verbosity`
    Verbosity,
    /// `stats`
    Stats,
    /// `quit`
    Quit,
    /// `shutdown`
    Shutdown,
    /// `cache_memlimit`
    CacheMemlimit,
    /// One that tunes or watches what this server does not have; see [`crate::text::Tuning`].
    Tuning(crate::text::Tuning),
}

/// What a storage command does with an existing item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerb {
    /// Store whatever is there.
    Set,
    /// Only if there is none.
    Add,
    /// Only if there is one.
    Replace,
    /// Behind the existing value.
    Append,
    /// Before the existing value.
    Prepend,
    /// Only over the version named.
    Cas,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The first word of the line.
    pub name: &'static str,
    /// What it is.
    pub verb: Verb,
    /// Least words of the line, the name included; fewer are answered with `ERROR`.
    pub words_min: usize,
    /// Most words; more are answered with `ERROR`.
    pub words_max: usize,
    /// What it is for.
    pub doc: &'static str,
}

/// Stands for no limit of words.
const MANY: usize = usize::MAX;

/// A row of the table.
const fn row(
    name: &'static str,
    verb: Verb,
    (words_min, words_max): (usize, usize),
    doc: &'static str,
) -> Command {
    Command {
        name,
        verb,
        words_min,
        words_max,
        doc,
    }
}

const fn get(with_cas: bool, touch: bool) -> Verb {
    Verb::Get { with_cas, touch }
}

/// Every command of the text protocols, the most frequent ones first. Bounds of words are memcached 1.6.18's.
pub const COMMANDS: &[Command] = &[
    row("get", get(false, false), (2, MANY), "values of keys"),
    row("mg", Verb::MetaGet, (2, MANY), "a value and what is known about it"),
    row("set", Verb::Store(StoreVerb::Set), (5, 6), "store"),
    row("ms", Verb::MetaSet, (2, MANY), "store, in any of the modes"),
    row("md", Verb::MetaDelete, (2, MANY), "delete or invalidate"),
    row("ma", Verb::MetaArith, (2, MANY), "count up or down"),
    row("mn", Verb::MetaNoop, (1, MANY), "answer MN"),
    row("me", Verb::MetaDebug, (1, MANY), "what is known about an item, for people"),
    row("gets", get(true, false), (2, MANY), "values of keys with CAS numbers"),
    row("gat", get(false, true), (2, MANY), "values of keys, and a new exptime"),
    row("gats", get(true, true), (2, MANY), "values of keys with CAS numbers, and a new exptime"),
    row("delete", Verb::Delete, (2, 4), "delete"),
    row("incr", Verb::Arith { decrement: false }, (3, 4), "count up"),
    row("decr", Verb::Arith { decrement: true }, (3, 4), "count down"),
    row("touch", Verb::Touch, (3, 4), "a new exptime"),
    row("add", Verb::Store(StoreVerb::Add), (5, 6), "store what is not there"),
    row("replace", Verb::Store(StoreVerb::Replace), (5, 6), "store over what is there"),
    row("append", Verb::Store(StoreVerb::Append), (5, 6), "put behind the value"),
    row("prepend", Verb::Store(StoreVerb::Prepend), (5, 6), "put before the value"),
    row("cas", Verb::Store(StoreVerb::Cas), (6, 7), "store over the version that was read"),
    row("flush_all", Verb::FlushAll, (1, 3), "forget everything, now or later"),
    row("version", Verb::Version, (1, MANY), "the version"),
    row("verbosity", Verb::Verbosity, (2, 3), "how much is logged"),
    row("stats", Verb::Stats, (1, MANY), "statistics"),
    row("quit", Verb::Quit, (1, MANY), "close the connection"),
    row("shutdown", Verb::Shutdown, (1, MANY), "stop the server, where -A allows it"),
    row("cache_memlimit", Verb::CacheMemlimit, (2, 3), "change -m, in MiB"),
    row("slabs", Verb::Tuning(crate::text::Tuning::Slabs), (1, MANY), "memcached's allocator"),
    row("lru", Verb::Tuning(crate::text::Tuning::Lru), (1, MANY), "memcached's eviction"),
    row("lru_crawler", Verb::Tuning(crate::text::Tuning::LruCrawler), (1, MANY), "memcached's expiry"),
    row("watch", Verb::Tuning(crate::text::Tuning::Watch), (1, MANY), "a stream of events"),
    row("refresh_certs", Verb::Tuning(crate::text::Tuning::RefreshCerts), (1, MANY), "read certificates again"),
    row("extstore", Verb::Tuning(crate::text::Tuning::Extstore), (1, MANY), "memcached's flash storage"),
];

/// The command called `name`; names are lower case.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes() == name)
}
