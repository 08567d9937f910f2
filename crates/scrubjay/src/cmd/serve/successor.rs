//! The new server's side of an upgrade: it takes the place of the one that started it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use scrubjay_io::driver::Socket;
use scrubjay_io::handing::{Channel, inherited};
use scrubjay_net::Carried;

use super::wire::{Message, Role, VERSION, receive, send, unexpected};

/// Where a successor is told the number of its end of the channel.
pub const VARIABLE: &str = "SCRUBJAY_PREDECESSOR";

/// How long the server before may take for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server before this one, which serves until this one has attached.
#[derive(Debug)]
pub struct Predecessor {
    channel: Channel,
}

/// What it leaves.
pub struct Estate {
    /// What was listened on.
    pub sockets: Vec<(Role, OwnedFd)>,
    /// Connections, as they are.
    pub carried: Vec<Carried<scrubjay_tls::Socket<Socket>>>,
}

impl Predecessor {
    /// `None` if nobody started this process as a successor. To be called once.
    ///
    /// # Errors
    /// The channel is not open.
    pub fn find() -> io::Result<Option<Predecessor>> {
        let number = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
        let Some(number) = number else {
            return Ok(None);
        };
        let channel = Channel::from_fd(inherited(number)?);
        channel.set_patience(PATIENCE)?;
        Ok(Some(Predecessor { channel }))
    }

    /// The memory that it offers.
    ///
    /// # Errors
    /// It speaks another version, or is gone.
    pub fn memory(&self) -> Result<OwnedFd, String> {
        match receive(&self.channel)? {
            (Message::Offer { version: VERSION }, mut files) if files.len() == 1 => Ok(files.remove(0)),
            (Message::Offer { version }, _) => Err(format!(
                "the new program takes over by version {VERSION}, the old one hands over by version {version}; stop the old one and start the new one"
            )),
            (message, _) => Err(unexpected(message)),
        }
    }

    /// Says that this server can go on with it, and takes what the other one leaves.
    ///
    /// # Errors
    /// It is gone, or goes on serving.
    pub fn take_over(&self) -> Result<Estate, String> {
        send(&self.channel, &Message::Ready, &[])?;
        let sockets = match receive(&self.channel)? {
            (Message::Sockets(roles), files) if roles.len() == files.len() => {
                roles.into_iter().zip(files).collect()
            }
            (message, _) => return Err(unexpected(message)),
        };
        let mut carried = Vec::new();
        loop {
            match receive(&self.channel)? {
                (Message::Connections(all), files) if all.len() == files.len() => {
                    for (conversation, file) in all.into_iter().zip(files) {
                        // One that is no socket any more is lost already.
                        if let Ok(socket) = Socket::adopt(file) {
                            carried.push(conversation.over(scrubjay_tls::Socket::plain(socket)));
                        }
                    }
                }
                (Message::End, _) => return Ok(Estate { sockets, carried }),
                (message, _) => return Err(unexpected(message)),
            }
        }
    }

    /// Says that everything is attached; returns when all of it belongs to this server.
    ///
    /// # Errors
    /// It does not: nothing of it may be touched.
    pub fn attach(&self) -> Result<(), String> {
        send(&self.channel, &Message::Attached, &[])?;
        match receive(&self.channel)? {
            (Message::Go, _) => Ok(()),
            (message, _) => Err(unexpected(message)),
        }
    }

    /// Says that files and keeper name this server.
    pub fn serving(&self) {
        // If it is gone it needs not to be told.
        let _ = send(&self.channel, &Message::Serving, &[]);
    }

    /// Says why this process cannot take its place.
    pub fn refuse(&self, why: &str) {
        // If it is gone it needs not to be told.
        let _ = send(&self.channel, &Message::Refused(why.to_owned()), &[]);
    }
}
