//! Values piece by piece, for callers that have trees of their own: PHP's arrays go to bytes and back without becoming a
//! [`Value`](super::Value) in between. The formats are those that PHP uses: MessagePack and igbinary.

use std::fmt;

use super::reader::Reader;
use super::{Error, Format, Limits, igbinary, msgpack};

/// What comes next in a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number of double precision.
    Float(f64),
    /// Text, or bytes in a format that does not tell them apart.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// So many values follow.
    List(usize),
    /// So many pairs follow, each a key and a value.
    Map(usize),
    /// An object, which is not read further.
    Object,
    /// A reference, which is not read further.
    Reference,
}

/// Reads a value piece by piece.
pub struct StreamReader<'a>(Source<'a>);

enum Source<'a> {
    Msgpack(Reader<'a>),
    Igbinary(igbinary::Parser<'a>),
}

impl fmt::Debug for StreamReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamReader({} bytes left)", self.remaining())
    }
}

impl<'a> StreamReader<'a> {
    /// # Errors
    /// The format is not one that can be read piece by piece, or the bytes do not begin as it does.
    pub fn new(format: Format, bytes: &'a [u8], limits: &'a Limits) -> Result<StreamReader<'a>, Error> {
        Ok(StreamReader(match format {
            Format::Msgpack | Format::PhpMsgpack => {
                Source::Msgpack(Reader::new(msgpack::NAME, bytes, limits))
            }
            Format::Igbinary => Source::Igbinary(igbinary::Parser::new(bytes, limits)?),
            _ => return Err(WHOLE),
        }))
    }

    /// The next piece.
    ///
    /// # Errors
    /// The bytes are not of the format, or exceed the limits.
    #[inline]
    pub fn event(&mut self) -> Result<Event<'a>, Error> {
        match &mut self.0 {
            Source::Msgpack(reader) => msgpack::event(reader),
            Source::Igbinary(parser) => parser.event(),
        }
    }

    /// Bytes that are left: no more values can follow, each takes at least one.
    pub fn remaining(&self) -> usize {
        match &self.0 {
            Source::Msgpack(reader) => reader.remaining(),
            Source::Igbinary(parser) => parser.reader.remaining(),
        }
    }
}

/// Writes a value piece by piece: the counts that were announced are the caller's to keep.
pub struct StreamWriter(Sink);

enum Sink {
    Msgpack(msgpack::Writer),
    Igbinary(igbinary::Writer),
}

impl fmt::Debug for StreamWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamWriter")
    }
}

const WHOLE: Error = Error::Inexpressible {
    format: "this format",
    what: "values piece by piece",
};

impl StreamWriter {
    /// # Errors
    /// The format is not one that can be written piece by piece.
    pub fn new(format: Format) -> Result<StreamWriter, Error> {
        Ok(StreamWriter(match format {
            Format::Msgpack => Sink::Msgpack(msgpack::Writer::new(msgpack::Strings::Told)),
            Format::PhpMsgpack => Sink::Msgpack(msgpack::Writer::new(msgpack::Strings::Php)),
            Format::Igbinary => Sink::Igbinary(igbinary::Writer::new()),
            _ => return Err(WHOLE),
        }))
    }

    /// Nothing.
    pub fn null(&mut self) {
        match &mut self.0 {
            Sink::Msgpack(writer) => writer.null(),
            Sink::Igbinary(writer) => writer.null(),
        }
    }

    /// True or false.
    pub fn bool(&mut self, bool: bool) {
        match &mut self.0 {
            Sink::Msgpack(writer) => writer.bool(bool),
            Sink::Igbinary(writer) => writer.bool(bool),
        }
    }

    /// A whole number; also as a key.
    ///
    /// # Errors
    /// Never, as it is.
    #[inline]
    pub fn int(&mut self, int: i64) -> Result<(), Error> {
        match &mut self.0 {
            Sink::Msgpack(writer) => writer.int(int),
            Sink::Igbinary(writer) => {
                writer.int(int);
                Ok(())
            }
        }
    }

    /// A number of double precision.
    ///
    /// # Errors
    /// Never, as it is.
    pub fn float(&mut self, float: f64) -> Result<(), Error> {
        match &mut self.0 {
            Sink::Msgpack(writer) => writer.float(float),
            Sink::Igbinary(writer) => {
                writer.float(float);
                Ok(())
            }
        }
    }

    /// Text; also as a key. It is the caller's promise that MessagePack's text is UTF-8.
    ///
    /// # Errors
    /// It is longer than 4 GiB.
    pub fn text(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.0 {
            Sink::Msgpack(writer) => writer.string(bytes),
            Sink::Igbinary(writer) => writer.string(bytes),
        }
    }

    /// Bytes; also as a key.
    ///
    /// # Errors
    /// They are more than 4 GiB.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.0 {
            Sink::Msgpack(writer) => writer.bytes(bytes),
            Sink::Igbinary(writer) => writer.string(bytes),
        }
    }

    /// A list: so many values follow.
    ///
    /// # Errors
    /// igbinary has none: begin a map, and give the keys.
    pub fn list(&mut self, len: usize) -> Result<(), Error> {
        match &mut self.0 {
            Sink::Msgpack(writer) => writer.list(len),
            Sink::Igbinary(_) => Err(Error::Inexpressible {
                format: "igbinary",
                what: "lists; begin a map, and give the keys",
            }),
        }
    }

    /// A map: so many pairs follow, each a key and a value.
    ///
    /// # Errors
    /// There are more than 4 billion.
    pub fn map(&mut self, len: usize) -> Result<(), Error> {
        match &mut self.0 {
            Sink::Msgpack(writer) => writer.map(len),
            Sink::Igbinary(writer) => writer.array(len),
        }
    }

    /// What was written so far.
    pub fn len(&self) -> usize {
        match &self.0 {
            Sink::Msgpack(writer) => writer.out.len(),
            Sink::Igbinary(writer) => writer.out.len(),
        }
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        match self.0 {
            Sink::Msgpack(writer) => writer.out,
            Sink::Igbinary(writer) => writer.out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, StreamReader, StreamWriter};
    use crate::value::{Format, Key, Limits, Value};

    #[test]
    fn pieces_make_what_the_tree_makes() {
        let tree = Value::Map(vec![
            (Key::Text("a".into()), Value::Text("a".into())),
            (Key::Int(-3), Value::Float(0.5)),
            (Key::Int(300), Value::Null),
            (Key::Text("".into()), Value::Bool(true)),
        ]);
        for format in [Format::Msgpack, Format::PhpMsgpack, Format::Igbinary] {
            let mut writer = StreamWriter::new(format).expect("both are streamed");
            writer.map(4).expect("it fits");
            writer.text(b"a").expect("it fits");
            writer.text(b"a").expect("it fits");
            writer.int(-3).expect("it fits");
            writer.float(0.5).expect("it fits");
            writer.int(300).expect("it fits");
            writer.null();
            writer.text(b"").expect("it fits");
            writer.bool(true);
            let bytes = writer.finish();
            assert_eq!(Ok(&bytes), format.write(&tree).as_ref(), "{format:?}");

            let limits = Limits::default();
            let mut reader = StreamReader::new(format, &bytes, &limits).expect("it begins as it should");
            let mut events = Vec::new();
            while reader.remaining() > 0 {
                events.push(reader.event().expect("it was written so"));
            }
            let expected = [
                Event::Map(4),
                Event::Text(b"a"),
                Event::Text(b"a"),
                Event::Int(-3),
                Event::Float(0.5),
                Event::Int(300),
                Event::Null,
                Event::Text(b""),
                Event::Bool(true),
            ];
            assert_eq!(events, expected, "{format:?}");
        }
    }

    #[test]
    fn objects_and_ends_are_told() {
        let limits = Limits::default();
        let object = b"\x00\x00\x00\x02\x17\x08stdClass\x14\x00";
        let mut reader = StreamReader::new(Format::Igbinary, object, &limits).expect("a header");
        assert_eq!(reader.event(), Ok(Event::Object));
        let mut reader = StreamReader::new(Format::Msgpack, b"\xcd\x01", &limits).expect("no header");
        assert!(reader.event().is_err());
        assert!(StreamReader::new(Format::Json, b"1", &limits).is_err());
        assert!(StreamWriter::new(Format::Php).is_err());
    }
}
