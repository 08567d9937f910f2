//! What the driver knows of each connection: what it waits for, what has arrived, what has not gone out.

use std::io;
use std::os::fd::RawFd;

use super::buffers::List;
use super::queue;
use super::ring::{File, Kind, Tag};
use crate::driver::Interest;

/// A set of facts about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts(u16);

impl Facts {
    /// Its request to receive is with the kernel,
    pub(super) const RECEIVES: Facts = Facts(1);
    /// and has been cancelled.
    pub(super) const CANCELLED: Facts = Facts(1 << 1);
    /// Its request to report bytes to read is with the kernel.
    pub(super) const POLLS_IN: Facts = Facts(1 << 2);
    /// Its request to report room to write is with the kernel.
    pub(super) const POLLS_OUT: Facts = Facts(1 << 3);
    /// Its socket has something to read: bytes, the end or an error.
    pub(super) const READABLE: Facts = Facts(1 << 4);
    /// Its socket has room, which was not reported yet.
    pub(super) const WRITABLE: Facts = Facts(1 << 5);
    /// It sends much: its bytes are read from the socket, not by way of buffers.
    pub(super) const BULK: Facts = Facts(1 << 6);
    /// The caller is to have a turn, to see what is held for it now.
    pub(super) const TELL: Facts = Facts(1 << 7);
    /// It is listed as one whose requests are to be looked at.
    pub(super) const UNSETTLED: Facts = Facts(1 << 8);
    /// It is listed as one that may have something to report.
    pub(super) const NOTEWORTHY: Facts = Facts(1 << 9);

    /// Its file is in the ring's slot of the place's number.
    pub(super) const DIRECT: Facts = Facts(1 << 10);
    /// It is listed as one whose slot holds the file of an earlier connection, which is to be closed.
    pub(super) const CLOSES: Facts = Facts(1 << 11);

    const NONE: Facts = Facts(0);
    /// What holds of the lists a place is in, whoever has the place.
    const OF_LISTS: Facts = Facts(Facts::UNSETTLED.0 | Facts::NOTEWORTHY.0 | Facts::CLOSES.0);
}

/// A connection that was added.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) token: u64,
    /// Its descriptor, or its slot if it is direct. Below zero: vacant.
    pub(super) fd: RawFd,
    pub(super) generation: u32,
    pub(super) interest: Interest,
    facts: Facts,
    /// Why it is lost: an error number, or 0.
    pub(super) error: i32,
    pub(super) received: List,
    /// Its number in the queue.
    pub(super) queued: u32,
    /// What is kept for it elsewhere. Mostly nothing.
    pub(super) kept: Option<Box<Kept>>,
}

/// Bytes of a connection in memory of their own.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Arrived before what lies in buffers; the caller does not want it now.
    pub(super) received: Vec<u8>,
    /// Queued once, and not taken by the socket.
    pub(super) unsent: Vec<u8>,
    /// Its size when the caller last had a turn.
    noted: usize,
}

impl Place {
    fn vacant() -> Place {
        Place {
            token: 0,
            fd: -1,
            generation: 0,
            interest: Interest::Read,
            facts: Facts::NONE,
            error: 0,
            received: List::default(),
            queued: queue::NONE,
            kept: None,
        }
    }

    /// What requests are about.
    pub(super) fn file(&self) -> File {
        if self.is(Facts::DIRECT) {
            File::direct(self.fd as u32)
        } else {
            File::descriptor(self.fd)
        }
    }

    /// Its file is in the slot of this number from now on.
    pub(super) fn make_direct(&mut self, slot: u32) {
        self.fd = slot as RawFd;
        self.set(Facts::DIRECT, true);
        // That file was closed when the slot was used again.
        self.set(Facts::CLOSES, false);
    }

    pub(super) fn is(&self, facts: Facts) -> bool {
        self.facts.0 & facts.0 != 0
    }

    pub(super) fn set(&mut self, facts: Facts, on: bool) {
        self.facts.0 = if on {
            self.facts.0 | facts.0
        } else {
            self.facts.0 & !facts.0
        };
    }

    /// A peer that does not take its replies is not read from.
    pub(super) fn wants_input(&self) -> bool {
        self.interest.reads() && !self.has_unsent()
    }

    /// Whether room to write is to be reported.
    pub(super) fn wants_room(&self) -> bool {
        self.interest.writes()
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| !kept.unsent.is_empty())
    }

    /// Whether bytes have arrived that were not read.
    pub(super) fn has_received(&self) -> bool {
        !self.received.is_empty() || self.kept.as_ref().is_some_and(|kept| !kept.received.is_empty())
    }

    /// What is to be reported: something to read, room to write.
    pub(super) fn report(&self) -> (bool, bool) {
        let input = self.wants_input() && (self.has_received() || self.is(Facts::READABLE));
        let lost = self.error != 0;
        let writable = self.wants_room() && (lost || self.is(Facts::WRITABLE));
        (input || lost || self.is(Facts::TELL), writable)
    }

    pub(super) fn kept(&mut self) -> &mut Kept {
        self.kept.get_or_insert_default()
    }

    /// Bytes held for it when the caller last had a turn.
    pub(super) fn noted(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.noted)
    }

    /// The caller has a turn: what is held is noted.
    pub(super) fn note(&mut self) {
        self.set(Facts::TELL, false);
        if let Some(kept) = &mut self.kept {
            kept.noted = kept.size();
            if kept.noted == 0 {
                self.kept = None;
            }
        }
    }

    /// What is held changed in the caller's absence: it is to have a turn.
    pub(super) fn tell_if_changed(&mut self) {
        let is_news = self.kept.as_ref().is_some_and(|kept| kept.noted != kept.size());
        self.set(Facts::TELL, is_news);
    }

    /// The error by which it was lost.
    pub(super) fn check(&self) -> io::Result<()> {
        match self.error {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

impl Kept {
    fn size(&self) -> usize {
        self.received.capacity() + self.unsent.capacity()
    }
}

/// All connections of a driver.
#[derive(Debug, Default)]
pub(super) struct Places {
    all: Vec<Place>,
    vacant: Vec<u32>,
}

impl Places {
    /// Takes a place for a connection that waits for input.
    pub(super) fn take(&mut self, fd: RawFd, token: u64) -> u32 {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.all.push(Place::vacant());
            self.all.len() as u32 - 1
        });
        let place = &mut self.all[index as usize];
        (place.fd, place.token) = (fd, token);
        index
    }

    /// Gives a place up; completions for it mean nobody from now on.
    pub(super) fn leave(&mut self, index: u32) {
        let place = &mut self.all[index as usize];
        *place = Place {
            generation: (place.generation + 1) & Tag::GENERATION_MAX,
            facts: Facts(place.facts.0 & Facts::OF_LISTS.0),
            ..Place::vacant()
        };
        self.vacant.push(index);
    }

    /// How many there are, those vacant included.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A place that is taken or was.
    pub(super) fn get(&self, index: u32) -> &Place {
        &self.all[index as usize]
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut Place {
        &mut self.all[index as usize]
    }

    /// Whether the connection that a request was made for is still there.
    pub(super) fn is_current(&self, tag: Tag) -> bool {
        let place = self.get(tag.place);
        place.fd >= 0 && place.generation == tag.generation
    }

    /// What a request for a place is called.
    pub(super) fn tag(&self, index: u32, kind: Kind) -> Tag {
        Tag {
            kind,
            generation: self.get(index).generation,
            place: index,
        }
    }
}
