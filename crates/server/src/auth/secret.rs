//! What a password leaves behind: a keyed digest of every accepted one, and the hash of a hashed one.
//!
//! The digest's key is drawn at the start and never leaves the process, so that a digest is as good as the password for
//! recognising it and good for nothing else.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, Params, PasswordHasher, PasswordVerifier};
use blake2::Blake2bMac;
use blake2::digest::consts::U32;
use blake2::digest::{FixedOutput, KeyInit, Update};
use subtle::{Choice, ConstantTimeEq};

/// What a user's name and password come to under the key.
pub(crate) type Digest = [u8; 32];

/// Most memory that checking one password may take, in KiB, and most passes over it: a login is to take tens of
/// milliseconds, not seconds.
const MEMORY_KIB_MAX: u32 = 64 << 10;
const PASSES_MAX: u32 = 16;

/// The key of all digests.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Key")
    }
}

impl Key {
    pub(crate) fn new(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    pub(crate) fn digest(&self, name: &[u8], password: &[u8]) -> Digest {
        let mut mac = Blake2bMac::<U32>::new_from_slice(&self.0).expect("32 bytes are a key's length");
        // The length keeps apart where one ends and the other starts.
        mac.update(&(name.len() as u64).to_le_bytes());
        mac.update(name);
        mac.update(password);
        mac.finalize_fixed().into()
    }
}

/// Compares without telling by time where the difference is.
pub(crate) fn equal(left: &Digest, right: &Digest) -> Choice {
    left.ct_eq(right)
}

/// A password's hash as it stands in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hash(PasswordHash);

impl Hash {
    /// Reads `$argon2id$v=19$m=...,t=...,p=...$salt$hash`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Hash, String> {
        let hash = PasswordHash::new(text).map_err(|error| format!("this hash cannot be read: {error}"))?;
        if hash.salt.is_none() || hash.hash.is_none() {
            return Err("this hash lacks its salt or its end".to_owned());
        }
        argon2::Algorithm::try_from(hash.algorithm.as_str())
            .map_err(|error| format!("this hash cannot be used: {error}"))?;
        let params = Params::try_from(&hash).map_err(|error| format!("this hash cannot be used: {error}"))?;
        if params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX {
            return Err(format!(
                "a hash may cost at most m={MEMORY_KIB_MAX},t={PASSES_MAX}, this one m={},t={}",
                params.m_cost(),
                params.t_cost()
            ));
        }
        Ok(Hash(hash))
    }

    /// Whether `password` is the one. Takes the hash's time and memory.
    pub(crate) fn verify(&self, password: &[u8]) -> bool {
        Argon2::default().verify_password(password, &self.0).is_ok()
    }
}

/// The text that stands for `password` in the file. Takes time.
///
/// # Errors
/// Why it cannot be hashed; a password of any use can.
pub fn hash_password(password: &[u8], salt: [u8; 16]) -> Result<String, String> {
    Argon2::default()
        .hash_password_with_salt(password, &salt)
        .map(|hash| hash.to_string())
        .map_err(|error| format!("the password cannot be hashed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{Hash, Key, equal};

    #[test]
    fn digests_tell_users_and_passwords_apart() {
        let key = Key::new([1; 32]);
        let digest = key.digest(b"bob", b"secret");
        let is_same = |other| bool::from(equal(&digest, &other));
        assert!(is_same(key.digest(b"bob", b"secret")));
        assert!(!is_same(key.digest(b"bob", b"secre")));
        assert!(!is_same(key.digest(b"bobs", b"ecret")));
        assert!(!is_same(Key::new([2; 32]).digest(b"bob", b"secret")));
    }

    #[test]
    fn hashes_are_read_verified_and_bounded() {
        let text = super::hash_password(b"secret", [7; 16]).expect("hashes");
        assert!(text.starts_with("$argon2id$v=19$"), "{text}");
        let hash = Hash::parse(&text).expect("our own");
        assert!(hash.verify(b"secret"));
        assert!(!hash.verify(b"secret "));
        let check = |text: &str, part: &str| {
            let error = Hash::parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        };
        let tail = text.rsplit("p=1").next().expect("an end");
        check(
            &format!("$argon2id$v=19$m=131072,t=2,p=1{tail}"),
            "at most m=65536",
        );
        check(
            &format!("$argon2id$v=19$m=64,t=17,p=1{tail}"),
            "this one m=64,t=17",
        );
        check("$argon2id$v=19$m=64,t=1,p=1", "lacks");
        check(&format!("$scrypt$ln=1,r=1,p=1{tail}"), "cannot be used");
        check("$argon2id$", "cannot be");
    }
}
