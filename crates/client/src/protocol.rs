//! Requests to bytes and bytes to replies, without sockets.
