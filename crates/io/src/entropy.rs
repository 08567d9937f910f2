//! Chance: one seed from the operating system; everything else is drawn from seeds.

/// A number nobody can guess.
///
/// # Panics
/// As [`bytes`].
pub fn seed() -> u64 {
    u64::from_le_bytes(bytes())
}

/// At most 256 bytes that nobody can guess: keys and salts.
///
/// # Panics
/// If the kernel has no random numbers, which happens only before it has booted.
pub fn bytes<const LEN: usize>() -> [u8; LEN] {
    const { assert!(LEN <= 256, "getrandom fills at most so many at once") };
    let mut bytes = [0; LEN];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(LEN), "getrandom fills so few bytes at once");
    bytes
}
