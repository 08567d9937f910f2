//! What a server answers, and why a conversation with it breaks.

use std::fmt;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// There is a value.
    Value(Value),
    /// There is no value.
    Miss,
    /// It was stored.
    Stored,
    /// It was not stored, as the mode said.
    NotStored,
    /// Somebody else has changed the item.
    Exists,
    /// There is no such item to change.
    NotFound,
    /// The item is gone, or stale if that was asked for.
    Deleted,
    /// The item has its new exptime.
    Touched,
    /// All items are gone, or will be.
    Flushed,
    /// The new number.
    Number(u64),
    /// The server is there.
    Alive,
    /// The server's version, as it says it.
    Version(Vec<u8>),
    /// The server did not do it.
    Error(ServerError),
}

/// A value and what was said with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The client's flags.
    pub flags: u32,
    /// The CAS number, if it was asked for.
    pub cas: Option<u64>,
    /// Seconds that the item had to live, if that was asked for and it does not live for ever.
    pub ttl_secs: Option<u32>,
    /// Whether the asker is to refill it.
    pub lease: Lease,
}

impl Value {
    /// Whether nobody but a lease should see it: it is to be refilled, or somebody is about to fill it for the first time. Who has
    /// won by this very look-up must see a miss too, since nobody else will be told to refill.
    pub fn is_withheld(&self) -> bool {
        self.lease.stale || self.is_placeholder()
    }

    /// Whether it may be what [`Value::is_placeholder`] tells, as far as one who was not told of leases can see.
    pub fn may_be_placeholder(&self) -> bool {
        self.bytes.is_empty() && self.flags == 0
    }

    /// Whether a lease made this item, and nobody has filled it yet. No layout but those that have flags 0 for text writes such
    /// an item, and then only an empty text that somebody refreshes early is taken for one.
    pub fn is_placeholder(&self) -> bool {
        self.may_be_placeholder() && (self.lease.won || self.lease.taken)
    }
}

/// Who refills a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// The asker is to.
    pub won: bool,
    /// Somebody else is to.
    pub taken: bool,
    /// The value was invalidated.
    pub stale: bool,
}

/// An error in the server's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Who is to blame.
    pub kind: ErrorKind,
    /// The words, without the kind.
    pub words: String,
}

/// Who is to blame for an error, as the server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// `ERROR`: the server does not know the command.
    Unknown,
    /// `CLIENT_ERROR`: the request is no good.
    Client,
    /// `SERVER_ERROR`: the request is good, but nothing came of it.
    Server,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ErrorKind::Unknown => "does not know the command",
            ErrorKind::Client => "refuses the request",
            ErrorKind::Server => "failed",
        };
        write!(f, "the server {kind}: {}", self.words)
    }
}

impl std::error::Error for ServerError {}

/// Why nothing on this connection can be believed any more. Whoever waits for a reply does not know whether the request was
/// executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The connection has ended.
    Ended,
    /// A line is no reply.
    Unreadable(String),
    /// A line does not end where lines may.
    LineTooLong,
    /// A value is longer than its limit.
    ValueTooLong {
        /// The bytes that are announced.
        len: usize,
        /// How many there may be.
        max: usize,
    },
    /// A value does not end where it said it would.
    ValueEnd,
    /// A reply for which there is no request.
    Unasked(String),
    /// A reply to a request whose turn it is not.
    OutOfOrder(String),
    /// A reply that cannot be one to its request.
    Unfit(String),
    /// A reply with another key than its request's, or with none.
    OtherKey(String),
    /// An error that could be the answer to more than one request, or after which the server may take a value for requests.
    Doubtful(String),
}

impl Broken {
    /// As much of a line as can be shown.
    pub(super) fn shown(line: &[u8]) -> String {
        const SHOWN_MAX: usize = 100;
        line[..line.len().min(SHOWN_MAX)].escape_ascii().to_string()
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Ended => f.write_str("the connection ended before the reply"),
            Broken::Unreadable(line) => write!(f, "the server sent what is no reply: {line}"),
            Broken::LineTooLong => f.write_str("the server sent a line that does not end"),
            Broken::ValueTooLong { len, max } => {
                write!(
                    f,
                    "the server announced a value of {len} bytes; the limit is {max}: raise it if such values are meant"
                )
            }
            Broken::ValueEnd => f.write_str("the server sent a value that does not end where it should"),
            Broken::Unasked(line) => write!(f, "the server sent a reply that nobody asked for: {line}"),
            Broken::OutOfOrder(line) => write!(f, "the server sent a reply before its turn: {line}"),
            Broken::Unfit(line) => write!(f, "the server sent a reply to some other kind of request: {line}"),
            Broken::OtherKey(line) => write!(f, "the server sent a reply for another key: {line}"),
            Broken::Doubtful(line) => write!(f, "the server sent an error that may be anybody's: {line}"),
        }?;
        f.write_str("; the connection is to be closed, and it is not known what became of the request")
    }
}

impl std::error::Error for Broken {}
