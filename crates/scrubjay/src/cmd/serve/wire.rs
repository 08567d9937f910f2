//! What a server and its successor say to each other in an upgrade.
//!
//! The old server starts the new one with one end of a channel, offers the memory, and when the new one is ready stops its
//! workers and sends everything. The new one attaches and says so; with `Go` the old one has given everything away, and from
//! then on it touches nothing any more. Until then it can have everything back.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use scrubjay_io::handing::Channel;
use scrubjay_net::{Carried, Peer};
use scrubjay_tls::Certificate;
use serde::{Deserialize, Serialize};

/// Of these messages. Raised when one of them changes its form, but for [`Message::Offer`] and [`Message::Refused`], by which
/// two versions find out that they differ: those two stay first, and as they are.
pub const VERSION: u32 = 1;

/// A message, with open files that belong to it.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub enum Message {
    /// Old to new, with the file of memory: look whether you can go on with this.
    Offer {
        /// [`VERSION`] of the old server.
        version: u32,
    },
    /// New to old: I cannot, and why.
    Refused(String),
    /// New to old: I can.
    Ready,
    /// Old to new: what is listened on, in this order a file each.
    Sockets(Vec<Role>),
    /// Old to new: some connections, a file each.
    Connections(Vec<Conversation>),
    /// Old to new: that was all.
    End,
    /// New to old: I have everything, and have served nothing.
    Attached,
    /// Old to new: it is yours.
    Go,
    /// New to old: whoever asks for the server now finds me.
    Serving,
}

/// What a socket is for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Role {
    /// Connections of the cache.
    Stream {
        /// Encrypted, and what is asked of clients.
        guard: Option<Guard>,
        /// What to remove at the end, for a unix socket.
        path: Option<PathBuf>,
    },
    /// Datagrams; sockets of one address come one after the other.
    Datagrams,
    /// HTTP.
    Admin,
}

/// [`Certificate`], on its way.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub enum Guard {
    /// None is asked for.
    NotAsked,
    /// It is looked at if there is one.
    Asked,
    /// None, no connection.
    Required,
}

/// A connection without its socket. Source: [`Carried`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Conversation {
    /// `None`: over a unix socket.
    peer: Option<SocketAddr>,
    input: Vec<u8>,
    output: Vec<u8>,
    session: Vec<u8>,
    idle_nanos: u64,
    is_closing: bool,
}

impl From<Certificate> for Guard {
    fn from(asked: Certificate) -> Guard {
        match asked {
            Certificate::NotAsked => Guard::NotAsked,
            Certificate::Asked => Guard::Asked,
            Certificate::Required => Guard::Required,
        }
    }
}

impl From<Guard> for Certificate {
    fn from(guard: Guard) -> Certificate {
        match guard {
            Guard::NotAsked => Certificate::NotAsked,
            Guard::Asked => Certificate::Asked,
            Guard::Required => Certificate::Required,
        }
    }
}

impl Conversation {
    /// Of this connection.
    pub fn of<T>(carried: &Carried<T>) -> Conversation {
        Conversation {
            peer: match carried.peer {
                Peer::Tcp(address) | Peer::Udp(address) => Some(address),
                Peer::Unix => None,
            },
            input: carried.input.clone(),
            output: carried.output.clone(),
            session: carried.session.clone(),
            idle_nanos: carried.idle_nanos,
            is_closing: carried.is_closing,
        }
    }

    /// Bytes that it takes in a message, about.
    pub fn len(&self) -> usize {
        size_of::<Conversation>() + self.input.len() + self.output.len() + self.session.len()
    }

    /// The connection over `socket`.
    pub fn over<T>(self, socket: T) -> Carried<T> {
        Carried {
            socket,
            peer: self.peer.map_or(Peer::Unix, Peer::Tcp),
            input: self.input,
            output: self.output,
            session: self.session,
            idle_nanos: self.idle_nanos,
            is_closing: self.is_closing,
        }
    }
}

/// Sends `message` with `files`.
///
/// # Errors
/// In words: the other end does not read, or is gone, and why if it said so before.
pub fn send(channel: &Channel, message: &Message, files: &[BorrowedFd<'_>]) -> Result<(), String> {
    let bytes = postcard::to_allocvec(message).map_err(|error| error.to_string())?;
    channel.send(&bytes, files).map_err(|error| match error.kind() {
        // Nobody writes there any more, so this returns at once.
        ErrorKind::BrokenPipe => receive(channel).map_or_else(|end| end, |(message, _)| unexpected(message)),
        _ => words(&error),
    })
}

/// Waits for a message.
///
/// # Errors
/// In words: the other end is gone, says nothing, or speaks another language.
pub fn receive(channel: &Channel) -> Result<(Message, Vec<OwnedFd>), String> {
    let (bytes, files) = channel.receive().map_err(|error| words(&error))?;
    let message = postcard::from_bytes(&bytes).map_err(|error| {
        format!("the other process sent what is no message of version {VERSION}: {error}")
    })?;
    Ok((message, files))
}

/// What came when something else was waited for.
pub fn unexpected(message: Message) -> String {
    match message {
        Message::Refused(why) => why,
        other => {
            let text = format!("{other:?}");
            let word = text.split([' ', '(']).next().unwrap_or_default();
            format!("the other process said {word} out of turn")
        }
    }
}

fn words(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            "the other process is gone".to_owned()
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "the other process did not answer in time".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use scrubjay_io::handing::Channel;

    use super::{Conversation, Guard, Message, Role, receive, send, unexpected};

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (one, other) = Channel::pair().expect("a pair");
        let conversation = Conversation {
            peer: "[::1]:7".parse().ok(),
            input: b"get".to_vec(),
            output: vec![0; 70_000],
            session: Vec::new(),
            idle_nanos: u64::MAX,
            is_closing: true,
        };
        let messages = [
            Message::Offer { version: 7 },
            Message::Sockets(vec![
                Role::Stream {
                    guard: Some(Guard::Required),
                    path: Some("/a".into()),
                },
                Role::Admin,
            ]),
            Message::Connections(vec![conversation]),
            Message::Go,
        ];
        for message in messages {
            send(&one, &message, &[]).expect("sent");
            assert_eq!(receive(&other).expect("received").0, message);
        }
        drop(one);
        assert_eq!(receive(&other).expect_err("an end"), "the other process is gone");
    }

    #[test]
    fn whoever_is_gone_is_heard_out() {
        let (one, other) = Channel::pair().expect("a pair");
        send(&one, &Message::Refused("no".to_owned()), &[]).expect("sent");
        drop(one);
        let offer = |channel| send(channel, &Message::Offer { version: 7 }, &[]).expect_err("it is gone");
        assert_eq!(offer(&other), "no");
        assert_eq!(offer(&other), "the other process is gone");
    }

    #[test]
    fn the_first_two_messages_have_the_form_that_all_versions_know() {
        let bytes = |message| postcard::to_allocvec(&message).expect("encoded");
        assert_eq!(bytes(Message::Offer { version: 1 }), [0, 1]);
        assert_eq!(bytes(Message::Refused("no".to_owned())), *b"\x01\x02no");
        assert_eq!(unexpected(Message::Refused("no".to_owned())), "no");
        assert!(unexpected(Message::Sockets(Vec::new())).contains("Sockets out of turn"));
    }
}
