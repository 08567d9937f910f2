//! Chance: one seed from the operating system; everything else is drawn from seeds.

/// A number nobody can guess.
///
/// # Panics
/// If the kernel has no random numbers, which happens only before it has booted.
pub fn seed() -> u64 {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(bytes.len()), "getrandom fills eight bytes at once");
    u64::from_le_bytes(bytes)
}
