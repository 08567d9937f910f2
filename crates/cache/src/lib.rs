//! The segment cache engine: memcached's item semantics as a library, without protocol or sockets.
//!
//! [`Cache`] is shared; each thread that uses it registers a [`Worker`] and calls operations on that.
//! Time is an argument: call [`Worker::begin_turn`] with the current [`Now`](scrubjay_base::time::Now) before
//! operations, and [`Worker::go_idle`] before sleeping.

mod api;
mod audit;
mod cache;
mod checksum;
mod counters;
mod crc;
mod departure;
mod drain;
mod epoch;
mod error;
mod eviction;
mod expiry;
mod extent;
mod flush;
mod ghost;
mod huge;
mod index;
mod item;
mod ledger;
mod line;
#[cfg(all(test, loom))]
mod models;
pub mod plan;
mod pool;
mod prefetch;
mod reads;
mod reclaim;
mod recovery;
mod recycle;
mod restart;
mod sampler;
mod scan;
mod segment;
mod segment_map;
mod shadow;
mod sizes;
mod store;
mod superblock;
mod tally;
mod upload;
mod value;
mod worker;

pub use api::{
    Arith, ArithOutcome, Body, Cause, Config, Delete, DeleteOutcome, FLAGS_ITEM_OVERHEAD, Get, Gone, Hit,
    PinnedSlice, Present, Refusal, Store, StoreMode, StoreOutcome, Why, Win, admits, item_size,
};
pub use cache::Cache;
pub use counters::{Counters, CurvePoint, Removals, SizeClass, Usage};
pub use departure::{Departure, Observer, Peek};
pub use epoch::Mark;
pub use error::CacheError;
pub use restart::Recovered;
pub use sampler::{AGEINGS, leads};
pub use scan::{ScanCursor, Scanned};
pub use segment::SEGMENT_HEADER_LEN;
pub use segment_map::SegmentView;
pub use shadow::{Ageing, Shadow};
pub use superblock::{Cold, Kept, look};
pub use upload::Upload;
pub use worker::{FETCH_AHEAD_MAX, Worker};
