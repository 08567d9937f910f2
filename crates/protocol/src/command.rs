//! THE table of text commands: each verb of the classic and the meta protocol, once.

/// What a verb asks for; decides how its line is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `get KEY...`
    Get {
        /// Answer CAS numbers too.
        cas: bool,
        /// An exptime comes before the keys.
        touch: bool,
    },
    /// `set KEY FLAGS EXPTIME LENGTH [CAS] [noreply]` and a data block.
    Store(StoreVerb),
    /// `incr KEY DELTA [noreply]`
    Arith {
        /// Subtract.
        decrement: bool,
    },
    /// `delete KEY [0] [noreply]`
    Delete,
    /// `touch KEY EXPTIME [noreply]`
    Touch,
    /// `flush_all [DELAY] [noreply]`
    FlushAll,
    /// `verbosity LEVEL [noreply]`
    Verbosity,
    /// `version`
    Version,
    /// `stats [WHAT...]`
    Stats,
    /// `quit`
    Quit,
    /// `shutdown [graceful]`
    Shutdown,
    /// `cache_memlimit MEGABYTES [noreply]`
    CacheMemlimit,
    /// Commands about memcached's own insides.
    Insides(Insides),
    /// `mg KEY FLAG...`
    MetaGet,
    /// `ms KEY LENGTH FLAG...` and a data block.
    MetaSet,
    /// `md KEY FLAG...`
    MetaDelete,
    /// `ma KEY FLAG...`
    MetaArith,
    /// `mn`
    MetaNoop,
    /// `me KEY [b]`
    MetaDebug,
    /// `why KEY [b]`
    Why,
}

/// The classic storage commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerb {
    /// Store whatever is there.
    Set,
    /// Store if there is nothing.
    Add,
    /// Store if there is something.
    Replace,
    /// Put behind.
    Append,
    /// Put before.
    Prepend,
    /// Store if unchanged.
    Cas,
}

/// Commands that steer parts which memcached has and this server has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insides {
    /// `slabs reassign|automove`
    Slabs,
    /// `lru tune|mode|temp_ttl`
    Lru,
    /// `lru_crawler ...`
    LruCrawler,
    /// `watch ...`
    Watch,
    /// `extstore ...`
    Extstore,
    /// `refresh_certs`
    RefreshCerts,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The word it starts with.
    pub verb: &'static str,
    /// How its line is read and what it does.
    pub shape: Shape,
    /// Tokens of its line, the verb counted: at least and at most.
    pub tokens: (usize, usize),
    /// One line of help.
    pub doc: &'static str,
}

const MANY: usize = usize::MAX;

const fn row(verb: &'static str, shape: Shape, tokens: (usize, usize), doc: &'static str) -> Command {
    Command {
        verb,
        shape,
        tokens,
        doc,
    }
}

/// All commands.
pub const COMMANDS: &[Command] = &[
    row(
        "get",
        Shape::Get {
            cas: false,
            touch: false,
        },
        (2, MANY),
        "read items",
    ),
    row(
        "gets",
        Shape::Get {
            cas: true,
            touch: false,
        },
        (2, MANY),
        "read items with their CAS numbers",
    ),
    row(
        "gat",
        Shape::Get {
            cas: false,
            touch: true,
        },
        (2, MANY),
        "read items and give them a new exptime",
    ),
    row(
        "gats",
        Shape::Get {
            cas: true,
            touch: true,
        },
        (2, MANY),
        "gat with CAS numbers",
    ),
    row("set", Shape::Store(StoreVerb::Set), (5, 6), "store an item"),
    row(
        "add",
        Shape::Store(StoreVerb::Add),
        (5, 6),
        "store an item if there is none",
    ),
    row(
        "replace",
        Shape::Store(StoreVerb::Replace),
        (5, 6),
        "store an item if there is one",
    ),
    row(
        "append",
        Shape::Store(StoreVerb::Append),
        (5, 6),
        "put bytes behind a value",
    ),
    row(
        "prepend",
        Shape::Store(StoreVerb::Prepend),
        (5, 6),
        "put bytes before a value",
    ),
    row(
        "cas",
        Shape::Store(StoreVerb::Cas),
        (6, 7),
        "store an item if it is unchanged",
    ),
    row("delete", Shape::Delete, (2, 4), "delete an item"),
    row(
        "incr",
        Shape::Arith { decrement: false },
        (3, 4),
        "add to a number, wrapping at 2^64",
    ),
    row(
        "decr",
        Shape::Arith { decrement: true },
        (3, 4),
        "subtract from a number, down to 0",
    ),
    row("touch", Shape::Touch, (3, 4), "give an item a new exptime"),
    row("mg", Shape::MetaGet, (2, MANY), "meta get"),
    row("ms", Shape::MetaSet, (2, MANY), "meta set"),
    row("md", Shape::MetaDelete, (2, MANY), "meta delete and invalidate"),
    row("ma", Shape::MetaArith, (2, MANY), "meta arithmetic"),
    row(
        "mn",
        Shape::MetaNoop,
        (1, MANY),
        "meta no-op, the end of a quiet batch",
    ),
    row("me", Shape::MetaDebug, (1, MANY), "what is known of an item"),
    row(
        "why",
        Shape::Why,
        (1, MANY),
        "where an item is, or why it is gone",
    ),
    row(
        "flush_all",
        Shape::FlushAll,
        (1, 3),
        "make everything unreadable, now or later",
    ),
    row("stats", Shape::Stats, (1, MANY), "statistics"),
    row("version", Shape::Version, (1, MANY), "the protocol version"),
    row("verbosity", Shape::Verbosity, (2, 3), "how much the server says"),
    row(
        "cache_memlimit",
        Shape::CacheMemlimit,
        (2, 3),
        "change the memory limit",
    ),
    row("quit", Shape::Quit, (1, MANY), "close the connection"),
    row(
        "shutdown",
        Shape::Shutdown,
        (1, MANY),
        "stop the server, if that is allowed",
    ),
    row(
        "slabs",
        Shape::Insides(Insides::Slabs),
        (3, MANY),
        "answered, no effect: there are no slab classes",
    ),
    row(
        "lru",
        Shape::Insides(Insides::Lru),
        (3, MANY),
        "answered, no effect: there is no LRU",
    ),
    row(
        "lru_crawler",
        Shape::Insides(Insides::LruCrawler),
        (2, MANY),
        "metadump and mgdump list keys; the rest has no effect: expiry needs no crawler",
    ),
    row(
        "watch",
        Shape::Insides(Insides::Watch),
        (1, MANY),
        "turn the connection into a stream of lines about what the server does",
    ),
    row(
        "extstore",
        Shape::Insides(Insides::Extstore),
        (3, MANY),
        "refused: there is no second tier",
    ),
    row(
        "refresh_certs",
        Shape::Insides(Insides::RefreshCerts),
        (1, MANY),
        "reads the certificates of TLS again",
    ),
    row(
        "bget",
        Shape::Get {
            cas: false,
            touch: false,
        },
        (2, MANY),
        "get, by the name that it had once where values may be binary",
    ),
];

/// Which row may have a verb, by its first two bytes, its last one and its length.
const ROWS_BY_VERB: [u8; SLOTS] = {
    let mut rows = [NO_ROW; SLOTS];
    let mut row = 0;
    while row < COMMANDS.len() {
        let slot = slot(COMMANDS[row].verb.as_bytes());
        assert!(
            rows[slot] == NO_ROW,
            "two verbs share a slot: take another VERB_FACTOR"
        );
        rows[slot] = row as u8;
        row += 1;
    }
    rows
};

const SLOTS: usize = 128;
const NO_ROW: u8 = u8::MAX;
/// Found by trying: with it no two verbs share a slot.
const VERB_FACTOR: u32 = 0x35bf_992d;

/// Where a verb of two bytes or more stands in [`ROWS_BY_VERB`].
const fn slot(verb: &[u8]) -> usize {
    let word = u32::from_le_bytes([verb[0], verb[1], verb[verb.len() - 1], verb.len() as u8]);
    (word.wrapping_mul(VERB_FACTOR) >> (u32::BITS - SLOTS.trailing_zeros())) as usize
}

/// The number of the row of `verb`, in [`COMMANDS`]. The usual ones are found without a computation.
#[inline]
pub fn position(verb: &[u8]) -> Option<usize> {
    match verb {
        b"get" => Some(0),
        b"set" => Some(4),
        b"mg" => Some(14),
        b"ms" => Some(15),
        [] | [_] => None,
        _ => {
            let row = usize::from(ROWS_BY_VERB[slot(verb)]);
            COMMANDS
                .get(row)
                .is_some_and(|command| command.verb.as_bytes() == verb)
                .then_some(row)
        }
    }
}

/// The row of `verb`.
#[inline]
pub fn find(verb: &[u8]) -> Option<&'static Command> {
    position(verb).map(|row| &COMMANDS[row])
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, find};

    #[test]
    fn every_verb_is_found_once_and_as_itself() {
        for command in COMMANDS {
            assert_eq!(
                find(command.verb.as_bytes()).map(|found| found.verb),
                Some(command.verb)
            );
            assert_eq!(
                COMMANDS.iter().filter(|other| other.verb == command.verb).count(),
                1
            );
        }
        assert!(find(b"GET").is_none());
        assert!(find(b"").is_none());
    }
}
