//! The users file: a user a line, `NAME[ ATTRIBUTE...]:PASSWORD`, the password as it is or hashed.
//!
//! memcached reads such a file too. An attribute stands in the name, behind a blank, because no name with a blank can log
//! in to memcached: there a restricted user has no access, rather than all of it.

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use scrubjay_base::allowance::Allowance;

use super::secret::{Digest, Hash, Key, equal};

/// Longest line, in bytes, and most users.
const LINE_LEN_MAX: usize = 1024;
const USERS_MAX: usize = 1024;

/// What a user may do, and what a request needs; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// Read items.
    Read,
    /// Change items, their exptimes and leases too.
    Write,
    /// Empty, stop or tune the server, for everybody. What everybody may where nobody logs in.
    Administer,
}

/// A user of the file.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) name: Vec<u8>,
    pub(crate) rights: Rights,
    hash: Option<Hash>,
    /// Of name and password. A hashed password's is known from its first login on.
    digest: OnceLock<Digest>,
    /// Lives on when the file is read anew.
    pub(crate) usage: Arc<Usage>,
}

/// What all connections of a user have of the server together.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// How many are logged in.
    pub(crate) connections: AtomicU32,
    /// What they may still ask.
    pub(crate) allowance: Allowance,
}

impl User {
    /// Whether both are the same user with the same password.
    pub(crate) fn has_secret_of(&self, other: &User) -> bool {
        self.hash == other.hash && (self.hash.is_some() || self.digest.get() == other.digest.get())
    }

    /// Its password was verified and has this digest.
    pub(crate) fn remember(&self, digest: Digest) {
        // Set by another login at the same time, it is the same.
        let _ = self.digest.set(digest);
    }
}

/// All users of a file.
#[derive(Debug, Default)]
pub(crate) struct Users {
    list: Vec<Arc<User>>,
    by_name: HashMap<Vec<u8>, usize>,
    /// A hash to verify in vain, so that a name that does not exist takes as long as one that does.
    decoy: Option<Hash>,
    /// Some password stands in the file as it is.
    pub(crate) has_plain: bool,
}

impl Users {
    /// Reads a file. What `before` knew of the same users is kept.
    ///
    /// # Errors
    /// What is wrong, with the number of the line.
    pub(crate) fn parse(text: &[u8], key: &Key, before: &Users) -> Result<Users, String> {
        let mut users = Users::default();
        let mut administrators = 0;
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let at_line = |why: String| format!("line {}: {why}", index + 1);
            // As memcached: the password ends at a carriage return.
            let line = line.split(|&byte| byte == b'\r').next().unwrap_or_default();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let (user, is_administrator) = parse_line(line, key).map_err(at_line)?;
            administrators += usize::from(is_administrator);
            users.add(user, before).map_err(at_line)?;
        }
        if users.list.is_empty() {
            return Err("there is no user in it; nobody could log in".to_owned());
        }
        if administrators == 0 {
            // Where nobody is appointed, whoever may write may administer.
            for user in &mut users.list {
                let user = Arc::get_mut(user).expect("nobody else has it yet");
                if user.rights == Rights::Write {
                    user.rights = Rights::Administer;
                }
            }
        }
        Ok(users)
    }

    fn add(&mut self, mut user: User, before: &Users) -> Result<(), String> {
        if self.list.len() == USERS_MAX {
            return Err(format!("there are more than {USERS_MAX} users"));
        }
        if let Some(known) = before.find(&user.name) {
            user.usage = Arc::clone(&known.usage);
            if user.hash.is_some() && user.hash == known.hash {
                user.digest = known.digest.clone();
            }
        }
        self.has_plain |= user.hash.is_none();
        if self.decoy.is_none() {
            self.decoy.clone_from(&user.hash);
        }
        if self.by_name.insert(user.name.clone(), self.list.len()).is_some() {
            let name = shown(&user.name);
            return Err(format!(
                "user {name} is there a second time; keep one of the lines"
            ));
        }
        self.list.push(Arc::new(user));
        Ok(())
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name).map(|&index| &self.list[index])
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// The user whose name and password come to `digest`. Takes as long whether there is one or not.
    pub(crate) fn recognise(&self, digest: &Digest) -> Option<&Arc<User>> {
        const UNKNOWN: Digest = [0; 32];
        let mut found = None;
        for user in &self.list {
            let known = user.digest.get();
            if bool::from(equal(known.unwrap_or(&UNKNOWN), digest)) && known.is_some() {
                found = Some(user);
            }
        }
        found
    }

    /// Whether a password that is not recognised may yet be right.
    pub(crate) fn has_hashes(&self) -> bool {
        self.decoy.is_some()
    }

    /// Verifies against the user's hash; a user without one, and one that does not exist, cost as much.
    pub(crate) fn verify(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let user = self.find(name).filter(|user| user.hash.is_some());
        let hash = user.and_then(|user| user.hash.as_ref()).or(self.decoy.as_ref())?;
        let is_right = hash.verify(password);
        user.filter(|_| is_right).cloned()
    }
}

/// A user, and whether it was appointed to administer.
fn parse_line(line: &[u8], key: &Key) -> Result<(User, bool), String> {
    if line.len() > LINE_LEN_MAX {
        return Err(format!("it has more than {LINE_LEN_MAX} bytes"));
    }
    if line.contains(&0) {
        return Err("there is a zero byte in it".to_owned());
    }
    let colon = line.iter().position(|&byte| byte == b':');
    let Some(colon) = colon else {
        return Err("there is no colon in it; it must be NAME:PASSWORD".to_owned());
    };
    let (names, password) = (&line[..colon], &line[colon + 1..]);
    let mut words = names.split(|&byte| byte == b' ');
    let name = words.next().unwrap_or_default();
    if name.is_empty() {
        return Err("there is no name before the colon or blank".to_owned());
    }
    if password.is_empty() {
        return Err(format!("user {} has no password", shown(name)));
    }
    let (mut rights, mut is_administrator) = (Rights::Write, false);
    for word in words.filter(|word| !word.is_empty()) {
        match word {
            b"rw" => rights = Rights::Write,
            b"ro" => rights = Rights::Read,
            b"admin" => is_administrator = true,
            other => {
                let other = shown(other);
                return Err(format!("{other} is no attribute; there are ro, rw and admin"));
            }
        }
    }
    if is_administrator && rights == Rights::Read {
        return Err(format!("user {} is ro and admin; choose one", shown(name)));
    }
    if is_administrator {
        rights = Rights::Administer;
    }
    let hash = parse_hash(password)?;
    let digest = OnceLock::new();
    if hash.is_none() {
        let _ = digest.set(key.digest(name, password));
    }
    let user = User {
        name: name.to_vec(),
        rights,
        hash,
        digest,
        usage: Arc::default(),
    };
    Ok((user, is_administrator))
}

/// Beginnings of hashes of other programs. Taken for passwords they would let in whoever has read the file.
const OTHER_HASHES: &[&str] = &[
    "$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$7$", "$y$", "$pbkdf2", "$scrypt", "{SHA", "{SSHA",
];

fn parse_hash(password: &[u8]) -> Result<Option<Hash>, String> {
    if password.starts_with(b"$argon2") {
        let text = std::str::from_utf8(password).map_err(|_| "this hash is no text".to_owned())?;
        return Hash::parse(text).map(Some);
    }
    match OTHER_HASHES
        .iter()
        .find(|start| password.starts_with(start.as_bytes()))
    {
        Some(start) => Err(format!(
            "a password that starts with {start} looks like a hash of a kind that is not known here; \
             make one with `scrubjay passwd`"
        )),
        None => Ok(None),
    }
}

/// A name for people: what cannot be seen is escaped.
pub(crate) fn shown(name: &[u8]) -> String {
    const LEN_MAX: usize = 64;
    let more = if name.len() > LEN_MAX { "..." } else { "" };
    format!("{}{more}", name[..name.len().min(LEN_MAX)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::{Rights, Users};
    use crate::auth::secret::Key;

    fn parse(text: &str) -> Result<Users, String> {
        Users::parse(text.as_bytes(), &Key::new([3; 32]), &Users::default())
    }

    #[test]
    fn users_have_the_rights_that_their_lines_give() {
        let check = |text: &str, name: &str, rights: Rights| {
            let users = parse(text).expect(text);
            let user = users.find(name.as_bytes()).expect(name);
            assert_eq!(user.rights, rights, "{text}: {name}");
        };
        check("a:x", "a", Rights::Administer);
        check("a:x\nb ro:x\n", "a", Rights::Administer);
        check("a:x\nb ro:x\n", "b", Rights::Read);
        check("a rw:x\r\nb admin:x\r\n", "a", Rights::Write);
        check("# users\n\na rw:x\nb  rw  admin:x", "b", Rights::Administer);
    }

    #[test]
    fn passwords_are_all_that_is_behind_the_first_colon() {
        let key = Key::new([3; 32]);
        let check = |text: &str, name: &[u8], password: &[u8]| {
            let users = parse(text).expect(text);
            let user = users.recognise(&key.digest(name, password));
            assert_eq!(user.map(|user| user.name.as_slice()), Some(name), "{text}");
        };
        check("a:x:y", b"a", b"x:y");
        check("a: x ", b"a", b" x ");
        check("a:x\rwhatever", b"a", b"x");
        check("a:$", b"a", b"$");
        let users = parse("a:x\nb:y").expect("fine");
        assert!(users.recognise(&key.digest(b"a", b"y")).is_none());
        assert!(users.recognise(&[0; 32]).is_none());
    }

    #[test]
    fn wrong_files_are_refused_with_the_line() {
        let check = |text: &str, part: &str| {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        };
        check("", "no user");
        check("# a:x\n", "no user");
        check("a:x\nb", "line 2: there is no colon");
        check(":x", "line 1: there is no name");
        check(" ro:x", "line 1: there is no name");
        check("a:", "line 1: user a has no password");
        check("a:x\n\nb or:x", "line 3: or is no attribute");
        check("a ro admin:x", "choose one");
        check("a:x\na ro:y", "line 2: user a is there a second time");
        check("a:\0", "zero byte");
        check(&format!("a:{}", "x".repeat(1100)), "more than 1024 bytes");
        check("a:$2b$12$abc", "starts with $2b$ looks like a hash");
        check("a:$6$abc", "scrubjay passwd");
        check("a:$argon2id$nonsense", "line 1: this hash");
        let many: String = (0..1025).map(|number| format!("u{number}:x\n")).collect();
        check(&many, "line 1025: there are more than 1024 users");
    }
}
