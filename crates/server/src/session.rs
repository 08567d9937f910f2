//! To be written.

mod binary;
mod meta;
mod text;
