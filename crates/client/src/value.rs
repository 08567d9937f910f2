//! How values are written as bytes and flags.
