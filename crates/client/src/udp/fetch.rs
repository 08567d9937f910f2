//! One multi-get over datagrams, without sockets and clocks: which requests go when, and whose a received datagram is.
//!
//! Each request is a [`Conversation`] of its own, so that a reply is held to what connections hold theirs to: opaque and key
//! of each value must be those of the request. Before that it must have come from the server that was asked, under the id of
//! a request that is outstanding. Whatever fails one of these is nobody's reply.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::protocol::conversation::Replies;
use crate::protocol::reply::ErrorKind;
use crate::protocol::{
    Conversation, Form, Get, Refused, Reply, Request, ServerError, Settings, Ticket, Value,
};

use super::Counts;
use super::frame::{Added, DATAGRAM_LEN_MAX, FRAME_LEN, Frame, Message};
use super::patience::Patience;
use super::window::Window;

/// Bytes of a request besides its key, at most: letters, and a number of 20 digits.
const REQUEST_LEN_EXTRA: usize = 40;

/// So many requests in a row without a word from a server, and it is left alone.
const SILENCE_MAX: u32 = 2;

/// The id of a request that was given up is not used again for so long: a part of its reply may still be on its way, and what is
/// in the middle of a value bears nothing but the id. Source: RFC 793's maximum segment lifetime.
const ID_REST: Duration = Duration::from_secs(120);
/// Most ids that rest; with more of them nothing is asked.
const IDS_RESTING_MAX: usize = 1 << 15;

/// A server, and what earlier multi-gets have shown of it.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Where it answers datagrams, if it does.
    pub(super) address: Option<SocketAddr>,
    /// How to ask it; `None`: it has not been asked yet. Meta only if it answers all lines of a datagram in one message, as
    /// scrubjay does. memcached answers each key of a datagram in a message of its own, all under the same id, so that a lost
    /// one could not be told from a miss; such a server is asked for one key by each datagram, in the classic form.
    pub(super) form: Option<Form>,
    /// Requests lost since the last datagram from it.
    silence: u32,
    quiet_until: Option<Instant>,
}

impl Peer {
    pub(super) fn new(address: Option<SocketAddr>, form: Option<Form>) -> Peer {
        Peer {
            address,
            form,
            silence: 0,
            quiet_until: None,
        }
    }

    /// Where to ask it now, if it is worth it.
    fn reachable(&self, now: Instant) -> Option<SocketAddr> {
        self.address
            .filter(|_| self.quiet_until.is_none_or(|until| until <= now))
    }
}

/// What stays from one multi-get to the next.
#[derive(Debug)]
pub(super) struct Learnt {
    pub(super) window: Window,
    pub(super) patience: Patience,
    pub(super) peers: Vec<Peer>,
    pub(super) counts: Counts,
    /// Id of the next request, and number of its first key.
    pub(super) next_id: u16,
    /// Ids that must not be used, and until when.
    pub(super) resting: HashMap<u16, Instant>,
    pub(super) next_opaque: u64,
    pub(super) value_len_max: usize,
    /// How long a silent server is left alone.
    pub(super) retry_interval: Duration,
}

/// What is known about a key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing: no reply has come.
    Missing,
    /// There is this value, or there is none.
    Value(Option<Value>),
    /// The server said this.
    Error(ServerError),
    /// It cannot be asked for.
    Refused(Refused),
}

/// A request that is outstanding.
#[derive(Debug)]
struct Asked {
    server: usize,
    form: Option<Form>,
    conversation: Conversation,
    keys: Vec<(Ticket, usize)>,
    message: Message,
    /// The window's number of it.
    number: u64,
    sent: Instant,
    heard: Instant,
}

/// A datagram to send.
#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) id: u16,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

/// A multi-get on its way.
#[derive(Debug)]
pub(super) struct Fetch<'a> {
    learnt: &'a mut Learnt,
    /// As they are on the wire.
    keys: Vec<Cow<'a, [u8]>>,
    outcomes: Vec<Outcome>,
    /// Places of keys that are not asked for yet, a queue for each server.
    pending: Vec<VecDeque<usize>>,
    /// The server whose turn it is.
    turn: usize,
    asked: HashMap<u16, Asked>,
}

impl<'a> Fetch<'a> {
    /// Keys as they are on the wire, each with its server.
    pub(super) fn new(learnt: &'a mut Learnt, keys: Vec<(Cow<'a, [u8]>, usize)>) -> Fetch<'a> {
        let mut pending = vec![VecDeque::new(); learnt.peers.len()];
        for (place, (_, server)) in keys.iter().enumerate() {
            pending[*server].push_back(place);
        }
        Fetch {
            outcomes: vec![Outcome::Missing; keys.len()],
            keys: keys.into_iter().map(|(key, _)| key).collect(),
            // Not all readers of the same keys begin with the same server.
            turn: usize::from(learnt.next_id) % learnt.peers.len().max(1),
            pending,
            learnt,
            asked: HashMap::new(),
        }
    }

    /// The next request, if one may be sent now.
    pub(super) fn next(&mut self, now: Instant) -> Option<Datagram> {
        if self.learnt.resting.len() >= IDS_RESTING_MAX {
            self.learnt.resting.retain(|_, until| *until > now);
            if self.learnt.resting.len() >= IDS_RESTING_MAX {
                self.pending.iter_mut().for_each(VecDeque::clear);
            }
        }
        for _ in 0..self.pending.len() {
            let server = self.turn;
            let Some(to) = self.learnt.peers[server].reachable(now) else {
                self.pending[server].clear();
                self.pass_turn();
                continue;
            };
            while !self.pending[server].is_empty() && !self.is_probing(server) {
                let room = self.learnt.window.room(self.pending[server].len());
                if room == 0 {
                    return None;
                }
                let datagram = self.ask(server, to, room, now);
                if datagram.is_some() {
                    self.pass_turn();
                    return datagram;
                }
            }
            self.pass_turn();
        }
        None
    }

    /// Whether the first request ever is on its way to a server.
    fn is_probing(&self, server: usize) -> bool {
        self.learnt.peers[server].form.is_none() && self.asked.values().any(|asked| asked.server == server)
    }

    fn pass_turn(&mut self) {
        self.turn = (self.turn + 1) % self.pending.len();
    }

    /// A request for as many keys as may be and fit; none if all that were looked at cannot be asked for. The first request
    /// to a server is for one key, and asks whether another line is answered together with it.
    fn ask(&mut self, server: usize, to: SocketAddr, room: usize, now: Instant) -> Option<Datagram> {
        let learnt = &mut *self.learnt;
        let form = learnt.peers[server].form;
        let mut settings = Settings::new(form.unwrap_or(Form::Meta), learnt.next_opaque);
        settings.value_len_max = learnt.value_len_max;
        let mut conversation = Conversation::new(settings);
        let (mut keys, mut len): (Vec<(Ticket, usize)>, usize) = (Vec::new(), FRAME_LEN);
        let room = if form == Some(Form::Meta) { room } else { 1 };
        while keys.len() < room
            && let Some(place) = self.pending[server].front().copied()
        {
            let key = &self.keys[place];
            // As base64, if it must be.
            let len_more = key.len().div_ceil(3) * 4 + REQUEST_LEN_EXTRA;
            let fits = len + len_more <= DATAGRAM_LEN_MAX;
            if !fits && !keys.is_empty() {
                break;
            }
            self.pending[server].pop_front();
            match conversation.ask(Request::Get(Get::new(key))) {
                Ok(ticket) => {
                    keys.push((ticket, place));
                    len += len_more;
                }
                Err(refused) => self.outcomes[place] = Outcome::Refused(refused),
            }
        }
        if keys.is_empty() {
            return None;
        }
        if form.is_none() {
            conversation
                .ask(Request::Noop)
                .expect("a second request is none too many");
        }
        learnt.next_opaque = learnt.next_opaque.wrapping_add(keys.len() as u64 + 1);
        let id = self.free_id(now);
        let mut bytes = Frame::of_request(id).encode().to_vec();
        conversation
            .take_output()
            .slices()
            .for_each(|slice| bytes.extend_from_slice(slice));
        self.learnt.counts.requests += 1;
        let asked = Asked {
            server,
            form,
            conversation,
            message: Message::default(),
            number: self.learnt.window.sent(keys.len()),
            keys,
            sent: now,
            heard: now,
        };
        self.asked.insert(id, asked);
        Some(Datagram { id, to, bytes })
    }

    /// An id that no outstanding request has and that does not rest. There are more ids than of both together.
    fn free_id(&mut self, now: Instant) -> u16 {
        loop {
            let id = self.learnt.next_id;
            self.learnt.next_id = id.wrapping_add(1);
            let rests = self.learnt.resting.get(&id).is_some_and(|until| *until > now);
            if !rests && !self.asked.contains_key(&id) {
                self.learnt.resting.remove(&id);
                return id;
            }
        }
    }

    /// Takes a datagram.
    pub(super) fn receive(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        self.learnt.counts.datagrams += 1;
        match self.add(now, from, datagram) {
            None | Some((_, Added::Stranger)) => self.learnt.counts.strangers += 1,
            Some((_, Added::Part)) => {}
            Some((id, Added::Whole(reply))) => self.finish(now, id, &reply),
            Some((id, Added::TooLong)) => {
                if let Some(asked) = self.give_up(now, id) {
                    self.learnt.window.dropped(asked.keys.len());
                }
            }
        }
    }

    /// Adds a datagram to the message that it is a part of, if there is one; gives its id and what has become of it.
    fn add(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> Option<(u16, Added)> {
        let (frame, payload) = Frame::parse(datagram)?;
        let asked = self.asked.get_mut(&frame.id)?;
        let peer = &mut self.learnt.peers[asked.server];
        if peer.address != Some(from) {
            return None;
        }
        let added = asked.message.add(frame, payload);
        if added != Added::Stranger {
            asked.heard = now;
            peer.silence = 0;
        }
        Some((frame.id, added))
    }

    /// Reads a whole reply.
    fn finish(&mut self, now: Instant, id: u16, reply: &[u8]) {
        let Some(mut asked) = self.asked.remove(&id) else {
            return;
        };
        let learnt = &mut *self.learnt;
        let (keys, cost) = (asked.keys.len(), asked.message.cost());
        learnt.window.answered(keys, asked.number, cost);
        learnt
            .patience
            .answered(now.saturating_duration_since(asked.sent));
        if !self.read(&mut asked, reply, true) {
            self.learnt.counts.strangers += 1;
            self.learnt.resting.insert(id, now + ID_REST);
        } else if asked.form.is_none() {
            self.learn_form(&asked);
            self.learnt.resting.insert(id, now + ID_REST);
        }
    }

    /// Sees by the first reply of a server whether it answered the second line with it.
    fn learn_form(&mut self, asked: &Asked) {
        let form = &mut self.learnt.peers[asked.server].form;
        let answered = |(_, place): &(Ticket, usize)| matches!(self.outcomes[*place], Outcome::Value(_));
        if form.is_none() && asked.keys.iter().all(answered) {
            *form = Some(match asked.conversation.outstanding() {
                0 => Form::Meta,
                _ => Form::Classic,
            });
        }
    }

    /// Takes what a reply says, all of it or its beginning; gives whether it is one to this request. If not, nothing of it is
    /// believed.
    fn read(&mut self, asked: &mut Asked, reply: &[u8], all: bool) -> bool {
        let mut replies = Replies::new();
        if asked.conversation.feed(reply, &mut replies).is_err() {
            return false;
        }
        // An error may stand for the rest, and the first request of all is there to see what is answered.
        let has_error = matches!(replies.last(), Some((_, Ok(Reply::Error(_)))));
        let is_short = asked.conversation.outstanding() > 0 && asked.form.is_some() && !has_error;
        if all && is_short {
            return false;
        }
        for (ticket, reply) in replies {
            let Some((_, place)) = asked.keys.iter().find(|(of, _)| *of == ticket) else {
                continue;
            };
            self.outcomes[*place] = match reply {
                Ok(Reply::Value(value)) => Outcome::Value(Some(value)),
                Ok(Reply::Miss) => Outcome::Value(None),
                Ok(Reply::Error(error)) => {
                    let knows_no_meta = error.kind == ErrorKind::Unknown && error.words.is_empty();
                    if knows_no_meta && asked.form != Some(Form::Classic) {
                        self.learnt.peers[asked.server].form = Some(Form::Classic);
                        for (_, place) in &asked.keys {
                            self.pending[asked.server].push_back(*place);
                        }
                        return true;
                    }
                    Outcome::Error(error)
                }
                Ok(_) | Err(_) => Outcome::Missing,
            };
        }
        true
    }

    /// Nothing is outstanding under this id any more, but something may still come.
    fn give_up(&mut self, now: Instant, id: u16) -> Option<Asked> {
        self.learnt.resting.insert(id, now + ID_REST);
        self.asked.remove(&id)
    }

    /// A request could not be sent.
    pub(super) fn unsendable(&mut self, now: Instant, id: u16) {
        if let Some(asked) = self.give_up(now, id) {
            self.learnt.window.dropped(asked.keys.len());
            self.leave_alone(now, asked.server);
        }
    }

    /// Gives up what has been waited for long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        let patience = self.learnt.patience.get();
        let late = |asked: &Asked| asked.heard + patience <= now;
        let late: Vec<u16> = self
            .asked
            .iter()
            .filter(|(_, asked)| late(asked))
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            let Some(mut asked) = self.give_up(now, id) else {
                continue;
            };
            let beginning = asked.message.beginning();
            self.read(&mut asked, &beginning, false);
            let learnt = &mut *self.learnt;
            learnt.counts.lost_requests += 1;
            if learnt.window.lost(asked.keys.len(), asked.number) {
                learnt.patience.lost();
            }
            let peer = &mut learnt.peers[asked.server];
            peer.silence += 1;
            if peer.silence >= SILENCE_MAX {
                self.leave_alone(now, asked.server);
            }
        }
    }

    fn leave_alone(&mut self, now: Instant, server: usize) {
        let peer = &mut self.learnt.peers[server];
        peer.silence = 0;
        peer.quiet_until = Some(now + self.learnt.retry_interval);
    }

    /// When [`Fetch::expire`] has something to do.
    pub(super) fn wake(&self) -> Option<Instant> {
        let patience = self.learnt.patience.get();
        self.asked.values().map(|asked| asked.heard + patience).min()
    }

    /// Whether nothing is outstanding, and nothing to ask for.
    pub(super) fn is_done(&self) -> bool {
        self.asked.is_empty() && self.pending.iter().all(VecDeque::is_empty)
    }

    /// What has come of each key. Nothing more is waited for.
    pub(super) fn end(mut self, now: Instant) -> Vec<Outcome> {
        for (id, mut asked) in std::mem::take(&mut self.asked) {
            let beginning = asked.message.beginning();
            self.read(&mut asked, &beginning, false);
            self.learnt.window.dropped(asked.keys.len());
            self.learnt.resting.insert(id, now + ID_REST);
        }
        self.outcomes
    }
}

#[cfg(test)]
mod tests;
