//! Which form of the protocol a server speaks: asked once, before anything else, and remembered with the server by whoever
//! keeps its connections.

use super::Form;
use super::encode::NOOP;
use super::incoming::{Incoming, Piece};
use super::line::{self, Line};
use super::reply::{Broken, ErrorKind, ServerError};

/// One question on a fresh connection.
#[derive(Debug, Default)]
pub struct Probe {
    incoming: Incoming,
}

/// What a probe has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The server speaks this form, and the connection can be used for it.
    Form(Form),
    /// The server does not talk to us: it wants a login, or has too many connections.
    Refused(ServerError),
}

impl Probe {
    /// The bytes to send.
    pub fn request(&self) -> &'static [u8] {
        NOOP
    }

    /// Takes received bytes; `None` as long as the answer is not whole.
    ///
    /// # Errors
    /// [`Broken`] if the answer is none, or more follows it: nothing else has been asked.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<Option<Found>, Broken> {
        let Some(Piece::Line(text)) = self.incoming.take(&mut bytes)? else {
            return Ok(None);
        };
        if !bytes.is_empty() {
            return Err(Broken::Unasked(Broken::shown(bytes)));
        }
        match line::parse(&text) {
            Some(Line::Alive) => Ok(Some(Found::Form(Form::Meta))),
            Some(Line::Error(error)) if error.kind == ErrorKind::Unknown && error.words.is_empty() => {
                Ok(Some(Found::Form(Form::Classic)))
            }
            Some(Line::Error(error)) => Ok(Some(Found::Refused(error))),
            _ => Err(Broken::Unreadable(Broken::shown(&text))),
        }
    }

    /// What is known of a server that ends the connection without a word: some proxies do that when they do not know a
    /// command. The next connection is then to be used without a probe.
    pub fn ended(&self) -> Form {
        Form::Classic
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, Probe};
    use crate::protocol::Form;

    #[test]
    fn a_server_is_known_by_its_answer_wherever_that_is_cut() {
        let check = |answer: &str, expected: Option<Form>| {
            for at in 0..answer.len() {
                let mut probe = Probe::default();
                let (first, second) = answer.as_bytes().split_at(at);
                assert_eq!(probe.feed(first), Ok(None), "{answer:?} at {at}");
                let found = match probe.feed(second) {
                    Ok(Some(Found::Form(form))) => Some(form),
                    Ok(Some(Found::Refused(_))) | Err(_) => None,
                    Ok(None) => panic!("{answer:?} is whole"),
                };
                assert_eq!(found, expected, "{answer:?} at {at}");
            }
        };
        check("MN\r\n", Some(Form::Meta));
        check("ERROR\r\n", Some(Form::Classic));
        check("CLIENT_ERROR unauthenticated\r\n", None);
        check("ERROR Too many open connections\r\n", None);
        check("hello\r\n", None);
        check("MN\n", None);
        assert!(Probe::default().feed(b"MN\r\nMN\r\n").is_err());
    }
}
