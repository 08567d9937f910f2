//! Where a dump goes, and from where it could be gone on with.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Seek, SeekFrom, Write};

use super::Done;
use crate::cmd::transfer::file::{Damage, Reader, Writer};

/// Bytes that are written together.
const WRITTEN_TOGETHER: usize = 1 << 20;

/// What takes the batches that are done.
pub(super) enum Sink {
    /// They were stored already; the cursor behind the last one in order.
    Server { cursor: Option<u64> },
    /// They are appended.
    File(FileSink),
}

/// A file that is written.
pub(super) struct FileSink {
    path: String,
    writer: Option<Writer<BufWriter<Box<dyn Write>>>>,
    /// To have it on the disk at the end; none of standard output.
    file: Option<File>,
    /// A cursor was written.
    is_resumable: bool,
}

impl FileSink {
    /// A new file, or standard output.
    pub(super) fn create(path: &str, over: bool) -> Result<FileSink, String> {
        if path == "-" {
            return FileSink::begin(path, Box::new(std::io::stdout()), None);
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).create_new(!over).truncate(over);
        let file = options.open(path).map_err(|why| match why.kind() {
            std::io::ErrorKind::AlreadyExists => {
                format!("{path} is there already; write over it with --force, or go on with it with --resume")
            }
            _ => format!("cannot write {path}: {why}"),
        })?;
        let kept = file
            .try_clone()
            .map_err(|why| format!("cannot write {path}: {why}"))?;
        FileSink::begin(path, Box::new(file), Some(kept))
    }

    fn begin(path: &str, out: Box<dyn Write>, file: Option<File>) -> Result<FileSink, String> {
        let out = BufWriter::with_capacity(WRITTEN_TOGETHER, out);
        let writer = Writer::begin(out).map_err(|why| format!("cannot write {path}: {why}"))?;
        Ok(FileSink {
            path: path.to_owned(),
            writer: Some(writer),
            file,
            is_resumable: false,
        })
    }

    /// The file of a dump that broke off, cut behind the last block from which it can be gone on with, and the cursor there.
    pub(super) fn resume(path: &str) -> Result<(FileSink, u64), String> {
        let explain = |why: std::io::Error| format!("cannot go on with {path}: {why}");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(explain)?;
        let input = BufReader::with_capacity(WRITTEN_TOGETHER, file.try_clone().map_err(explain)?);
        let mut reader = Reader::begin(input).map_err(|why| format!("{path} {why}"))?;
        loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => return Err(format!("{path} is a whole dump already")),
                Err(Damage::Truncated { .. }) => break,
                Err(why) => return Err(format!("{path} {why}; start anew with --force")),
            }
        }
        let resume = reader
            .resume()
            .ok_or_else(|| format!("{path} tells no place to go on from; start anew with --force"))?;
        file.set_len(resume.len).map_err(explain)?;
        file.seek(SeekFrom::End(0)).map_err(explain)?;
        let kept = file.try_clone().map_err(explain)?;
        let out = BufWriter::with_capacity(WRITTEN_TOGETHER, Box::new(file) as Box<dyn Write>);
        let sink = FileSink {
            path: path.to_owned(),
            writer: Some(Writer::go_on(out, resume.sums)),
            file: Some(kept),
            is_resumable: true,
        };
        Ok((sink, resume.cursor))
    }

    fn failed(&self, why: &std::io::Error) -> String {
        format!("cannot write {}: {why}", self.path)
    }
}

impl Sink {
    /// Takes the next batch.
    pub(super) fn take(&mut self, done: &Done) -> Result<(), String> {
        match (self, &done.packed) {
            (Sink::Server { cursor }, _) => *cursor = done.cursor.or(*cursor),
            (Sink::File(sink), Some(packed)) => {
                sink.is_resumable |= packed.cursor.is_some();
                if let Some(writer) = &mut sink.writer {
                    writer.write(packed).map_err(|why| sink.failed(&why))?;
                }
            }
            (Sink::File(_), None) => {}
        }
        Ok(())
    }

    /// All is there.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        let Sink::File(sink) = self else { return Ok(()) };
        let ended = sink.writer.take().map_or(Ok(()), |writer| writer.end().map(drop));
        let synced = ended.and_then(|()| sink.file.as_ref().map_or(Ok(()), File::sync_all));
        synced.map_err(|why| sink.failed(&why))
    }

    /// The source tells no place to go on from.
    pub(super) fn forget_cursors(&mut self) {
        if let Sink::Server { cursor } = self {
            *cursor = None;
        }
    }

    /// What is said of items that went through.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Sink::Server { .. } => "stored",
            Sink::File(_) => "dumped",
        }
    }

    /// How to go on when it broke off.
    pub(super) fn how_to_go_on(&self) -> String {
        match self {
            Sink::Server { cursor: Some(cursor) } => format!("; go on with --from {cursor:016x}"),
            Sink::File(sink) if sink.is_resumable && sink.file.is_some() => {
                "; go on with --resume".to_owned()
            }
            _ => String::new(),
        }
    }
}
