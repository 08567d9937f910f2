//! `sj_config`

use std::ffi::{c_char, c_int};

use scrubjay_client::Config;
use scrubjay_client::placement::Server;

use crate::border::{self, SjResult, bytes, fill, object_mut, status, text};

/// `sj_config`
pub struct SjConfig(pub(crate) Config);

#[unsafe(no_mangle)]
pub extern "C" fn sj_config_new() -> *mut SjConfig {
    border::guard(std::ptr::null_mut(), || {
        Box::into_raw(Box::new(SjConfig(Config::new(Vec::new()))))
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_config_free(config: *mut SjConfig) {
    // SAFETY: the caller's promise.
    unsafe { border::free(config) };
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_config_add(
    config: *mut SjConfig,
    host: *const c_char,
    port: u16,
    weight: u32,
    result: *mut SjResult,
) -> c_int {
    // SAFETY: the caller's promises, all of them.
    unsafe {
        fill(result, || {
            let config = object_mut(config, "config")?;
            let host = text(host, "host")?;
            if host.is_empty() || weight == 0 {
                let words = "a server needs a host and a weight of at least 1";
                return Err(SjResult::error(status::ARGUMENT, words));
            }
            config.0.servers.push(Server::new(host, port).weight(weight));
            Ok(SjResult::new(status::OK))
        })
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_config_set(
    config: *mut SjConfig,
    name: *const c_char,
    value: *const c_char,
    result: *mut SjResult,
) -> c_int {
    // SAFETY: the caller's promises, all of them.
    unsafe {
        fill(result, || {
            let config = object_mut(config, "config")?;
            let (name, value) = (text(name, "name")?, text(value, "text")?);
            let set = config.0.set(name, value);
            set.map_err(|error| SjResult::error(status::ARGUMENT, error))?;
            Ok(SjResult::new(status::OK))
        })
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sj_config_buckets(
    config: *mut SjConfig,
    servers: *const u32,
    count: usize,
    result: *mut SjResult,
) -> c_int {
    // SAFETY: the caller's promises, all of them. The numbers are read as bytes, so that nothing is asked of their alignment.
    unsafe {
        fill(result, || {
            let config = object_mut(config, "config")?;
            let bytes = bytes(servers.cast(), count.saturating_mul(size_of::<u32>()));
            let (numbers, _) = bytes.as_chunks::<4>();
            let servers = numbers.iter().map(|number| u32::from_ne_bytes(*number)).collect();
            config.0.scheme = config.0.scheme.clone().with_buckets(servers);
            Ok(SjResult::new(status::OK))
        })
    }
}
