//! Moving items between servers and files: what `scrubjay dump` and `scrubjay load` are made of.
//!
//! A list of keys comes from the source in batches; each batch is fetched and becomes a block, which is stored in a file or
//! in another server. Blocks are all there is in between: an item is copied from the reply into its block and from the block
//! into the next request.

pub(super) mod block;
pub(super) mod fetch;
pub(super) mod file;
pub(super) mod list;
pub(super) mod options;
pub(super) mod pace;
pub(super) mod store;
pub(super) mod tally;
