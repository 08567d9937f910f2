//! What a received line or data block says, and to whom: the rules that break a conversation.

use super::super::Form;
use super::super::incoming::Piece;
use super::super::line::{self, Flags, Line, Status};
use super::super::reply::{Broken, ErrorKind, Reply, ServerError, Value};
use super::{Conversation, Head, Kind, Listener, Order, Replies};

/// Digits of the largest number.
const NUMBER_LEN_MAX: usize = 20;

impl Conversation {
    /// Cuts bytes into pieces and handles each.
    pub(super) fn feed_pieces(&mut self, mut bytes: &[u8], replies: &mut Replies) -> Result<(), Broken> {
        while !bytes.is_empty() {
            if self.incoming.is_between() && self.is_bundle_next() {
                self.take_values(&mut bytes);
            }
            match self.incoming.take(&mut bytes)? {
                None => {}
                Some(Piece::Block(block)) => self.handle_block(block, replies)?,
                Some(Piece::Line(text)) => {
                    let parsed =
                        line::parse(&text).ok_or_else(|| Broken::Unreadable(Broken::shown(&text)))?;
                    match self.settings.form {
                        _ if self.is_bundle_next() => self.handle_bundle(parsed, &text)?,
                        Form::Meta => self.handle_meta(parsed, &text, replies)?,
                        Form::Classic => self.handle_classic(parsed, &text, replies)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn handle_meta(&mut self, parsed: Line<'_>, text: &[u8], replies: &mut Replies) -> Result<(), Broken> {
        let unasked = || Broken::Unasked(Broken::shown(text));
        let index = match &parsed {
            Line::Meta(_, Flags { opaque, .. }) => opaque.and_then(|opaque| self.index_of(opaque)),
            Line::Alive => self.oldest(|exchange| exchange.kind == Kind::Noop),
            Line::Version(_) => self.oldest(|exchange| exchange.kind == Kind::Version),
            Line::Done => self.oldest(|exchange| exchange.kind == Kind::Flush),
            Line::Error(error) => return self.handle_meta_error(error, text, replies),
            _ => None,
        };
        let index = index.ok_or_else(unasked)?;
        if let Line::Meta(status, flags) = &parsed {
            self.check_key(index, *status, flags, text)?;
        }
        if self.settings.order == Order::Kept {
            if !self.exchanges.iter().take(index).all(|exchange| exchange.silent) {
                return Err(Broken::OutOfOrder(Broken::shown(text)));
            }
            for _ in 0..index {
                self.answer(0, Reply::Stored, replies);
                self.retire();
            }
        }
        let index = if self.settings.order == Order::Kept {
            0
        } else {
            index
        };
        match parsed {
            Line::Meta(Status::Value(len), flags) => self.expect_value(
                index,
                len,
                Value {
                    bytes: Vec::new(),
                    flags: flags.client_flags,
                    cas: flags.cas,
                    ttl_secs: flags.ttl_secs,
                    lease: flags.lease,
                },
                text,
            ),
            parsed => {
                let reply = self.fit(index, parsed, text)?;
                self.answer(index, reply, replies);
                self.retire();
                Ok(())
            }
        }
    }

    /// A key that comes back must be the one that was sent; with a value it must come back.
    fn check_key(&self, index: usize, status: Status, flags: &Flags<'_>, text: &[u8]) -> Result<(), Broken> {
        let exchange = &self.exchanges[index];
        let carries_value = matches!(status, Status::Value(_));
        match &flags.key {
            Some(key) if *exchange.key == **key => Ok(()),
            None if !carries_value => Ok(()),
            _ => Err(Broken::OtherKey(Broken::shown(text))),
        }
    }

    /// An error names no request. Where the order is kept it is the first one's that is unanswered, or, as that is silent, of
    /// one of its run, which are all alike.
    fn handle_meta_error(
        &mut self,
        error: &ServerError,
        text: &[u8],
        replies: &mut Replies,
    ) -> Result<(), Broken> {
        if self.settings.order == Order::Free && self.unanswered > 1 {
            return Err(Broken::Doubtful(Broken::shown(text)));
        }
        let index = self
            .oldest(|_| true)
            .ok_or_else(|| Broken::Unasked(Broken::shown(text)))?;
        // Who does not know `ms` takes its value for commands.
        let exchange = &self.exchanges[index];
        let doubtful = error.kind == ErrorKind::Unknown && (exchange.silent || exchange.kind == Kind::Store);
        self.answer(index, Reply::Error(error.clone()), replies);
        self.retire();
        if doubtful {
            return Err(Broken::Doubtful(Broken::shown(text)));
        }
        Ok(())
    }

    fn handle_classic(&mut self, parsed: Line<'_>, text: &[u8], replies: &mut Replies) -> Result<(), Broken> {
        if self.taken == 0 {
            return Err(Broken::Unasked(Broken::shown(text)));
        }
        let kind = self.exchanges[0].kind;
        match parsed {
            Line::Value { key, flags, len, cas } if kind == Kind::Get => {
                let index = self
                    .line_of_gets()
                    .find(|index| {
                        let exchange = &self.exchanges[*index];
                        !exchange.answered && *exchange.key == *key
                    })
                    .ok_or_else(|| Broken::OtherKey(Broken::shown(text)))?;
                let value = Value {
                    flags,
                    cas,
                    ..Value::default()
                };
                self.expect_value(index, len, value, text)
            }
            Line::End if kind == Kind::Get => {
                self.answer_gets(&Reply::Miss, replies);
                Ok(())
            }
            Line::Error(error) => {
                // The server may take the value for commands now.
                let doubtful = kind == Kind::Store && error.kind != ErrorKind::Server;
                self.answer_gets(&Reply::Error(error), replies);
                if doubtful {
                    return Err(Broken::Doubtful(Broken::shown(text)));
                }
                Ok(())
            }
            Line::Meta(..) => Err(Broken::Unfit(Broken::shown(text))),
            parsed => {
                let reply = self.fit(0, parsed, text)?;
                self.answer(0, reply, replies);
                self.retire();
                Ok(())
            }
        }
    }

    /// The exchanges of the oldest line of gets, or the one exchange of another request.
    fn line_of_gets(&self) -> std::ops::Range<usize> {
        let last = self.exchanges.iter().position(|exchange| exchange.ends_line);
        0..last.map_or(0, |last| last + 1)
    }

    /// Answers what is left of the oldest line, and it is done.
    fn answer_gets(&mut self, reply: &Reply, replies: &mut Replies) {
        for index in self.line_of_gets() {
            if !self.exchanges[index].answered {
                self.answer(index, reply.clone(), replies);
            }
        }
        self.retire();
    }

    fn expect_value(&mut self, index: usize, len: usize, value: Value, text: &[u8]) -> Result<(), Broken> {
        let exchange = &self.exchanges[index];
        let max = match exchange.kind {
            Kind::Get => self.settings.value_len_max,
            Kind::Arith if len <= NUMBER_LEN_MAX => NUMBER_LEN_MAX,
            _ => return Err(Broken::Unfit(Broken::shown(text))),
        };
        if len > max {
            return Err(Broken::ValueTooLong { len, max });
        }
        self.incoming
            .expect_block(len, exchange.listener == Listener::Caller);
        self.head = Some(Head {
            index,
            part: 0,
            value,
        });
        Ok(())
    }

    fn handle_block(&mut self, block: Vec<u8>, replies: &mut Replies) -> Result<(), Broken> {
        let Head {
            index,
            part,
            mut value,
        } = self.head.take().expect("a block is expected behind a head only");
        let exchange = &self.exchanges[index];
        if exchange.kind == Kind::Bundle {
            value.bytes = block;
            self.put_into_bundle(part, Reply::Value(value));
            return Ok(());
        }
        let reply = if exchange.kind == Kind::Arith && exchange.listener == Listener::Caller {
            let number = line::parse_number(&block);
            Reply::Number(number.ok_or_else(|| Broken::Unreadable(Broken::shown(&block)))?)
        } else {
            value.bytes = block;
            Reply::Value(value)
        };
        self.answer(index, reply, replies);
        // A line of classic gets stays whole until its end.
        if self.settings.form == Form::Meta {
            self.retire();
        }
        Ok(())
    }

    /// What a line without a value says to this request.
    fn fit(&self, index: usize, parsed: Line<'_>, text: &[u8]) -> Result<Reply, Broken> {
        let exchange = &self.exchanges[index];
        let reply = match (exchange.kind, parsed) {
            (Kind::Get, Line::Meta(Status::Miss, _)) => Reply::Miss,
            (Kind::Touch, Line::Meta(Status::Done, _) | Line::Touched) => Reply::Touched,
            (Kind::Store, Line::Meta(Status::Done, _) | Line::Stored) => Reply::Stored,
            (Kind::Delete, Line::Meta(Status::Done, _) | Line::Deleted) => Reply::Deleted,
            // Without a number, as none was asked for.
            (Kind::Arith, Line::Meta(Status::Done, _)) if exchange.listener == Listener::Nobody => {
                Reply::Stored
            }
            (Kind::Touch, Line::Meta(Status::Miss, _))
            | (
                Kind::Touch | Kind::Store | Kind::Delete | Kind::Arith,
                Line::Meta(Status::NotFound, _) | Line::NotFound,
            ) => Reply::NotFound,
            (Kind::Store | Kind::Arith, Line::Meta(Status::NotStored, _))
            | (Kind::Store, Line::NotStored) => Reply::NotStored,
            (Kind::Store | Kind::Delete | Kind::Arith, Line::Meta(Status::Exists, _))
            | (Kind::Store, Line::Exists) => Reply::Exists,
            (Kind::Arith, Line::Number(number)) => Reply::Number(number),
            (Kind::Noop, Line::Alive | Line::Version(_)) => Reply::Alive,
            (Kind::Version, Line::Version(words)) => Reply::Version(words.to_vec()),
            (Kind::Flush, Line::Done) => Reply::Flushed,
            _ => return Err(Broken::Unfit(Broken::shown(text))),
        };
        Ok(reply)
    }
}
