//! Bounds of the text protocols.

/// Longest key in bytes. Source: memcached doc/protocol.txt, "Keys".
pub const KEY_LEN_MAX: usize = 250;

/// Longest command line but a multi-get's, in bytes with its end. memcached gives up between 2,048 bytes and what one
/// read brings; here the bound does not depend on how the line is cut.
pub const LINE_LEN_MAX: usize = 8192;

/// Tokens that a command line is cut into; the rest of a longer line is the last one's. As memcached.
pub const TOKENS_MAX: usize = 24;

/// Longest opaque token of a meta command, with its letter.
pub const OPAQUE_LEN_MAX: usize = 32;

/// Most tokens of a meta command's line, the end of the line counted as one. As memcached.
pub const META_TOKENS_MAX: usize = 20;

/// Longest value that a command line may declare: what fits 31 bits with its line end.
pub const VALUE_LEN_MAX: i32 = i32::MAX - 2;

const _: () = assert!(KEY_LEN_MAX < LINE_LEN_MAX);
