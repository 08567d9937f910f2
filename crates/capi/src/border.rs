//! What crosses the border: pointers in, results out, panics not.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a call ended, as in the header.
pub(crate) mod status {
    use std::ffi::c_int;
    pub(crate) const OK: c_int = 0;
    pub(crate) const MISS: c_int = 1;
    pub(crate) const NOT_STORED: c_int = 2;
    pub(crate) const EXISTS: c_int = 3;
    pub(crate) const NOT_FOUND: c_int = 4;
    pub(crate) const AS_IS: c_int = 5;
    pub(crate) const ARGUMENT: c_int = 16;
    pub(crate) const KEY: c_int = 17;
    pub(crate) const TOO_LARGE: c_int = 18;
    pub(crate) const REFUSED: c_int = 19;
    pub(crate) const CONNECT: c_int = 20;
    pub(crate) const DOWN: c_int = 21;
    pub(crate) const TIMED_OUT: c_int = 22;
    pub(crate) const BROKEN: c_int = 23;
    pub(crate) const UNKNOWN: c_int = 24;
    pub(crate) const CLIENT: c_int = 25;
    pub(crate) const SERVER: c_int = 26;
    pub(crate) const VALUE: c_int = 27;
    pub(crate) const CONFIG: c_int = 28;
    pub(crate) const PANIC: c_int = 29;
}

/// `sj_result`
#[repr(C)]
pub struct SjResult {
    pub(crate) status: c_int,
    pub(crate) flags: u32,
    pub(crate) cas: u64,
    pub(crate) number: u64,
    data: *mut u8,
    len: usize,
    room: usize,
    pub(crate) lease: u32,
    unused: u32,
}

impl SjResult {
    /// A result without data.
    pub(crate) fn new(status: c_int) -> SjResult {
        SjResult {
            status,
            flags: 0,
            cas: 0,
            number: 0,
            data: std::ptr::null_mut(),
            len: 0,
            room: 0,
            lease: 0,
            unused: 0,
        }
    }

    /// The same with data of its own.
    pub(crate) fn with_data(mut self, data: Vec<u8>) -> SjResult {
        let mut data = std::mem::ManuallyDrop::new(data);
        (self.data, self.len, self.room) = (data.as_mut_ptr(), data.len(), data.capacity());
        self
    }

    /// An error in words.
    pub(crate) fn error(status: c_int, words: impl ToString) -> SjResult {
        SjResult::new(status).with_data(words.to_string().into_bytes())
    }
}

/// The error that something is NULL.
pub(crate) fn missing(what: &str) -> SjResult {
    SjResult::error(status::ARGUMENT, format_args!("{what} is NULL"))
}

/// What a result holds is given back.
///
/// # Safety
/// `result` is NULL, or a result that was filled here or zeroed, and nobody else uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_result_free(result: *mut SjResult) {
    // SAFETY: the caller's promise.
    let Some(result) = (unsafe { result.as_mut() }) else {
        return;
    };
    if !result.data.is_null() {
        // SAFETY: the three numbers are those of a vector that `with_data` took apart, and zeroed below.
        drop(unsafe { Vec::from_raw_parts(result.data, result.len, result.room) });
    }
    *result = SjResult::new(status::OK);
}

/// Fills `out` with what `work` gives, or with an error if it panics; returns the status.
///
/// # Safety
/// `out` is NULL or may be written.
pub(crate) unsafe fn fill(out: *mut SjResult, work: impl FnOnce() -> Result<SjResult, SjResult>) -> c_int {
    let result = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(result) | Err(result)) => result,
        Err(_) => panicked(),
    };
    let status = result.status;
    if out.is_null() {
        let mut result = result;
        // SAFETY: it is ours.
        unsafe { sj_result_free(&raw mut result) };
        return status::ARGUMENT;
    }
    // SAFETY: the caller's promise. What was there is not dropped: C does not say whether it was a result.
    unsafe { out.write(result) };
    status
}

/// What becomes of a panic.
pub(crate) fn panicked() -> SjResult {
    SjResult::error(
        status::PANIC,
        "a fault of the client itself; please report it, and do not use the object further",
    )
}

/// What `work` gives, or `otherwise` if it panics.
pub(crate) fn guard<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise)
}

/// Bytes at a pointer; none if it is NULL.
///
/// # Safety
/// `data` is NULL, or `len` bytes at it are not written for `'a`.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> &'a [u8] {
    if data.is_null() || len == 0 || isize::try_from(len).is_err() {
        return &[];
    }
    // SAFETY: the caller's promise; neither null nor longer than memory can be.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}

/// Text that ends with a zero byte.
///
/// # Safety
/// `text` is NULL, or such text that is not written for `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, SjResult> {
    if text.is_null() {
        return Err(missing(what));
    }
    // SAFETY: the caller's promise, and it is not null.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|_| SjResult::error(status::ARGUMENT, format_args!("{what} is not UTF-8")))
}

/// An object behind a pointer.
///
/// # Safety
/// `object` is NULL, or one that lives for `'a` and is not written meanwhile.
pub(crate) unsafe fn object<'a, T>(object: *const T, what: &str) -> Result<&'a T, SjResult> {
    // SAFETY: the caller's promise.
    unsafe { object.as_ref() }.ok_or_else(|| missing(what))
}

/// The same, to be changed.
///
/// # Safety
/// `object` is NULL, or one that lives for `'a` and is used by nobody else meanwhile.
pub(crate) unsafe fn object_mut<'a, T>(object: *mut T, what: &str) -> Result<&'a mut T, SjResult> {
    // SAFETY: the caller's promise.
    unsafe { object.as_mut() }.ok_or_else(|| missing(what))
}

/// Frees what [`Box::into_raw`] gave.
///
/// # Safety
/// `object` is NULL or from there, and used by nobody any more.
pub(crate) unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: the caller's promise. A destructor that panics has freed what it could.
        guard((), || drop(unsafe { Box::from_raw(object) }));
    }
}
