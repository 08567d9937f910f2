//! Values piece by piece.

use std::ffi::{c_char, c_int, c_void};
use std::sync::LazyLock;

use scrubjay_client::value::{Error, Event, Format, Limits, StreamReader, StreamWriter};

use crate::border::{self, SjResult, bytes, fill, guard, missing, status};
use crate::packing::value_error;

static LIMITS: LazyLock<Limits> = LazyLock::new(Limits::default);

fn format(number: i32) -> Option<Format> {
    match number {
        1 => Some(Format::Msgpack),
        2 => Some(Format::PhpMsgpack),
        3 => Some(Format::Igbinary),
        _ => None,
    }
}

/// `sj_writer`
pub struct SjWriter {
    writer: StreamWriter,
    /// The first error; what comes after it is not written.
    error: Option<Error>,
}

#[unsafe(no_mangle)]
pub extern "C" fn sj_writer_new(number: i32) -> *mut SjWriter {
    guard(std::ptr::null_mut(), || {
        match format(number).map(StreamWriter::new) {
            Some(Ok(writer)) => Box::into_raw(Box::new(SjWriter { writer, error: None })),
            _ => std::ptr::null_mut(),
        }
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_writer_free(writer: *mut SjWriter) {
    // SAFETY: the caller's promise.
    unsafe { border::free(writer) };
}

/// Writes a piece, unless there was an error.
///
/// # Safety
/// `writer` is NULL or a writer that nobody else uses meanwhile.
#[inline]
unsafe fn put(writer: *mut SjWriter, write: impl FnOnce(&mut StreamWriter) -> Result<(), Error>) {
    // SAFETY: the caller's promise.
    let Some(writer) = (unsafe { writer.as_mut() }) else {
        return;
    };
    guard((), || {
        if writer.error.is_none() {
            writer.error = write(&mut writer.writer).err();
        }
    });
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_writer_null(writer: *mut SjWriter) {
    let write = |writer: &mut StreamWriter| {
        writer.null();
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { put(writer, write) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_writer_bool(writer: *mut SjWriter, value: c_int) {
    let write = |writer: &mut StreamWriter| {
        writer.bool(value != 0);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { put(writer, write) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_writer_int(writer: *mut SjWriter, value: i64) {
    // SAFETY: the caller's promise.
    unsafe { put(writer, |writer| writer.int(value)) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_writer_float(writer: *mut SjWriter, value: f64) {
    // SAFETY: the caller's promise.
    unsafe { put(writer, |writer| writer.float(value)) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_writer_text(writer: *mut SjWriter, data: *const c_void, len: usize) {
    // SAFETY: the caller's promises.
    unsafe { put(writer, |writer| writer.text(bytes(data, len))) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_writer_bytes(writer: *mut SjWriter, data: *const c_void, len: usize) {
    // SAFETY: the caller's promises.
    unsafe { put(writer, |writer| writer.bytes(bytes(data, len))) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_writer_list(writer: *mut SjWriter, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { put(writer, |writer| writer.list(len)) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_writer_map(writer: *mut SjWriter, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { put(writer, |writer| writer.map(len)) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_writer_finish(writer: *mut SjWriter, result: *mut SjResult) -> c_int {
    // SAFETY: the caller's promises; the writer is from `sj_writer_new`, and used by nobody any more.
    unsafe {
        fill(result, || {
            if writer.is_null() {
                return Err(missing("writer"));
            }
            let writer = Box::from_raw(writer);
            match writer.error {
                Some(error) => Err(value_error(error)),
                None => Ok(SjResult::new(status::OK).with_data(writer.writer.finish())),
            }
        })
    }
}

/// `sj_reader`
pub struct SjReader {
    /// It reads bytes of the caller's, who keeps them.
    reader: StreamReader<'static>,
    message: String,
}

/// `sj_event`
#[repr(C)]
pub struct SjEvent {
    data: *const c_char,
    len: usize,
    number: i64,
    real: f64,
}

/// Kinds of events, as in the header.
mod kind {
    use std::ffi::c_int;
    pub(super) const NULL: c_int = 1;
    pub(super) const FALSE: c_int = 2;
    pub(super) const INT: c_int = 4;
    pub(super) const FLOAT: c_int = 5;
    pub(super) const TEXT: c_int = 6;
    pub(super) const BYTES: c_int = 7;
    pub(super) const LIST: c_int = 8;
    pub(super) const MAP: c_int = 9;
    pub(super) const OBJECT: c_int = 10;
    pub(super) const REFERENCE: c_int = 11;
    pub(super) const ERROR: c_int = 12;
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_reader_new(
    number: i32,
    data: *const c_void,
    len: usize,
    result: *mut SjResult,
) -> *mut SjReader {
    let mut made = std::ptr::null_mut();
    // SAFETY: the caller's promises; the bytes outlive the reader, so that they may be taken for ever here.
    unsafe {
        fill(result, || {
            let format = format(number);
            let format =
                format.ok_or_else(|| SjResult::error(status::ARGUMENT, "there is no such format"))?;
            let reader = StreamReader::new(format, bytes(data, len), &LIMITS).map_err(value_error)?;
            made = Box::into_raw(Box::new(SjReader {
                reader,
                message: String::new(),
            }));
            Ok(SjResult::new(status::OK))
        });
    }
    made
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_reader_free(reader: *mut SjReader) {
    // SAFETY: the caller's promise.
    unsafe { border::free(reader) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_reader_left(reader: *const SjReader) -> usize {
    // SAFETY: the caller's promise.
    unsafe { reader.as_ref() }.map_or(0, |reader| reader.reader.remaining())
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_reader_next(reader: *mut SjReader, event: *mut SjEvent) -> c_int {
    // SAFETY: the caller's promises.
    let (Some(reader), Some(out)) = (unsafe { (reader.as_mut(), event.as_mut()) }) else {
        return kind::ERROR;
    };
    guard(kind::ERROR, || match reader.reader.event() {
        Ok(event) => out.put(event),
        Err(error) => {
            reader.message = error.to_string();
            (out.data, out.len) = (reader.message.as_ptr().cast(), reader.message.len());
            kind::ERROR
        }
    })
}

impl SjEvent {
    #[inline]
    fn put(&mut self, event: Event<'_>) -> c_int {
        match event {
            Event::Null => kind::NULL,
            Event::Bool(bool) => kind::FALSE + c_int::from(bool),
            Event::Int(int) => {
                self.number = int;
                kind::INT
            }
            Event::Float(float) => {
                self.real = float;
                kind::FLOAT
            }
            Event::Text(bytes) => self.bytes(bytes, kind::TEXT),
            Event::Bytes(bytes) => self.bytes(bytes, kind::BYTES),
            Event::List(len) => self.count(len, kind::LIST),
            Event::Map(len) => self.count(len, kind::MAP),
            Event::Object => kind::OBJECT,
            Event::Reference => kind::REFERENCE,
        }
    }

    fn bytes(&mut self, bytes: &[u8], kind: c_int) -> c_int {
        (self.data, self.len) = (bytes.as_ptr().cast(), bytes.len());
        kind
    }

    fn count(&mut self, len: usize, kind: c_int) -> c_int {
        self.len = len;
        kind
    }
}
