//! Bounds of the text protocol. Source: memcached 1.6.18 unless said otherwise.

/// Longest key in bytes, as sent.
pub const KEY_LEN_MAX: usize = 250;

/// Longest line in bytes, but for gets, which have any number of keys.
pub const LINE_LEN_MAX: usize = 8 << 10;

/// Longest line of a storage command in bytes: where its data block starts cannot be told without its end.
pub const STORE_LINE_LEN_MAX: usize = 2 << 10;

/// Most words of a meta command, name, key and length included.
pub const META_WORDS_MAX: usize = 19;

/// Longest opaque token in bytes, without its letter.
pub const OPAQUE_LEN_MAX: usize = 31;

/// Largest length of a data block that a line may declare, in bytes; beyond it the line itself is bad.
pub const VALUE_LEN_MAX: u64 = i32::MAX as u64 - 2;

const _: () = assert!(STORE_LINE_LEN_MAX < LINE_LEN_MAX);
// A line that ends within the bound holds any key that is worth looking at.
const _: () = assert!(STORE_LINE_LEN_MAX > 4 * KEY_LEN_MAX);
