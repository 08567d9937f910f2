//! A dump as a file: blocks of compressed items, each with its checksums, and an end that tells how many there were.
//!
//! ```text
//! file:  "scrubjay dump\n" | u16 version, 1 | block... | end
//! block: "BLK\n" | u32 bytes stored | u32 bytes of items | u32 items | u64 taken at (Unix milliseconds)
//!        u64 cursor (0: none) | u64 xxh3 of what is stored | u64 xxh3 of the 40 bytes before | items, by zstd
//! end:   "END\n" | u32 blocks | u64 items | u64 bytes of items | u64 0 | u64 0 | u64 xxh3 of the 40 bytes before
//! ```
//! Numbers are little-endian. A file is only ever appended to, so what was interrupted is whole up to its last whole block;
//! and as each head is checked by itself, a reader finds the next whole block behind damage.

use std::fmt;
use std::io::{self, Read, Write};

use xxhash_rust::xxh3::xxh3_64;

use super::block::Block;

const MAGIC: &[u8; 14] = b"scrubjay dump\n";
const VERSION: u16 = 1;

/// Bytes before the first block.
pub(crate) const FILE_HEAD_LEN: u64 = 16;

/// Bytes of a block's head, and of the end.
const HEAD_LEN: usize = 48;

const BLOCK: &[u8; 4] = b"BLK\n";
const END: &[u8; 4] = b"END\n";

/// The level that compresses as fast as items come.
const LEVEL: i32 = 1;

/// Longest block of items that is believed: the longest value, and some.
const ITEMS_LEN_MAX: u32 = 2 << 30;

/// A block ready to be written.
#[derive(Debug)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    items: u32,
    items_len: u64,
    pub(crate) cursor: Option<u64>,
}

/// What a file holds, by its own account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) blocks: u32,
    pub(crate) items: u64,
    pub(crate) items_len: u64,
}

impl Sums {
    fn add(&mut self, items: u32, items_len: u64) {
        self.blocks += 1;
        self.items += u64::from(items);
        self.items_len += items_len;
    }
}

/// Compresses a block.
pub(crate) fn pack(block: &Block) -> Result<Packed, String> {
    let stored =
        zstd::bulk::compress(&block.bytes, LEVEL).map_err(|why| format!("cannot compress: {why}"))?;
    let (Ok(stored_len), Ok(items_len)) = (u32::try_from(stored.len()), u32::try_from(block.bytes.len()))
    else {
        return Err(format!(
            "a block of {} bytes is too long for a dump",
            block.bytes.len()
        ));
    };
    let mut bytes = Vec::with_capacity(HEAD_LEN + stored.len());
    bytes.extend_from_slice(BLOCK);
    for number in [stored_len, items_len, block.items] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for number in [block.taken_at, block.cursor.unwrap_or(0), xxh3_64(&stored)] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    seal(&mut bytes);
    bytes.extend_from_slice(&stored);
    Ok(Packed {
        bytes,
        items: block.items,
        items_len: block.bytes.len() as u64,
        cursor: block.cursor,
    })
}

/// Appends the checksum of a head.
fn seal(head: &mut Vec<u8>) {
    let check = xxh3_64(head);
    head.extend_from_slice(&check.to_le_bytes());
}

/// Writes a dump.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    out: W,
    pub(crate) sums: Sums,
}

impl<W: Write> Writer<W> {
    /// Begins a dump.
    pub(crate) fn begin(mut out: W) -> io::Result<Writer<W>> {
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(Writer::go_on(out, Sums::default()))
    }

    /// Goes on behind the blocks that are there.
    pub(crate) fn go_on(out: W, sums: Sums) -> Writer<W> {
        Writer { out, sums }
    }

    /// Appends a block.
    pub(crate) fn write(&mut self, packed: &Packed) -> io::Result<()> {
        self.sums.add(packed.items, packed.items_len);
        self.out.write_all(&packed.bytes)
    }

    /// Writes the end.
    pub(crate) fn end(mut self) -> io::Result<W> {
        let mut end = END.to_vec();
        end.extend_from_slice(&self.sums.blocks.to_le_bytes());
        for number in [self.sums.items, self.sums.items_len, 0, 0] {
            end.extend_from_slice(&number.to_le_bytes());
        }
        seal(&mut end);
        self.out.write_all(&end)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// What is wrong with a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// It cannot be read.
    Unreadable(String),
    /// It does not begin as a dump does.
    NoDump,
    /// It is of another version.
    Version(u16),
    /// It ends where it should go on.
    Truncated { at: u64 },
    /// No head is where one should be.
    Head { at: u64 },
    /// A block is not what it was.
    Block { number: u32, at: u64, items: u32 },
    /// The end tells of others than came.
    Sums { told: Sums, came: Sums },
    /// Something follows on the end.
    Behind { at: u64 },
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Unreadable(why) => write!(out, "cannot be read: {why}"),
            Damage::NoDump => write!(out, "is no dump: it does not begin with {:?}", "scrubjay dump"),
            Damage::Version(version) => write!(
                out,
                "is a dump of version {version}, and this program reads version {VERSION}; use a newer one"
            ),
            Damage::Truncated { at } => write!(out, "is truncated: it ends at byte {at}"),
            Damage::Head { at } => write!(out, "is damaged at byte {at}: no block begins there"),
            Damage::Block { number, at, items } => write!(
                out,
                "is damaged: block {number} at byte {at}, of {items} items, does not match its checksum"
            ),
            Damage::Sums { told, came } => write!(
                out,
                "is damaged: its end tells of {} items in {} blocks, and {} in {} came",
                told.items, told.blocks, came.items, came.blocks
            ),
            Damage::Behind { at } => write!(out, "is damaged: something follows on its end at byte {at}"),
        }
    }
}

/// A head as it was read.
#[derive(Debug)]
struct Head([u8; HEAD_LEN]);

impl Head {
    fn is_whole(&self) -> bool {
        let begins = [BLOCK, END].iter().any(|kind| self.0.starts_with(*kind));
        begins && self.long(40) == xxh3_64(&self.0[..40])
    }

    fn is_end(&self) -> bool {
        self.0.starts_with(END)
    }

    fn short(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn long(&self, at: usize) -> u64 {
        u64::from(self.short(at + 4)) << 32 | u64::from(self.short(at))
    }
}

/// Reads a dump, block by block.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    input: R,
    /// Bytes read.
    at: u64,
    sums: Sums,
    /// Behind the last block that had a cursor: where the file may be gone on with.
    resume: Option<Resume>,
    /// A head that was found behind damage, and where.
    found: Option<(Head, u64)>,
    ended: bool,
}

/// Where an unfinished dump may be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resume {
    /// The source's cursor.
    pub(crate) cursor: u64,
    /// Bytes of the file that are kept.
    pub(crate) len: u64,
    /// What is in them.
    pub(crate) sums: Sums,
}

impl<R: Read> Reader<R> {
    /// Reads the beginning of a dump.
    pub(crate) fn begin(mut input: R) -> Result<Reader<R>, Damage> {
        let mut head = [0; FILE_HEAD_LEN as usize];
        let len = read_up_to(&mut input, &mut head)?;
        if len < head.len() || !head.starts_with(MAGIC) {
            return Err(Damage::NoDump);
        }
        let version = u16::from_le_bytes([head[14], head[15]]);
        if version != VERSION {
            return Err(Damage::Version(version));
        }
        Ok(Reader {
            input,
            at: FILE_HEAD_LEN,
            sums: Sums::default(),
            resume: None,
            found: None,
            ended: false,
        })
    }

    /// What has been read so far.
    pub(crate) fn sums(&self) -> Sums {
        self.sums
    }

    /// Where to go on with the dump, if it tells.
    pub(crate) fn resume(&self) -> Option<Resume> {
        self.resume
    }

    /// The next block; `None` behind the last one of a whole dump. After damage the next call reads what comes behind it.
    pub(crate) fn next(&mut self) -> Result<Option<Block>, Damage> {
        if self.ended {
            return Ok(None);
        }
        let (head, start) = match self.found.take() {
            Some(found) => found,
            None => self.read_head()?,
        };
        if head.is_end() {
            self.ended = true;
            return self.check_end(&head);
        }
        self.read_block(&head, start)
    }

    /// The next head and where it begins. One that is found only behind damage waits for the next call.
    fn read_head(&mut self) -> Result<(Head, u64), Damage> {
        let start = self.at;
        let mut head = Head([0; HEAD_LEN]);
        self.fill(&mut head.0)?;
        if head.is_whole() {
            return Ok((head, start));
        }
        if self.seek_head(&mut head).is_ok() {
            self.found = Some((head, self.at - HEAD_LEN as u64));
        }
        Err(Damage::Head { at: start })
    }

    /// Reads a block's bytes, whose head has been read.
    fn read_block(&mut self, head: &Head, start: u64) -> Result<Option<Block>, Damage> {
        let (stored_len, items_len, items) = (head.short(4), head.short(8), head.short(12));
        let mut stored = Vec::new();
        // Taken as bytes come: a head may tell of more than there is.
        let read = (&mut self.input)
            .take(u64::from(stored_len))
            .read_to_end(&mut stored);
        read.map_err(|why| Damage::Unreadable(why.to_string()))?;
        self.at += stored.len() as u64;
        if stored.len() < stored_len as usize {
            self.ended = true;
            return Err(Damage::Truncated { at: self.at });
        }
        let damaged = Damage::Block {
            number: self.sums.blocks + 1,
            at: start,
            items,
        };
        if xxh3_64(&stored) != head.long(32) || items_len > ITEMS_LEN_MAX {
            return Err(damaged);
        }
        let bytes = zstd::bulk::decompress(&stored, items_len as usize);
        let Some(bytes) = bytes.ok().filter(|bytes| bytes.len() == items_len as usize) else {
            return Err(damaged);
        };
        self.sums.add(items, u64::from(items_len));
        let cursor = head.long(24);
        let block = Block {
            bytes,
            items,
            taken_at: head.long(16),
            cursor: (cursor > 0).then_some(cursor),
        };
        if let Some(cursor) = block.cursor {
            self.resume = Some(Resume {
                cursor,
                len: self.at,
                sums: self.sums,
            });
        }
        Ok(Some(block))
    }

    fn check_end(&mut self, head: &Head) -> Result<Option<Block>, Damage> {
        let told = Sums {
            blocks: head.short(4),
            items: head.long(8),
            items_len: head.long(16),
        };
        if told != self.sums {
            return Err(Damage::Sums {
                told,
                came: self.sums,
            });
        }
        match read_up_to(&mut self.input, &mut [0])? {
            0 => Ok(None),
            _ => Err(Damage::Behind { at: self.at }),
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Damage> {
        let len = read_up_to(&mut self.input, buffer)?;
        self.at += len as u64;
        if len < buffer.len() {
            self.ended = true;
            return Err(Damage::Truncated { at: self.at });
        }
        Ok(())
    }

    /// Goes on a byte at a time until `head` is one.
    fn seek_head(&mut self, head: &mut Head) -> Result<(), Damage> {
        while !head.is_whole() {
            head.0.rotate_left(1);
            self.fill(&mut head.0[HEAD_LEN - 1..])?;
        }
        Ok(())
    }
}

fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, Damage> {
    let mut len = 0;
    while len < buffer.len() {
        match input.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(Damage::Unreadable(why.to_string())),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::{Damage, FILE_HEAD_LEN, Reader, Resume, Sums, Writer, pack};
    use crate::cmd::transfer::block::{Block, Item};

    fn block(number: u8) -> Block {
        let mut block = Block {
            taken_at: u64::from(number),
            cursor: (number % 2 == 1).then(|| u64::from(number) + 100),
            ..Block::default()
        };
        for item in 0..=number {
            block.push(&Item {
                key: &[number, item],
                value: &vec![item; usize::from(number) * 50],
                flags: 7,
                ttl: None,
                key_is_binary: true,
            });
        }
        block
    }

    /// A dump of blocks 0 to 3, and where each begins.
    fn dump() -> (Vec<u8>, Vec<usize>) {
        let (mut writer, mut starts) = (Writer::begin(Vec::new()).expect("memory"), Vec::new());
        for number in 0..4 {
            starts.push(writer.out.len());
            writer
                .write(&pack(&block(number)).expect("packs"))
                .expect("memory");
        }
        starts.push(writer.out.len());
        (writer.end().expect("memory"), starts)
    }

    /// The first damage that is found, and the blocks that are read all the same.
    fn read(bytes: &[u8]) -> (Option<Damage>, Vec<Block>) {
        let (mut first, mut blocks) = (None, Vec::new());
        let mut reader = match Reader::begin(bytes) {
            Ok(reader) => reader,
            Err(damage) => return (Some(damage), blocks),
        };
        loop {
            match reader.next() {
                Ok(None) => return (first, blocks),
                Ok(Some(block)) => blocks.push(block),
                Err(damage) => first = first.or(Some(damage)),
            }
        }
    }

    #[test]
    fn blocks_are_read_as_they_were_written() {
        let (bytes, _) = dump();
        let all: Vec<Block> = (0..4).map(block).collect();
        assert_eq!(read(&bytes), (None, all));
    }

    #[test]
    fn a_file_cut_anywhere_is_told_to_be_and_its_whole_blocks_are_read() {
        let (bytes, starts) = dump();
        for len in 0..bytes.len() {
            let (damage, blocks) = read(&bytes[..len]);
            let whole = starts[1..].iter().filter(|&&end| end <= len).count();
            assert_eq!(blocks.len(), whole, "{len} bytes");
            let expected = match len as u64 {
                ..FILE_HEAD_LEN => Damage::NoDump,
                at => Damage::Truncated { at },
            };
            assert_eq!(damage, Some(expected));
        }
    }

    #[test]
    fn a_byte_changed_anywhere_is_noticed_and_costs_one_block_at_most() {
        let (bytes, starts) = dump();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let (damage, blocks) = read(&damaged);
            let number = starts.iter().rposition(|&start| start <= at);
            match (damage.expect("noticed"), number) {
                (Damage::NoDump | Damage::Version(_), None) => {}
                (Damage::Head { at }, Some(number)) => assert_eq!(at, starts[number] as u64),
                (
                    Damage::Block {
                        number: told, items, ..
                    },
                    Some(number),
                ) => {
                    assert_eq!((told, items), (number as u32 + 1, number as u32 + 1));
                }
                other => panic!("byte {at}: {other:?}"),
            }
            let expected: Vec<Block> = match number {
                None => Vec::new(),
                Some(lost) => (0..4)
                    .filter(|&block| usize::from(block) != lost)
                    .map(block)
                    .collect(),
            };
            assert!(blocks == expected, "byte {at}");
        }
    }

    #[test]
    fn what_follows_on_the_end_and_another_version_are_told() {
        let (mut bytes, _) = dump();
        bytes.push(0);
        assert_eq!(
            read(&bytes).0,
            Some(Damage::Behind {
                at: bytes.len() as u64 - 1
            })
        );
        bytes[14] = 9;
        assert_eq!(read(&bytes).0, Some(Damage::Version(9)));
    }

    #[test]
    fn an_unfinished_file_tells_where_to_go_on() {
        let (bytes, starts) = dump();
        let mut reader = Reader::begin(&bytes[..starts[3] + 5]).expect("a dump");
        while let Ok(Some(_)) = reader.next() {}
        assert_eq!(
            reader.resume(),
            Some(Resume {
                cursor: 101,
                len: starts[2] as u64,
                sums: Sums {
                    blocks: 2,
                    items: 3,
                    items_len: (block(0).bytes.len() + block(1).bytes.len()) as u64,
                },
            })
        );
    }
}
