//! A turn of the driver: what is asked of the kernel, and what becomes of its answers.

use std::io::{self, ErrorKind};

use super::place::{Facts, Place};
use super::ring::{self, BATCH, Completion, File, Kind, Tag};
use super::{Uring, queue};
use crate::driver::{Driver, Ready, socket};

/// The tag of what is not a connection.
const OTHERS: Tag = Tag {
    kind: Kind::Others,
    generation: 0,
    place: 0,
};

/// What a wait ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Completions, maybe of connections that nobody asks for any more.
    OfRing,
    /// Listeners, datagrams, or another thread.
    OfOthers,
    /// Its time was over.
    None,
}

impl Uring {
    /// Fills the ring with everything that is wanted of the kernel: replies first.
    pub(super) fn ask(&mut self) -> io::Result<()> {
        for number in 0..self.queue.entries.len() {
            let index = self.queue.entries[number].place;
            let bytes = self.queue.bytes(number as u32);
            if !bytes.is_empty() {
                let tag = self.places.tag(index, Kind::Send);
                // SAFETY: the queue's bytes stay where they are until it is cleared, after the ring has submitted all.
                unsafe { self.ring.send(self.places.get(index).file(), bytes, tag)? };
            }
        }
        for tag in self.ended.drain(..) {
            self.ring.cancel(tag)?;
        }
        self.close_files()?;
        for index in std::mem::take(&mut self.unsettled) {
            self.settle(index)?;
        }
        if !self.waits_for_others {
            let others = File::descriptor(self.others.raw_fd());
            self.ring.poll(others, libc::POLLIN, OTHERS)?;
            self.waits_for_others = true;
        }
        Ok(())
    }

    /// Brings a connection's requests in line with what is wanted of it.
    fn settle(&mut self, index: u32) -> io::Result<()> {
        let tag = |kind| self.places.tag(index, kind);
        let (receive, poll_in, poll_out) = (tag(Kind::Receive), tag(Kind::PollIn), tag(Kind::PollOut));
        let place = self.places.get_mut(index);
        place.set(Facts::UNSETTLED, false);
        if self.is_quiet && place.fd >= 0 {
            return self.cancel_requests(index);
        }
        if place.fd < 0 || place.error != 0 {
            return Ok(());
        }
        let (reads, is_bulk) = (place.wants_input(), place.is(Facts::BULK));
        if reads && !place.has_received() && !place.is(Facts::READABLE) {
            if is_bulk && !place.is(Facts::POLLS_IN) {
                self.ring.poll(place.file(), libc::POLLIN, poll_in)?;
                place.set(Facts::POLLS_IN, true);
            } else if !is_bulk && !place.is(Facts::RECEIVES) {
                self.ring.receive(place.file(), receive)?;
                place.set(Facts::RECEIVES, true);
            }
        }
        if (!reads || is_bulk) && place.is(Facts::RECEIVES) && !place.is(Facts::CANCELLED) {
            self.ring.cancel(receive)?;
            place.set(Facts::CANCELLED, true);
        }
        let writes = place.wants_room() || place.has_unsent();
        if writes && !place.is(Facts::WRITABLE) && !place.is(Facts::POLLS_OUT) {
            self.ring.poll(place.file(), libc::POLLOUT, poll_out)?;
            place.set(Facts::POLLS_OUT, true);
        }
        Ok(())
    }

    /// Takes all completions.
    pub(super) fn take_completions(&mut self) -> io::Result<()> {
        let mut batch = [None; BATCH];
        loop {
            let count = self.ring.take(&mut batch);
            for completion in batch[..count].iter().flatten() {
                self.complete(completion);
            }
            if count < BATCH {
                if !self.ring.has_requests() && !self.ring.has_overflown() {
                    return Ok(());
                }
                self.ring.submit()?;
            }
        }
    }

    fn complete(&mut self, completion: &Completion) {
        let &Completion { tag, result, .. } = completion;
        match tag.kind {
            Kind::Cancel | Kind::Close => {}
            Kind::Lend => self.lent = Some(ring::lent(completion)),
            Kind::Others => self.waits_for_others = false,
            Kind::Receive => self.complete_receive(completion),
            _ if !self.places.is_current(tag) => {}
            Kind::Send => self.complete_send(tag.place, result),
            Kind::PollIn => {
                let place = self.places.get_mut(tag.place);
                place.set(Facts::POLLS_IN, false);
                place.set(Facts::READABLE, true);
                self.note(tag.place);
            }
            Kind::PollOut => {
                let place = self.places.get_mut(tag.place);
                place.set(Facts::POLLS_OUT, false);
                self.writable.push(tag);
            }
        }
    }

    fn complete_receive(&mut self, completion: &Completion) {
        let &Completion {
            tag,
            result,
            buffer,
            goes_on,
        } = completion;
        if !self.places.is_current(tag) {
            buffer
                .into_iter()
                .for_each(|number| self.buffers.give_back(number));
            return;
        }
        let place = self.places.get_mut(tag.place);
        match (result, buffer) {
            (1.., Some(number)) => {
                self.buffers.append(&mut place.received, number, result as usize);
                if !place.wants_input() {
                    let Place { kept, received, .. } = place;
                    self.buffers
                        .move_all(received, &mut kept.get_or_insert_default().received);
                    place.tell_if_changed();
                }
            }
            (_, Some(number)) => self.buffers.give_back(number),
            _ => {}
        }
        // No buffer, the end, an error: the socket itself says more. What only means "again" is asked again.
        let is_again = [libc::ECANCELED, libc::EAGAIN, libc::EINTR].contains(&-result);
        place.set(
            Facts::READABLE,
            place.is(Facts::READABLE) || (result <= 0 && !is_again),
        );
        self.note(tag.place);
        if !goes_on {
            let place = self.places.get_mut(tag.place);
            place.set(Facts::RECEIVES, false);
            place.set(Facts::CANCELLED, false);
            self.unsettle(tag.place);
        }
    }

    /// A queued reply did not go as a whole.
    fn complete_send(&mut self, index: u32, result: i32) {
        let place = self.places.get_mut(index);
        let bytes = self.queue.bytes(place.queued);
        let sent = match result {
            0.. => result as usize,
            _ if [libc::EAGAIN, libc::EINTR].contains(&-result) => 0,
            _ => {
                place.error = -result;
                bytes.len()
            }
        };
        let rest = &bytes[sent.min(bytes.len())..];
        if !rest.is_empty() {
            place.kept().unsent = rest.to_vec();
            place.tell_if_changed();
        }
        self.note(index);
        self.unsettle(index);
    }

    /// Sends what the socket did not take before.
    fn continue_sending(&mut self, index: u32) {
        self.send_unsent(index);
        let place = self.places.get_mut(index);
        let has_room = !place.has_unsent() && place.wants_room();
        place.set(Facts::WRITABLE, has_room);
        place.tell_if_changed();
        self.note(index);
        self.unsettle(index);
    }

    fn send_unsent(&mut self, index: u32) {
        if !self.places.get(index).has_unsent() {
            return;
        }
        let borrowed = self.borrow_file(index);
        let place = self.places.get_mut(index);
        let kept = place.kept.get_or_insert_default();
        match borrowed.and_then(|file| socket::send(file.number(), &kept.unsent)) {
            Ok(len) if len == kept.unsent.len() => kept.unsent = Vec::new(),
            Ok(len) => drop(kept.unsent.drain(..len)),
            Err(error) if is_again(&error) => {}
            Err(error) => {
                kept.unsent = Vec::new();
                place.error = error.raw_os_error().unwrap_or(libc::EPIPE);
            }
        }
    }

    /// Sends what is queued for a connection before the others': it is to be sent more directly, or to be closed.
    pub(super) fn send_queued(&mut self, index: u32) {
        let place = self.places.get_mut(index);
        let number = std::mem::replace(&mut place.queued, queue::NONE);
        if number != queue::NONE {
            place.kept().unsent = self.queue.bytes(number).to_vec();
            self.queue.withdraw(number);
        }
        self.send_unsent(index);
    }

    /// Adds to `ready` what is to be reported; drops places that have nothing to say from the list.
    fn report(&mut self, ready: &mut Vec<Ready>) {
        let places = &mut self.places;
        self.noteworthy.retain(|&index| {
            let place = places.get_mut(index);
            let (readable, writable) = place.report();
            let is_news = place.fd >= 0 && (readable || writable);
            if is_news {
                ready.push(Ready {
                    token: place.token,
                    readable,
                    writable,
                });
            }
            place.set(Facts::NOTEWORTHY, is_news);
            is_news
        });
    }

    /// What was reported before and has not been read.
    pub(super) fn has_news(&mut self) -> bool {
        let places = &mut self.places;
        self.noteworthy.retain(|&index| {
            let place = places.get_mut(index);
            let is_news = place.fd >= 0 && place.report() != (false, false);
            place.set(Facts::NOTEWORTHY, is_news);
            is_news
        });
        !self.noteworthy.is_empty()
    }

    /// One call of the kernel with everything that is asked of it; fills `ready`.
    pub(super) fn turn(&mut self, timeout_ms: Option<u32>, ready: &mut Vec<Ready>) -> io::Result<Answer> {
        self.ask()?;
        let in_time = self.ring.enter(timeout_ms)?;
        self.take_completions()?;
        for tag in std::mem::take(&mut self.writable) {
            if self.places.is_current(tag) {
                self.continue_sending(tag.place);
            }
        }
        for entry in &self.queue.entries {
            self.places.get_mut(entry.place).queued = queue::NONE;
        }
        self.queue.clear();
        let is_of_others = !self.waits_for_others;
        if is_of_others {
            self.others.wait(Some(0), ready)?;
        }
        self.report(ready);
        Ok(match (in_time, is_of_others) {
            (_, true) => Answer::OfOthers,
            (true, false) => Answer::OfRing,
            (false, false) => Answer::None,
        })
    }
}

/// Whether an error only says that it would have had to wait.
pub(super) fn is_again(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
