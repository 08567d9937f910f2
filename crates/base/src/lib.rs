//! Types that every crate shares and that know neither the operating system nor a domain word.

pub mod allowance;
pub mod bytes;
pub mod number;
pub mod ring;
pub mod sync;
pub mod time;
