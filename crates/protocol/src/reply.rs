//! Replies of the text protocols: the only home of their wording. Source: memcached doc/protocol.txt; where it is silent,
//! memcached 1.6.18's own words, for clients compare them.

mod line;

pub use scrubjay_base::number::append as number;

pub use self::line::{Line, NUMBER_LEN_MAX, key_len_max};

/// Words of a reply line, without its end.
pub type Words = &'static str;

/// Unknown command, or the wrong number of words.
pub const ERROR: Words = "ERROR";
/// A number or a key is not what it must be.
pub const BAD_FORMAT: Words = "CLIENT_ERROR bad command line format";
/// As above, of delete.
pub const BAD_DELETE: Words = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
/// A data block is not followed by a line end.
pub const BAD_CHUNK: Words = "CLIENT_ERROR bad data chunk";
/// An exptime is no number.
pub const BAD_EXPTIME: Words = "CLIENT_ERROR invalid exptime argument";
/// A delta is no number.
pub const BAD_DELTA: Words = "CLIENT_ERROR invalid numeric delta argument";
/// A value is no number.
pub const NON_NUMERIC: Words = "CLIENT_ERROR cannot increment or decrement non-numeric value";
/// A value is over the item size limit.
pub const TOO_LARGE: Words = "SERVER_ERROR object too large for cache";
/// No memory for a value.
pub const NO_MEMORY: Words = "SERVER_ERROR out of memory storing object";
/// No memory for a new number.
pub const NO_MEMORY_ARITH: Words = "SERVER_ERROR out of memory";
/// flush_all is off (`-F`).
pub const FLUSH_OFF: Words = "CLIENT_ERROR flush_all not allowed";
/// shutdown is off (no `-A`).
pub const SHUTDOWN_OFF: Words = "ERROR: shutdown not enabled";
/// `shutdown` with another word than `graceful`.
pub const SHUTDOWN_MODE: Words = "CLIENT_ERROR invalid shutdown mode";
/// The memory limit asked for is too small.
pub const MEMLIMIT_TOO_SMALL: Words = "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m";
/// The memory limit asked for looks like bytes.
pub const MEMLIMIT_IN_BYTES: Words = "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes";
/// The memory limit cannot go that far.
pub const MEMLIMIT_OUT_OF_BOUNDS: Words = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust: an eighth to eight \
                                           times the limit at start, and at least twice -I; beyond that a restart is better";
/// A watch is asked for.
pub const NO_WATCH: Words = "CLIENT_ERROR watch commands not allowed";
/// A dump is asked for.
pub const NO_DUMP: Words = "ERROR metadump not allowed";
/// A dump with words that nobody knows.
pub const DUMP_WORDS: Words = "CLIENT_ERROR behind the classes of a dump come prefix= size>= size<= age>= age<= ttl>= \
                               ttl<= limit= or from=";
/// A dump is to go on from a cursor of another server, or of this one before it was started again.
pub const FOREIGN_CURSOR: Words = "CLIENT_ERROR this cursor is not of this server, start anew";
/// `stats cachedump` where dumps are off (`-X`).
pub const NO_CACHEDUMP: Words = "CLIENT_ERROR stats cachedump not allowed";
/// `lru_crawler` with no class at all.
pub const NOTHING_TO_CRAWL: Words = "NOTSTARTED no items to crawl";
/// Certificates are to be read again.
pub const NO_TLS: Words = "Error TLS not enabled";
/// `slabs reassign` from a class that has nothing to give.
pub const NO_SPARE: Words = "NOSPARE source class has no spare pages";
/// `slabs reassign` with a class that nobody has.
pub const BAD_CLASSES: Words = "BADCLASS invalid src or dst class id";
/// `lru_crawler crawl` with a class that nobody has.
pub const BAD_CLASS: Words = "BADCLASS invalid class id";
/// `lru_crawler sleep` with too long a time.
pub const CRAWLER_SLEEP: Words = "CLIENT_ERROR sleep must be one second or less";
/// `slabs reassign` from a class to itself.
pub const SAME_CLASS: Words = "SAME src and dst class are identical";
/// `stats detail` without a word that it knows.
pub const STATS_DETAIL_USAGE: Words = "CLIENT_ERROR usage: stats detail on|off|dump";
/// `stats cachedump` without its numbers.
pub const BAD_LINE: Words = "CLIENT_ERROR bad command line";

/// `stats cachedump` of a class that nobody has.
pub const BAD_SLAB: Words = "CLIENT_ERROR Illegal slab id";

/// Anything but a login before the login.
pub const UNAUTHENTICATED: Words = "CLIENT_ERROR unauthenticated";
/// A login with a wrong name or password.
pub const AUTH_FAILURE: Words = "CLIENT_ERROR authentication failure";
/// A login's data block is not followed by a line end.
pub const AUTH_BAD_END: Words = "CLIENT_ERROR bad command line termination";
/// A login's data block is not a name, a blank and a password.
pub const AUTH_BAD_TOKEN: Words = "CLIENT_ERROR bad authentication token format";
/// A login's data block is longer than any login's.
pub const AUTH_TOO_LONG: Words = "CLIENT_ERROR auth token too long";
/// A login of a user who has as many connections as are allowed.
pub const TOO_MANY_OF_USER: Words = "ERROR Too many open connections of this user";
/// A login that cannot be checked soon.
pub const LOGINS_BUSY: Words = "SERVER_ERROR too many logins at a time, try again later";
/// A change by a user who may only read.
pub const MAY_ONLY_READ: Words = "CLIENT_ERROR this user may only read";
/// A command for administrators from another user.
pub const MAY_NOT_ADMINISTER: Words = "CLIENT_ERROR this user may not administer the server";

/// Meta: a flag occurs twice.
pub const META_DUPLICATE: Words = "CLIENT_ERROR duplicate flag";
/// Meta: no such flag.
pub const META_INVALID: Words = "CLIENT_ERROR invalid flag";
/// Meta: any flag error of `md` and `ma`.
pub const META_INVALID_OR_DUPLICATE: Words = "CLIENT_ERROR invalid or duplicate flag";
/// Meta: a flag's token is no number.
pub const META_BAD_TOKEN: Words = "CLIENT_ERROR bad token in command line format";
/// Meta: the key is not base64.
pub const META_BAD_KEY: Words = "CLIENT_ERROR error decoding key";
/// Meta: the opaque is over 31 bytes.
pub const META_OPAQUE_TOO_LONG: Words = "CLIENT_ERROR opaque token too long";
/// `mg` with too many flags.
pub const META_GET_TOO_MANY_FLAGS: Words = "CLIENT_ERROR options flags are too long";
/// Other meta commands with too many flags.
pub const META_TOO_MANY_FLAGS: Words = "CLIENT_ERROR options flags too long";
/// Meta: the delta is no number.
pub const META_BAD_DELTA: Words = "CLIENT_ERROR invalid numeric delta value";
/// Meta: the mode is not one letter.
pub const META_MODE_LENGTH: Words = "CLIENT_ERROR incorrect length for M token";
/// Meta: `ms` has no such mode.
pub const META_SET_MODE: Words = "CLIENT_ERROR invalid mode for ms M token";
/// Meta: `ma` has no such mode.
pub const META_ARITH_MODE: Words = "CLIENT_ERROR invalid mode for ma M token";
/// Meta: the initial number is none.
pub const META_BAD_INITIAL: Words = "CLIENT_ERROR invalid numeric initial value";

/// Appends a reply line.
#[inline]
pub fn line(out: &mut Vec<u8>, words: &str) {
    out.extend_from_slice(words.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes `VALUE key flags length[ cas]\r\n`, for which there is [`value_head_len_max`].
#[inline]
pub fn value_head<'o>(line: Line<'o>, key: &[u8], flags: u32, len: usize, cas: Option<u64>) -> Line<'o> {
    let line = line.push(*b"VALUE ").bytes(key).push(*b" ").number(flags.into());
    let line = line.push(*b" ").number(len as u64);
    let line = match cas {
        Some(cas) => line.push(*b" ").number(cas),
        None => line,
    };
    line.push(*b"\r\n")
}

/// Bytes of a [`value_head`] at most.
#[inline]
pub const fn value_head_len_max(key_len: usize) -> usize {
    const NUMBERS: usize = 3;
    b"VALUE \r\n".len() + key_len + NUMBERS * (1 + NUMBER_LEN_MAX)
}

/// Appends `STAT name value\r\n`.
pub fn stat(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in ["STAT ", name, " ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}
