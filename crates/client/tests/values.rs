//! Values against what the real clients have stored (`tests/clients/values`), and what must hold of our own.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

#[path = "values/cases.rs"]
mod cases;
#[path = "values/hostile.rs"]
mod hostile;
#[path = "values/sizes.rs"]
mod sizes;
#[path = "values/thresholds.rs"]
mod thresholds;
#[path = "values/vectors.rs"]
mod vectors;
