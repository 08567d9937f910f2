//! Why a cache could not be had.

use crate::superblock::Cold;

/// Why a cache could not be built.
#[derive(Debug)]
pub enum CacheError {
    /// `item_size_max` is over half of `memory_max`.
    ItemSizeOverHalf {
        /// The item size limit asked for.
        item_size_max: usize,
        /// The memory limit asked for.
        memory_max: usize,
    },
    /// `memory_max` is less than a cache needs.
    MemoryTooSmall {
        /// The memory limit asked for.
        memory_max: usize,
        /// The least that works.
        memory_min: usize,
    },
    /// `ledger_bytes` is over a quarter of `memory_max`.
    LedgerOverQuarter {
        /// The size asked for.
        ledger_bytes: usize,
        /// The memory limit asked for.
        memory_max: usize,
    },
    /// The operating system refused the memory.
    Memory(std::io::Error),
    /// The file holds something else: it would be lost.
    Foreign,
    /// The file keeps no cache that could be taken up again.
    Cold(Cold),
}

impl std::fmt::Display for CacheError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CacheError::ItemSizeOverHalf {
                item_size_max,
                memory_max,
            } => write!(
                out,
                "-I {item_size_max} is over half of -m {memory_max}; give a smaller -I or a larger -m"
            ),
            CacheError::MemoryTooSmall {
                memory_max,
                memory_min,
            } => write!(
                out,
                "-m {memory_max} is less than the {memory_min} bytes that a cache needs; give more"
            ),
            CacheError::LedgerOverQuarter {
                ledger_bytes,
                memory_max,
            } => write!(
                out,
                "--ledger-size {ledger_bytes} is over a quarter of -m {memory_max}; give a smaller one or a larger -m"
            ),
            CacheError::Memory(error) => write!(out, "cannot have the memory: {error}; lower -m"),
            CacheError::Foreign => write!(
                out,
                "the memory file holds something that is no cache's and would be lost; name another file or remove this one"
            ),
            CacheError::Cold(cold) => cold.fmt(out),
        }
    }
}
