//! Statistics and keys: asked for rarely, and answered on a connection of their own.

use std::ffi::{c_char, c_int, c_void};

use scrubjay_client::admin::{Admin, AdminError};

use crate::border::{SjResult, fill, object, status, text};
use crate::client::{SjClient, no_callback};

type StatFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize);
type KeyFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_stats(
    client: *const SjClient,
    server: u32,
    argument: *const c_char,
    each: Option<StatFn>,
    context: *mut c_void,
    result: *mut SjResult,
) -> c_int {
    // SAFETY: the caller's promises, all of them; the callback gets what it was promised.
    unsafe {
        fill(result, || {
            let each = each.ok_or_else(no_callback)?;
            let argument = if argument.is_null() {
                ""
            } else {
                text(argument, "argument")?
            };
            let mut admin = connect(object(client, "client")?, server)?;
            for (name, value) in admin.stats(argument).map_err(failed)? {
                let (name_start, value_start) = (name.as_ptr().cast(), value.as_ptr().cast());
                each(context, name_start, name.len(), value_start, value.len());
            }
            Ok(SjResult::new(status::OK))
        })
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_keys(
    client: *const SjClient,
    server: u32,
    each: Option<KeyFn>,
    context: *mut c_void,
    result: *mut SjResult,
) -> c_int {
    // SAFETY: the caller's promises, all of them; the callback gets what it was promised.
    unsafe {
        fill(result, || {
            let each = each.ok_or_else(no_callback)?;
            let admin = connect(object(client, "client")?, server)?;
            for facts in admin.dump_keys().map_err(failed)? {
                let key = facts.map_err(failed)?.key;
                each(context, key.as_ptr().cast(), key.len());
            }
            Ok(SjResult::new(status::OK))
        })
    }
}

fn connect(client: &SjClient, number: u32) -> Result<Admin, SjResult> {
    let index = client.server(number)?;
    let config = client.config();
    Admin::connect(&config.servers[index.get()], config).map_err(|error| {
        let status = match error {
            AdminError::Connection { .. } => status::CONNECT,
            AdminError::Refused { .. } => status::CLIENT,
            AdminError::Unreadable { .. } => status::BROKEN,
        };
        SjResult::error(status, error)
    })
}

fn failed(error: AdminError) -> SjResult {
    let status = match error {
        AdminError::Refused { .. } => status::UNKNOWN,
        AdminError::Connection { .. } | AdminError::Unreadable { .. } => status::BROKEN,
    };
    SjResult::error(status, error)
}
