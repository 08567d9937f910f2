//! Storing: set and its family, append and prepend, arithmetic.
//!
//! A new item is written completely, outside any lock, and then published: one lock covers the test of the conditions
//! and the store into the slot, so that of two racing adds, replaces or cas exactly one wins. A small set without conditions
//! takes a shorter way, told in `store/at_once.rs`.

use crate::api::{
    Arith, ArithOutcome, Body, Cause, Delete, DeleteOutcome, PinnedSlice, Refusal, Store, StoreMode,
    StoreOutcome,
};
use scrubjay_base::number::parse_u64;

use self::addition::Addition;
use crate::expiry::ttl_secs;
use crate::index::{Entry, KeyHash, Locked};
use crate::item::{Header, ItemRef, ValueShape};
use crate::line::{Heat, Location};
use crate::sampler::Event;
use crate::upload::{PieceList, Upload};
use crate::value::Value;
use crate::worker::Worker;

/// Times a full page is moved to a larger table before an item of its line has to make room.
const RELIEF_ATTEMPTS: u32 = 2;

/// Longest value that is looked at as a number; memcached does not either beyond what fits one of its chunks.
const ARITH_VALUE_MAX: usize = 512 << 10;

/// An item written but not published yet.
struct Draft<'a> {
    item: ItemRef<'a>,
    location: Location,
    /// Bytes that it takes, its pieces left out.
    len: usize,
    /// The pieces of a chained value; giving the list up marks them dead.
    pieces: Option<PieceList>,
    /// What is known of how often its key is read.
    heat: Heat,
    /// What becomes of the item in whose place it comes.
    replaces: Cause,
}

/// An item that was stored.
pub(crate) struct Placed {
    /// Its number, 0 when CAS is off.
    pub(crate) cas: u64,
    pub(crate) location: Location,
}

/// What a new item takes over from the one in whose place it comes, and what becomes of that one.
#[derive(Clone, Copy)]
struct Heir {
    heat: Heat,
    replaces: Cause,
}

impl Heir {
    fn of(heat: Heat) -> Heir {
        Heir {
            heat,
            replaces: Cause::Replaced,
        }
    }
}

/// The item that has a key's slot, under the line's lock.
struct Occupant<'a> {
    entry: Entry<'a>,
    /// Why it may not be read any more, if so: an expired or flushed item may still have the slot.
    death: Option<Cause>,
}

impl<'a> Occupant<'a> {
    fn live(&self) -> Option<&Entry<'a>> {
        self.death.is_none().then_some(&self.entry)
    }
}

/// What the old item, if any, means for a store.
enum Decision {
    Publish,
    /// `ms I` with an older number: the new item takes over exptime and win and is stale.
    PublishStale,
    Answer(StoreOutcome),
}

fn decide(store: &Conditions, old: Option<&Header>) -> Decision {
    let Some(old) = old else {
        return match store.mode {
            StoreMode::Set if store.compare_cas.is_some() => Decision::Answer(StoreOutcome::NotFound),
            StoreMode::Set | StoreMode::Add => Decision::Publish,
            StoreMode::Append | StoreMode::Prepend if store.vivify => Decision::Publish,
            StoreMode::Replace | StoreMode::Append | StoreMode::Prepend => {
                Decision::Answer(StoreOutcome::NotStored)
            }
        };
    };
    let old_cas = old.cas.unwrap_or(0);
    // Without CAS numbers nothing ever matches.
    let mismatch = store.compare_cas.is_some_and(|cas| Some(cas) != old.cas);
    match store.mode {
        StoreMode::Add => Decision::Answer(StoreOutcome::NotStored),
        StoreMode::Set
            if mismatch && store.invalidate && store.compare_cas.is_some_and(|cas| cas < old_cas) =>
        {
            Decision::PublishStale
        }
        StoreMode::Set | StoreMode::Append | StoreMode::Prepend if mismatch => {
            Decision::Answer(StoreOutcome::Exists)
        }
        StoreMode::Set | StoreMode::Replace | StoreMode::Append | StoreMode::Prepend => Decision::Publish,
    }
}

/// The part of a [`Store`] that is tested against the old item.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    mode: StoreMode,
    compare_cas: Option<u64>,
    invalidate: bool,
    vivify: bool,
}

impl Conditions {
    /// Whether the outcome can depend on the old item.
    fn any(&self) -> bool {
        self.mode != StoreMode::Set || self.compare_cas.is_some()
    }
}

impl Worker {
    /// Stores, per `store`'s mode and conditions. Cost: one copy of the value, one line's lock.
    pub fn store(&mut self, store: Store<'_>) -> StoreOutcome {
        let outcome = match store.mode {
            StoreMode::Append | StoreMode::Prepend => self.join(store),
            StoreMode::Set | StoreMode::Add | StoreMode::Replace => self.store_new(store, false),
        };
        self.note_stored();
        outcome
    }

    /// As [`Worker::store`], with the lease already given to this caller; also where the new item lies, which stays for
    /// this operation even if another takes its place.
    pub(crate) fn store_won(&self, store: Store<'_>) -> Result<Placed, StoreOutcome> {
        // Before, not after: it tells others that this worker holds nothing.
        self.note_stored();
        self.store_at(store, true)
    }

    fn new_header(&self, deadline: u32, flags: u32, new_cas: Option<u64>) -> Header {
        Header {
            deadline,
            deadline_word: false,
            cas: self.member.cache().next_cas(new_cas),
            flags,
            key_is_binary: false,
            stale: false,
            win: false,
            fetched: false,
            last_access: self.turn().secs,
        }
    }

    #[inline]
    fn store_new(&self, store: Store<'_>, win: bool) -> StoreOutcome {
        let value_len = store.value.value_len();
        match self.store_at(store, win) {
            Ok(Placed { cas, .. }) => StoreOutcome::Stored { cas, value_len },
            Err(outcome) => outcome,
        }
    }

    /// Stores a new item.
    fn store_at(&self, store: Store<'_>, win: bool) -> Result<Placed, StoreOutcome> {
        let Store {
            key,
            mode,
            compare_cas,
            invalidate,
            ..
        } = store;
        let conditions = Conditions {
            mode,
            compare_cas,
            invalidate,
            vivify: false,
        };
        let value_len = store.value.value_len();
        let cache = self.member.cache();
        if !cache.fits(key.len(), store.flags, value_len) {
            return Err(StoreOutcome::Refused(Refusal::TooLarge));
        }
        let hash = cache.index.hash(key);
        let home = cache.index.prefetch(&cache.heap, hash);
        let mut old = None;
        if conditions.any() {
            old = self.look(hash, key);
            if let Decision::Answer(outcome) = decide(&conditions, old.as_ref().map(|(_, old)| old)) {
                return Err(outcome);
            }
        }
        let deadline = self.deadline(store.exptime);
        let header = Header {
            // It may have to take over the old item's deadline.
            deadline_word: invalidate,
            key_is_binary: store.key_is_binary,
            win,
            ..self.new_header(deadline, store.flags, store.new_cas)
        };
        let cas = header.cas.unwrap_or(0);
        if let (Body::Bytes(value), false) = (&store.value, conditions.any())
            && let Some(location) = self.store_at_once(hash, home, key, &header, value)
        {
            return Ok(Placed { cas, location });
        }
        if !conditions.any() {
            old = self.look(hash, key);
        }
        let heat = self.heat_of(hash, old.map(|(found, _)| found.heat()));
        let location = self.store_by_draft(&conditions, hash, key, &header, store.value, heat)?;
        Ok(Placed { cas, location })
    }

    /// The long way: the item is written first, and then published if the conditions hold; where it lies then.
    #[inline(never)]
    fn store_by_draft(
        &self,
        conditions: &Conditions,
        hash: KeyHash,
        key: &[u8],
        header: &Header,
        value: Body<'_>,
        heat: Heat,
    ) -> Result<Location, StoreOutcome> {
        let mut source = Addition::of(value).map_err(StoreOutcome::Refused)?;
        loop {
            let draft = self.draft(hash, key, header, &mut source, heat);
            let draft = draft.map_err(StoreOutcome::Refused)?;
            if let Some(location) = self.publish_by(conditions, hash, key, draft, &mut source)? {
                return Ok(location);
            }
        }
    }

    /// Publishes the draft if the conditions hold and returns where it lies; `None`: it was flushed before that, `source`
    /// has its value again.
    fn publish_by(
        &self,
        conditions: &Conditions,
        hash: KeyHash,
        key: &[u8],
        mut draft: Draft<'_>,
        source: &mut Addition<'_>,
    ) -> Result<Option<Location>, StoreOutcome> {
        let cache = self.member.cache();
        let (locked, occupant) = self.lock_for_store(hash, key);
        let old = occupant
            .as_ref()
            .filter(|_| conditions.any())
            .and_then(Occupant::live);
        let old = old.map(|entry| entry.item.header());
        let decision = decide(conditions, old.as_ref());
        if let Decision::Answer(outcome) = decision {
            drop(locked);
            self.discard(draft);
            return Err(outcome);
        }
        if self.is_flushed(&draft) {
            drop(locked);
            if let Some(pieces) = draft.pieces.take() {
                *source = Addition::Pieces(pieces);
            }
            self.discard(draft);
            return Ok(None);
        }
        if let (Decision::PublishStale, Some(old)) = (decision, old) {
            // The draft takes over what the old item says now; the deadline's word was provided for.
            let deadline = draft.item.deadline();
            let fits = draft.item.set_deadline(old.deadline);
            debug_assert!(fits, "drafted with a deadline");
            draft.item.set_lease(true, old.win);
            cache.change_deadlines(draft.location, draft.item, deadline, old.deadline);
        }
        let location = draft.location;
        self.publish(locked, occupant, draft);
        Ok(Some(location))
    }

    /// Whether a flush came between the draft and this moment. What is published must not be dead by it: it would take the
    /// place of something that was stored after the flush. Asked after the old item was looked at.
    fn is_flushed(&self, draft: &Draft<'_>) -> bool {
        let cache = self.member.cache();
        cache.is_flushed(cache.heap.segment_of(draft.location))
    }

    /// Writes the item that `header`, `key` and `source` make; takes the pieces of `source` if it has some.
    fn draft(
        &self,
        hash: KeyHash,
        key: &[u8],
        header: &Header,
        source: &mut Addition<'_>,
        heat: Heat,
    ) -> Result<Draft<'_>, Refusal> {
        match std::mem::replace(source, Addition::Bytes(b"")) {
            Addition::Pieces(pieces) => self.draft_chained(hash, key, header, pieces, heat),
            bytes => {
                *source = bytes;
                self.draft_bytes(hash, key, header, &source.slices(), heat)
            }
        }
    }

    /// As `draft`; the value is the concatenation of `parts`, which must not be in unpinned segments.
    fn draft_bytes(
        &self,
        hash: KeyHash,
        key: &[u8],
        header: &Header,
        parts: &[&[u8]],
        heat: Heat,
    ) -> Result<Draft<'_>, Refusal> {
        let cache = self.member.cache();
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let turn = self.turn();
        let item_len = header.item_len(key.len(), ValueShape::Inline(len));
        let place = cache.eviction.place(item_len, heat, header.deadline, turn.tick);
        if len > cache.inline_value_max() || cache.cuts(place.log, item_len) {
            let place = cache.eviction.place(len, heat, header.deadline, turn.tick);
            let pieces = PieceList::copy_of(&self.member, &turn, parts, &place)?;
            return self.draft_chained(hash, key, header, pieces, heat);
        }
        // A listing does not say that an item was read: one that counts as read from the start is not listed.
        let listed = (!header.fetched).then_some(hash);
        let room = cache.reserve(&turn, &place, item_len, listed)?;
        let (location, len) = (room.location(), room.len());
        Ok(Draft {
            item: room.write(header, key, parts),
            location,
            len,
            pieces: None,
            heat,
            replaces: Cause::Replaced,
        })
    }

    fn draft_chained(
        &self,
        hash: KeyHash,
        key: &[u8],
        header: &Header,
        mut pieces: PieceList,
        heat: Heat,
    ) -> Result<Draft<'_>, Refusal> {
        let cache = self.member.cache();
        let turn = self.turn();
        let shape = ValueShape::Chained {
            len: pieces.value_len(),
            pieces: pieces.pieces().len(),
        };
        let item_len = header.item_len(key.len(), shape);
        // By the same size as its pieces, so that they go to the same log.
        let size = pieces.value_len();
        let place = cache.eviction.place(size, heat, header.deadline, turn.tick);
        let room = cache.reserve(&turn, &place, item_len, None)?;
        let (location, len) = (room.location(), room.len());
        pieces.belong_to(hash, header.deadline);
        let item = room.write_chained(header, key, pieces.value_len(), pieces.pieces());
        Ok(Draft {
            item,
            location,
            len,
            pieces: Some(pieces),
            heat,
            replaces: Cause::Replaced,
        })
    }

    /// What is known of how often a key is read: by its item, else from before it was evicted.
    fn heat_of(&self, hash: KeyHash, item: Option<Heat>) -> Heat {
        let ghost = &self.member.cache().eviction.ghost;
        item.unwrap_or_else(|| ghost.take(hash).map_or(Heat::default(), Heat::remembered))
    }

    /// The draft is not wanted: its bytes are dead.
    fn discard(&self, draft: Draft<'_>) {
        let deadline = draft.item.deadline();
        self.member
            .cache()
            .count_dead(draft.location, draft.item.len(), deadline);
    }

    /// Locks the key's line and says what has its slot; if it has none and its page is full, the index grows there first.
    fn lock_for_store(&self, hash: KeyHash, key: &[u8]) -> (Locked<'_>, Option<Occupant<'_>>) {
        let cache = self.member.cache();
        let mut attempts = 0;
        loop {
            let locked = cache.index.lock(&cache.heap, hash);
            let occupant = self.occupant(&locked, key);
            if occupant.is_some() || locked.has_room() || attempts == RELIEF_ATTEMPTS {
                return (locked, occupant);
            }
            drop(locked);
            attempts += 1;
            cache.relieve_index(&self.turn(), hash);
        }
    }

    /// What has the locked key's slot.
    #[inline]
    fn occupant<'c>(&'c self, locked: &Locked<'c>, key: &[u8]) -> Option<Occupant<'c>> {
        locked.find(key).map(|entry| self.occupying(entry))
    }

    #[inline]
    fn occupying<'c>(&self, entry: Entry<'c>) -> Occupant<'c> {
        let cache = self.member.cache();
        let death = cache.death(entry.location, entry.item.deadline(), cache.tick());
        Occupant { entry, death }
    }

    /// Points the key's slot, which `old` has, at the draft. Releases the line's lock.
    fn publish(&self, mut locked: Locked<'_>, old: Option<Occupant<'_>>, draft: Draft<'_>) {
        let cache = self.member.cache();
        let turn = self.turn();
        let pushed_out = match &old {
            Some(old) => {
                locked.replace(&old.entry, draft.location, old.entry.heat);
                None
            }
            None => locked.insert(draft.location, draft.heat),
        };
        let hash = locked.hash();
        drop(locked);
        let bytes = match draft.pieces {
            None => draft.len,
            Some(_) => cache.whole_len(draft.item),
        } as u64;
        cache.eviction.note(hash, turn.tick, || {
            Event::Stored(bytes as u32, draft.item.deadline())
        });
        if let Some(pieces) = draft.pieces {
            pieces.keep();
        }
        turn.tally.created.add(1);
        turn.tally.created_bytes.add(bytes);
        turn.tally.sizes.note_created(bytes);
        if let Some(old) = old {
            cache.bury(&turn, &old.entry, old.death.unwrap_or(draft.replaces));
        }
        if let Some(victim) = pushed_out {
            cache.bury(&turn, &victim, Cause::Evicted);
        }
    }

    /// Append and prepend: the old value is read, the joined one written beside it and published if nothing changed in
    /// between, else all over. Each retry means that another writer of this very key succeeded.
    fn join(&self, store: Store<'_>) -> StoreOutcome {
        let conditions = Conditions {
            mode: store.mode,
            compare_cas: store.compare_cas,
            invalidate: false,
            vivify: store.vivify.is_some(),
        };
        let addition = match Addition::of(store.value) {
            Ok(addition) => addition,
            Err(why) => return StoreOutcome::Refused(why),
        };
        let hash = self.member.cache().index.hash(store.key);
        loop {
            let old = self.look(hash, store.key);
            if let Decision::Answer(outcome) = decide(&conditions, old.as_ref().map(|(_, old)| old)) {
                return outcome;
            }
            let Some((found, old)) = old else {
                let header = Header {
                    key_is_binary: store.key_is_binary,
                    ..self.new_header(
                        self.deadline(store.vivify.unwrap_or_default()),
                        store.flags,
                        store.new_cas,
                    )
                };
                let heat = self.heat_of(hash, None);
                match self.write_joined(hash, store.key, &header, None, &addition.slices(), Heir::of(heat)) {
                    Joined::Done(outcome) => return outcome,
                    Joined::Changed => continue,
                }
            };
            let header = Header {
                cas: self.member.cache().next_cas(store.new_cas),
                fetched: false,
                stale: false,
                win: false,
                last_access: self.turn().secs,
                ..old
            };
            // Pinned, so that the old bytes stay while memory for the new ones is found.
            let (location, heat) = (found.location, found.heat());
            let old_value: Vec<PinnedSlice> = Value::new(found.item, location, &self.member).pins().collect();
            let mut parts: Vec<&[u8]> = old_value.iter().map(AsRef::as_ref).collect();
            let added = addition.slices();
            if store.mode == StoreMode::Append {
                parts.extend(added);
            } else {
                parts.splice(0..0, added);
            }
            match self.write_joined(
                hash,
                store.key,
                &header,
                Some((location, old)),
                &parts,
                Heir::of(heat),
            ) {
                Joined::Done(outcome) => return outcome,
                Joined::Changed => {}
            }
        }
    }

    fn write_joined(
        &self,
        hash: KeyHash,
        key: &[u8],
        header: &Header,
        expected: Option<(Location, Header)>,
        parts: &[&[u8]],
        heir: Heir,
    ) -> Joined {
        let cache = self.member.cache();
        let value_len = parts.iter().map(|part| part.len()).sum();
        if !cache.fits(key.len(), header.flags, value_len) {
            return Joined::Done(StoreOutcome::Refused(Refusal::TooLarge));
        }
        let draft = match self.draft_bytes(hash, key, header, parts, heir.heat) {
            Ok(draft) => Draft {
                replaces: heir.replaces,
                ..draft
            },
            Err(why) => return Joined::Done(StoreOutcome::Refused(why)),
        };
        if self.publish_if(hash, key, draft, expected) {
            Joined::Done(StoreOutcome::Stored {
                cas: header.cas.unwrap_or(0),
                value_len,
            })
        } else {
            Joined::Changed
        }
    }

    /// Publishes the draft if the key's item is still the one at `expected` with the same deadline, CAS number and lease
    /// (or still absent) and no flush came in between; else gives the draft up.
    fn publish_if(
        &self,
        hash: KeyHash,
        key: &[u8],
        draft: Draft<'_>,
        expected: Option<(Location, Header)>,
    ) -> bool {
        let (locked, occupant) = self.lock_for_store(hash, key);
        let same = match (occupant.as_ref().and_then(Occupant::live), &expected) {
            (None, None) => true,
            (Some(entry), Some((location, header))) => {
                entry.location == *location && entry.item.header().same_words(header)
            }
            _ => false,
        } && !self.is_flushed(&draft);
        if same {
            self.publish(locked, occupant, draft);
        } else {
            drop(locked);
            self.discard(draft);
        }
        same
    }

    /// Adds to or subtracts from a decimal value. A shorter result is padded with spaces to the old length, as memcached
    /// does; a longer one is a new item without the lease state.
    pub fn arith(&mut self, arith: &Arith<'_>) -> ArithOutcome {
        let hash = self.member.cache().index.hash(arith.key);
        let outcome = loop {
            let Some((found, old)) = self.look(hash, arith.key) else {
                match self.arith_initial(arith) {
                    Some(outcome) => break outcome,
                    None => continue,
                }
            };
            let (location, old_len) = (found.location, found.item.value_len());
            let heat = found.heat();
            // In memcached's order: an empty value is no number, then the CAS number counts, then the digits.
            if old_len == 0 {
                break ArithOutcome::NonNumeric;
            }
            if arith.compare_cas.is_some_and(|cas| cas != old.cas.unwrap_or(0)) {
                break ArithOutcome::Exists;
            }
            // Digits beyond the first piece are too many for any number.
            let value = Value::new(found.item, location, &self.member);
            let start = value.slices().next().filter(|_| old_len <= ARITH_VALUE_MAX);
            let number = start.and_then(parse_u64);
            let Some(number) = number else {
                break ArithOutcome::NonNumeric;
            };
            let number = if arith.decrement {
                number.saturating_sub(arith.delta)
            } else {
                number.wrapping_add(arith.delta)
            };
            let mut digits = number.to_string().into_bytes();
            let grew = digits.len() > old_len;
            digits.resize(digits.len().max(old_len), b' ');
            let deadline = arith.touch.map_or(old.deadline, |exptime| self.deadline(exptime));
            let header = Header {
                deadline,
                cas: self.member.cache().next_cas(arith.new_cas),
                stale: old.stale && !grew,
                win: old.win && !grew,
                fetched: old.fetched && !grew,
                last_access: self.turn().secs,
                ..old
            };
            match self.write_joined(
                hash,
                arith.key,
                &header,
                Some((location, old)),
                &[&digits],
                Heir::of(heat),
            ) {
                Joined::Changed => {}
                Joined::Done(StoreOutcome::Stored { cas, .. }) => {
                    break ArithOutcome::Value {
                        number,
                        cas,
                        ttl: ttl_secs(deadline, self.turn().tick),
                        created: false,
                    };
                }
                Joined::Done(_) => break ArithOutcome::NoMemory,
            }
        };
        self.note_stored();
        outcome
    }

    /// Creates the counter if `arith` says so. `None`: somebody else created it in between.
    fn arith_initial(&self, arith: &Arith<'_>) -> Option<ArithOutcome> {
        let Some((number, exptime)) = arith.initial else {
            return Some(ArithOutcome::NotFound);
        };
        let digits = number.to_string();
        let outcome = self.store_new(
            Store {
                key_is_binary: arith.key_is_binary,
                mode: StoreMode::Add,
                exptime,
                new_cas: arith.new_cas,
                ..Store::set(arith.key, Body::Bytes(digits.as_bytes()))
            },
            false,
        );
        match outcome {
            StoreOutcome::Stored { cas, .. } => {
                let ttl = ttl_secs(self.deadline(exptime), self.turn().tick);
                Some(ArithOutcome::Value {
                    number,
                    cas,
                    ttl,
                    created: true,
                })
            }
            StoreOutcome::NotStored => None,
            _ => Some(ArithOutcome::NoMemory),
        }
    }

    /// `md x`: an empty item that never expires unless a life is given takes the old one's place, with its CAS number but neither its
    /// client flags nor its lease; with `I` it is stale and has a new number.
    pub(crate) fn drop_value(&self, delete: &Delete<'_>, hash: KeyHash) -> DeleteOutcome {
        loop {
            let Some((found, old)) = self.look(hash, delete.key) else {
                return DeleteOutcome::NotFound;
            };
            let (location, heat) = (found.location, found.heat());
            if delete.compare_cas.is_some_and(|cas| cas != old.cas.unwrap_or(0)) {
                return DeleteOutcome::Exists;
            }
            let new_number = delete.invalidate || delete.new_cas.is_some();
            let header = Header {
                deadline: self.deadline(delete.touch.unwrap_or(0)),
                cas: if new_number {
                    self.member.cache().next_cas(delete.new_cas)
                } else {
                    old.cas
                },
                flags: 0,
                stale: delete.invalidate,
                win: false,
                fetched: false,
                last_access: self.turn().secs,
                ..old
            };
            match self.write_joined(
                hash,
                delete.key,
                &header,
                Some((location, old)),
                &[],
                Heir {
                    heat,
                    replaces: Cause::Invalidated,
                },
            ) {
                Joined::Changed => {}
                Joined::Done(StoreOutcome::Stored { .. }) => return DeleteOutcome::Deleted,
                Joined::Done(_) => return DeleteOutcome::NoMemory,
            }
        }
    }

    /// Starts to receive a value of `value_len` bytes that will be stored with `exptime`; memory is taken as bytes arrive.
    pub fn begin_upload(&mut self, value_len: usize, exptime: i64) -> Upload {
        let deadline = self.deadline(exptime);
        Upload::new(&self.member, value_len, deadline, self.now)
    }
}

/// How an optimistic store ended.
enum Joined {
    Done(StoreOutcome),
    /// Somebody else changed the item in between.
    Changed,
}

mod addition;
mod at_once;
