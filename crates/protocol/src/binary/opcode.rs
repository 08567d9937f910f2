//! The table of opcodes, from which parsing, checking and silence follow.

/// One opcode of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opcode {
    /// The byte on the wire.
    pub number: u8,
    /// The name in memcached's protocol description.
    pub name: &'static str,
    /// What the request does, and so what it is made of.
    pub shape: Shape,
    /// Says nothing about the usual outcome: a miss of a retrieval, the success of everything else.
    pub quiet: bool,
}

/// What a request does. Opcodes of one shape are parsed and answered alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `Get` and its kin.
    Get(Reply),
    /// `GAT` and its kin, and `Touch`: a look-up that gives a new exptime.
    GetAndTouch(Reply),
    /// `Set`, `Add`, `Replace`.
    Store(Verb),
    /// `Append` and `Prepend`: no extras.
    Join(Verb),
    /// `Delete`.
    Delete,
    /// `Increment` and `Decrement`.
    Arithmetic {
        /// Subtract instead of add.
        decrement: bool,
    },
    /// `Flush`.
    Flush,
    /// `Noop`.
    Noop,
    /// `Version`.
    Version,
    /// `Stat`.
    Stat,
    /// `Quit`.
    Quit,
    /// `SASL list mechs`.
    SaslList,
    /// `SASL auth`.
    SaslAuth,
    /// `SASL step`.
    SaslStep,
}

/// What a retrieval sends back of a found item, besides its client flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Client flags alone.
    Flags,
    /// The value.
    Value,
    /// The key and the value; a miss is answered with the key too.
    KeyAndValue,
}

/// What a storage request does with an existing item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Store whatever is there.
    Set,
    /// Store only if there is none.
    Add,
    /// Store only if there is one.
    Replace,
    /// Put the bytes behind the existing value.
    Append,
    /// Put the bytes before the existing value.
    Prepend,
}

/// Whether a request has a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Must,
    May,
    MustNot,
}

impl Presence {
    fn allows(self, len: usize) -> bool {
        match self {
            Presence::Must => len != 0,
            Presence::May => true,
            Presence::MustNot => len == 0,
        }
    }
}

impl Shape {
    /// Whether a request of this shape may have parts of these lengths.
    pub(super) fn allows(self, extras_len: usize, key_len: usize, value_len: usize) -> bool {
        use Presence::{May, Must, MustNot};
        let (extras, key, value): (&[usize], _, _) = match self {
            Shape::Get(_) | Shape::Delete => (&[0], Must, MustNot),
            Shape::GetAndTouch(_) => (&[4], Must, MustNot),
            Shape::Store(_) => (&[8], Must, May),
            Shape::Join(_) => (&[0], Must, May),
            Shape::Arithmetic { .. } => (&[20], Must, MustNot),
            Shape::Flush => (&[0, 4], MustNot, MustNot),
            Shape::Noop | Shape::Version | Shape::Quit | Shape::SaslList => (&[0], MustNot, MustNot),
            Shape::Stat => (&[0], May, MustNot),
            Shape::SaslAuth | Shape::SaslStep => (&[0], Must, May),
        };
        extras.contains(&extras_len) && key.allows(key_len) && value.allows(value_len)
    }
}

const fn row(number: u8, name: &'static str, shape: Shape, quiet: bool) -> Opcode {
    Opcode {
        number,
        name,
        shape,
        quiet,
    }
}

const LOUD: bool = false;
const QUIET: bool = true;

/// Every opcode that is answered. The others (`Verbosity`, the range and vBucket opcodes and what has no name) are
/// unknown, as they are to memcached 1.6. Source: memcached doc/protocol-binary.txt, "Command Opcodes".
pub const OPCODES: [Opcode; 35] = [
    row(0x00, "Get", Shape::Get(Reply::Value), LOUD),
    row(0x09, "GetQ", Shape::Get(Reply::Value), QUIET),
    row(0x0c, "GetK", Shape::Get(Reply::KeyAndValue), LOUD),
    row(0x0d, "GetKQ", Shape::Get(Reply::KeyAndValue), QUIET),
    row(0x1c, "Touch", Shape::GetAndTouch(Reply::Flags), LOUD),
    row(0x1d, "GAT", Shape::GetAndTouch(Reply::Value), LOUD),
    row(0x1e, "GATQ", Shape::GetAndTouch(Reply::Value), QUIET),
    row(0x23, "GATK", Shape::GetAndTouch(Reply::KeyAndValue), LOUD),
    row(0x24, "GATKQ", Shape::GetAndTouch(Reply::KeyAndValue), QUIET),
    row(0x01, "Set", Shape::Store(Verb::Set), LOUD),
    row(0x11, "SetQ", Shape::Store(Verb::Set), QUIET),
    row(0x02, "Add", Shape::Store(Verb::Add), LOUD),
    row(0x12, "AddQ", Shape::Store(Verb::Add), QUIET),
    row(0x03, "Replace", Shape::Store(Verb::Replace), LOUD),
    row(0x13, "ReplaceQ", Shape::Store(Verb::Replace), QUIET),
    row(0x0e, "Append", Shape::Join(Verb::Append), LOUD),
    row(0x19, "AppendQ", Shape::Join(Verb::Append), QUIET),
    row(0x0f, "Prepend", Shape::Join(Verb::Prepend), LOUD),
    row(0x1a, "PrependQ", Shape::Join(Verb::Prepend), QUIET),
    row(0x04, "Delete", Shape::Delete, LOUD),
    row(0x14, "DeleteQ", Shape::Delete, QUIET),
    row(0x05, "Increment", Shape::Arithmetic { decrement: false }, LOUD),
    row(0x15, "IncrementQ", Shape::Arithmetic { decrement: false }, QUIET),
    row(0x06, "Decrement", Shape::Arithmetic { decrement: true }, LOUD),
    row(0x16, "DecrementQ", Shape::Arithmetic { decrement: true }, QUIET),
    row(0x08, "Flush", Shape::Flush, LOUD),
    row(0x18, "FlushQ", Shape::Flush, QUIET),
    row(0x07, "Quit", Shape::Quit, LOUD),
    row(0x17, "QuitQ", Shape::Quit, QUIET),
    row(0x0a, "Noop", Shape::Noop, LOUD),
    row(0x0b, "Version", Shape::Version, LOUD),
    row(0x10, "Stat", Shape::Stat, LOUD),
    row(0x20, "SASL list mechs", Shape::SaslList, LOUD),
    row(0x21, "SASL auth", Shape::SaslAuth, LOUD),
    row(0x22, "SASL step", Shape::SaslStep, LOUD),
];

/// The row of every opcode's number.
const BY_NUMBER: [Option<Opcode>; 256] = {
    let mut rows = [None; 256];
    let mut index = 0;
    while index < OPCODES.len() {
        let number = OPCODES[index].number as usize;
        assert!(rows[number].is_none(), "a number has one row");
        rows[number] = Some(OPCODES[index]);
        index += 1;
    }
    rows
};

impl Opcode {
    /// The opcode of this number; `None` if there is no such one.
    pub fn find(number: u8) -> Option<&'static Opcode> {
        static ROWS: [Option<Opcode>; 256] = BY_NUMBER;
        ROWS[usize::from(number)].as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::{OPCODES, Opcode};

    #[test]
    fn a_quiet_opcode_has_the_shape_of_its_loud_twin() {
        for row in &OPCODES {
            assert_eq!(Opcode::find(row.number), Some(row));
            if row.quiet {
                let twin = row.name.strip_suffix('Q').expect("quiet names end in Q");
                let twin = OPCODES.iter().find(|row| row.name == twin).expect("a twin");
                assert_eq!((twin.shape, twin.quiet), (row.shape, false), "{}", row.name);
            }
        }
        assert_eq!(Opcode::find(0x1b), None);
    }
}
