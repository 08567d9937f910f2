//! Plain values out of Python's pickles: a small machine in which a pickle can name one thing only, the function by which
//! bytes were written before protocol 3, and calling it makes bytes.
//!
//! Written here because the library for it copies what a pickle repeats, each time it does: a few dozen bytes could fill any
//! memory. Here things are numbered first and made at the end, within the limits.

use std::collections::HashMap;

use super::reader::Reader;
use super::{Error, Key, Limits, Value, number};

const NAME: &str = "pickle";

/// A thing that a pickle makes; others are known by their numbers.
enum Node {
    Plain(Value),
    List(Vec<usize>),
    Map(Vec<(usize, usize)>),
    /// What makes bytes of text in Latin-1.
    Encode,
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    let reader = Reader::new(NAME, bytes, limits);
    let mut machine = Machine {
        reader,
        nodes: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    loop {
        let opcode = machine.reader.byte()?;
        if opcode == b'.' {
            break;
        }
        machine.step(opcode)?;
    }
    let root = machine.pop()?;
    let value = machine.make(root)?;
    machine.reader.end(value)
}

struct Machine<'a> {
    reader: Reader<'a>,
    nodes: Vec<Node>,
    stack: Vec<usize>,
    marks: Vec<usize>,
    memo: HashMap<u64, usize>,
}

impl<'a> Machine<'a> {
    fn step(&mut self, opcode: u8) -> Result<(), Error> {
        match opcode {
            // protocol, frame: nothing that concerns a reader who has all of it
            0x80 => drop(self.reader.byte()?),
            0x95 => drop(self.reader.take(8)?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b']' => self.push(Node::List(Vec::new())),
            b'}' => self.push(Node::Map(Vec::new())),
            b')' => self.push(Node::List(Vec::new())),
            0x85..=0x87 => {
                let len = usize::from(opcode - 0x84);
                let from = self
                    .stack
                    .len()
                    .checked_sub(len)
                    .ok_or_else(|| self.underflow())?;
                self.list(from);
            }
            b't' | b'l' => {
                let from = self.mark()?;
                self.list(from);
            }
            b'd' => {
                let from = self.mark()?;
                let pairs = self.pairs(from)?;
                self.push(Node::Map(pairs));
            }
            b'a' | b'e' | b's' | b'u' => self.fill(opcode)?,
            b'p' | b'q' | b'r' | 0x94 => {
                let place = if opcode == 0x94 {
                    self.memo.len() as u64
                } else {
                    self.place(opcode)?
                };
                let &top = self.stack.last().ok_or_else(|| self.underflow())?;
                self.memo.insert(place, top);
            }
            b'g' | b'h' | b'j' => {
                let place = self.place(opcode)?;
                let Some(&node) = self.memo.get(&place) else {
                    return Err(self.reader.malformed("repeats what was not there"));
                };
                self.stack.push(node);
            }
            b'c' => {
                let names = (self.reader.until(b'\n')?, self.reader.until(b'\n')?);
                if !matches!(
                    names,
                    (b"_codecs", b"encode") | (b"__builtin__" | b"builtins", b"bytes")
                ) {
                    return Err(self.reader.malformed("name of what is no plain value"));
                }
                self.push(Node::Encode);
            }
            b'R' => self.call()?,
            _ => {
                let value = self.plain(opcode)?;
                self.push(Node::Plain(value));
            }
        }
        Ok(())
    }

    /// Puts one item or pair, or all since the mark, into what is below them.
    fn fill(&mut self, opcode: u8) -> Result<(), Error> {
        let from = match opcode {
            b'a' => self.stack.len().saturating_sub(1),
            b's' => self.stack.len().saturating_sub(2),
            _ => self.mark()?,
        };
        if matches!(opcode, b'a' | b'e') {
            let items = self.stack.split_off(from);
            match self.top()? {
                Node::List(list) => list.extend(items),
                _ => return Err(self.reader.malformed("appends to what is no list")),
            }
        } else {
            let pairs = self.pairs(from)?;
            match self.top()? {
                Node::Map(map) => map.extend(pairs),
                _ => return Err(self.reader.malformed("sets pairs of what is no dict")),
            }
        }
        Ok(())
    }

    /// Calls the only function there is: bytes of the text that is first in a list, or none.
    fn call(&mut self) -> Result<(), Error> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let (Node::Encode, Node::List(list)) = (&self.nodes[function], &self.nodes[arguments]) else {
            return Err(self.reader.malformed("calls what is no function"));
        };
        let bytes = match list.first().map(|&first| &self.nodes[first]) {
            None => Some(Vec::new()),
            Some(Node::Plain(Value::Text(text))) => text
                .chars()
                .map(|character| u8::try_from(character).ok())
                .collect(),
            Some(_) => None,
        };
        let bytes = bytes.ok_or_else(|| self.reader.malformed("bytes that are not Latin-1"))?;
        self.push(Node::Plain(Value::Bytes(bytes)));
        Ok(())
    }

    /// A value that stands in the pickle itself.
    fn plain(&mut self, opcode: u8) -> Result<Value, Error> {
        let reader = &mut self.reader;
        Ok(match opcode {
            b'N' => Value::Null,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'J' => Value::Int(i64::from(i32::from_le_bytes(reader.array()?))),
            b'K' => Value::Int(i64::from(reader.byte()?)),
            b'M' => Value::Int(i64::from(u16::from_le_bytes(reader.array()?))),
            b'I' | b'L' => match reader.until(b'\n')? {
                b"00" => Value::Bool(false),
                b"01" => Value::Bool(true),
                text => {
                    let text = text.strip_suffix(b"L").unwrap_or(text);
                    Value::Int(
                        number::read_int(text)
                            .ok_or_else(|| reader.malformed("not a number, or one too great"))?,
                    )
                }
            },
            0x8a => Value::Int(long(reader)?),
            b'G' => Value::Float(f64::from_be_bytes(reader.array()?)),
            b'F' => {
                let text = reader.until(b'\n')?;
                Value::Float(number::read_float(text).ok_or_else(|| reader.malformed("not a number"))?)
            }
            b'V' => Value::Text(unescape(reader)?),
            0x8c => text(reader, 1)?,
            b'X' => text(reader, 4)?,
            0x8d => text(reader, 8)?,
            b'C' => Value::Bytes(sized(reader, 1)?.to_vec()),
            b'B' => Value::Bytes(sized(reader, 4)?.to_vec()),
            0x8e | 0x96 => Value::Bytes(sized(reader, 8)?.to_vec()),
            // strings of Python 2, which did not tell text from bytes
            b'U' => Value::from_bytes(sized(reader, 1)?),
            b'T' => Value::from_bytes(sized(reader, 4)?),
            _ => return Err(reader.malformed("opcode that makes no plain value")),
        })
    }

    fn underflow(&self) -> Error {
        self.reader.malformed("takes what is not on the stack")
    }

    fn push(&mut self, node: Node) {
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
    }

    fn pop(&mut self) -> Result<usize, Error> {
        self.stack.pop().ok_or_else(|| self.underflow())
    }

    fn top(&mut self) -> Result<&mut Node, Error> {
        match self.stack.last() {
            Some(&top) => Ok(&mut self.nodes[top]),
            None => Err(self.underflow()),
        }
    }

    /// Where the stack was at the last mark.
    fn mark(&mut self) -> Result<usize, Error> {
        let mark = self.marks.pop().filter(|&mark| mark <= self.stack.len());
        mark.ok_or_else(|| self.underflow())
    }

    fn list(&mut self, from: usize) {
        let items = self.stack.split_off(from);
        self.push(Node::List(items));
    }

    fn pairs(&mut self, from: usize) -> Result<Vec<(usize, usize)>, Error> {
        let items = self.stack.split_off(from);
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(self.reader.malformed("key without a value"));
        };
        Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
    }

    /// The number of a place in the memo, after its opcode.
    fn place(&mut self, opcode: u8) -> Result<u64, Error> {
        match opcode {
            b'p' | b'g' => self.reader.decimal(b'\n'),
            b'q' | b'h' => Ok(u64::from(self.reader.byte()?)),
            _ => Ok(u64::from(u32::from_le_bytes(self.reader.array()?))),
        }
    }

    /// The value of a node. One that contains itself ends at the limit of nesting.
    fn make(&mut self, node: usize) -> Result<Value, Error> {
        self.reader.spend()?;
        self.reader.enter()?;
        let value = match &self.nodes[node] {
            Node::Plain(value) => {
                let len = match value {
                    Value::Text(text) => text.len(),
                    Value::Bytes(bytes) => bytes.len(),
                    _ => 0,
                };
                self.reader.spend_bytes(len)?;
                value.clone()
            }
            Node::Encode => return Err(self.reader.malformed("a function for a value")),
            Node::List(items) => {
                let items = items.clone();
                Value::List(
                    items
                        .into_iter()
                        .map(|item| self.make(item))
                        .collect::<Result<_, _>>()?,
                )
            }
            Node::Map(pairs) => {
                let pairs = pairs.clone();
                let mut map = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    let Some(key) = Key::from_value(self.make(key)?) else {
                        return Err(self
                            .reader
                            .malformed("key that is neither number, text nor bytes"));
                    };
                    map.push((key, self.make(value)?));
                }
                Value::Map(map)
            }
        };
        self.reader.leave();
        Ok(value)
    }
}

fn sized<'a>(reader: &mut Reader<'a>, width: usize) -> Result<&'a [u8], Error> {
    let mut len = [0; 8];
    len[..width].copy_from_slice(reader.take(width)?);
    let len =
        usize::try_from(u64::from_le_bytes(len)).map_err(|_| reader.malformed("length beyond memory"))?;
    reader.take(len)
}

fn text(reader: &mut Reader<'_>, width: usize) -> Result<Value, Error> {
    let bytes = sized(reader, width)?.to_vec();
    Ok(Value::Text(
        String::from_utf8(bytes).map_err(|_| reader.malformed("text that is not UTF-8"))?,
    ))
}

/// A whole number of up to 8 bytes, the lowest first, in two's complement.
fn long(reader: &mut Reader<'_>) -> Result<i64, Error> {
    let bytes = sized(reader, 1)?;
    if bytes.len() > 8 {
        return Err(reader.malformed("number beyond 64 bits"));
    }
    let fill = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) {
        0xff
    } else {
        0
    };
    let mut number = [fill; 8];
    number[..bytes.len()].copy_from_slice(bytes);
    Ok(i64::from_le_bytes(number))
}

/// A line of Latin-1; `\u` and 4 hexadecimal digits, or `\U` and 8, stand for what it lacks.
fn unescape(reader: &mut Reader<'_>) -> Result<String, Error> {
    let line = reader.until(b'\n')?;
    let mut text = String::with_capacity(line.len());
    let mut at = 0;
    while at < line.len() {
        let width = match line.get(at..at + 2) {
            Some(b"\\u") => 4,
            Some(b"\\U") => 8,
            _ => {
                text.push(char::from(line[at]));
                at += 1;
                continue;
            }
        };
        let digits = line
            .get(at + 2..at + 2 + width)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let character = digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .and_then(char::from_u32);
        text.push(character.ok_or_else(|| reader.malformed("escape that is no character"))?);
        at += 2 + width;
    }
    Ok(text)
}
