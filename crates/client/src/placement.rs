//! Which server has a key.
