//! One thread of a load: an event loop over its connections. In a closed loop a connection sends its next requests when all of
//! the last ones are answered; at a rate, each request has its moment, and what is late is late from that moment on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use scrubjay_io::clock::Clock;
use scrubjay_io::driver::Ready;

use crate::exchange::{Outcome, Terms, Verb};
use crate::lane::Lane;
use crate::source::Source;
use crate::tally::Tally;
use crate::transport::{Room, Route, Sockets, Transport};

/// How often a thread looks at what is not urgent, in nanoseconds.
const TICK: u64 = 50_000_000;

/// Bytes that may wait on a connection before the thread puts no more there.
const OUTPUT_MAX: usize = 4 << 20;

/// What the threads of a run share.
#[derive(Debug, Default)]
pub(crate) struct Common {
    /// One of them has failed, and nobody needs to go on.
    pub(crate) failed: AtomicBool,
    /// Keys answered so far, for who watches.
    pub(crate) requests: AtomicU64,
    /// Hits among them.
    pub(crate) hits: AtomicU64,
}

/// When things happen, in nanoseconds of the run's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Load begins.
    pub(crate) begin: u64,
    /// Measuring begins.
    pub(crate) measured: u64,
    /// Measuring ends and no more is sent.
    pub(crate) end: u64,
}

impl Window {
    fn has(&self, moment: u64) -> bool {
        (self.measured..self.end).contains(&moment)
    }
}

/// How a thread asks.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    /// Requests in flight on a connection.
    pub(crate) pipeline: usize,
    /// Keys that go together.
    pub(crate) multiget: usize,
    /// Stores are not answered one by one.
    pub(crate) noreply: bool,
    /// What a get did not find is stored.
    pub(crate) refill: bool,
    /// Where a connection is opened to for what is in flight together; none: connections stay.
    pub(crate) reconnect: Option<Route>,
    /// Nanoseconds between two requests of this thread, and of its first from the beginning; none: as fast as it goes.
    pub(crate) pace: Option<(f64, f64)>,
    /// Time without an answer after which the server is given up.
    pub(crate) patience: Duration,
    /// Cores to stay on.
    pub(crate) cores: Option<Vec<usize>>,
}

/// What one thread did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) tally: Tally,
    /// Nanoseconds on a processor while it measured.
    pub(crate) busy: u64,
    /// When its last reply came.
    pub(crate) last: u64,
    /// There was nothing left to ask before the time was over.
    pub(crate) is_exhausted: bool,
    pub(crate) result: Result<(), String>,
}

/// A thread's loop.
pub(crate) struct LoadThread<D> {
    driver: D,
    clock: Clock,
    lanes: Vec<Lane>,
    source: Source,
    manner: Manner,
    window: Window,
    common: Arc<Common>,
    tally: Tally,
    keys: Vec<u64>,
    /// Keys that a lane has just been told are not there.
    absent: Vec<u64>,
    /// Lanes with room for a request; at a rate only.
    free: VecDeque<usize>,
    /// Requests sent at a rate.
    paced: u64,
    /// Nothing more is to be asked.
    is_ending: bool,
    is_exhausted: bool,
    next_tick: u64,
    published: (u64, u64),
    cpu_at_start: Option<u64>,
    busy: u64,
    last: u64,
}

impl<D: Sockets> LoadThread<D> {
    pub(crate) fn new(
        mut driver: D,
        transports: Vec<Option<Transport>>,
        terms: &Arc<Terms>,
        source: Source,
        manner: Manner,
        (window, clock): (Window, Clock),
        common: Arc<Common>,
    ) -> Result<LoadThread<D>, String> {
        let mut lanes = Vec::new();
        for (token, transport) in transports.into_iter().enumerate() {
            let mut lane = Lane::new(token as u64, Arc::clone(terms));
            if let Some(transport) = transport {
                lane.open(transport, &mut driver)?;
            }
            lanes.push(lane);
        }
        Ok(LoadThread {
            driver,
            clock,
            lanes,
            source,
            manner,
            window,
            common,
            tally: Tally::default(),
            keys: Vec::new(),
            absent: Vec::new(),
            free: VecDeque::new(),
            paced: 0,
            is_ending: false,
            is_exhausted: false,
            next_tick: 0,
            published: (0, 0),
            cpu_at_start: None,
            busy: 0,
            last: window.begin,
        })
    }

    /// Runs to its end.
    pub(crate) fn run(mut self) -> Done {
        let result = self.prepare().and_then(|()| self.turn_until_done());
        if result.is_err() {
            // Whoever sees it late stops late.
            self.common.failed.store(true, Ordering::Relaxed);
        }
        self.note_unsent();
        Done {
            tally: self.tally,
            busy: self.busy,
            last: self.last,
            is_exhausted: self.is_exhausted,
            result,
        }
    }

    fn prepare(&mut self) -> Result<(), String> {
        if let Some(cores) = &self.manner.cores {
            scrubjay_io::thread::stay_on(cores)
                .map_err(|why| format!("cannot stay on cores {cores:?}: {why}"))?;
        }
        scrubjay_io::thread::wake_precisely();
        if self.manner.pace.is_some() {
            self.free.extend(0..self.lanes.len());
            self.lanes.iter_mut().for_each(|lane| lane.is_listed = true);
        } else {
            let now = self.clock.now().nanos();
            (0..self.lanes.len()).try_for_each(|index| self.ask_next(index, now))?;
        }
        Ok(())
    }

    fn turn_until_done(&mut self) -> Result<(), String> {
        let mut ready: Vec<Ready> = Vec::new();
        let mut room = Room::new(self.manner.pipeline);
        loop {
            let now = self.clock.now().nanos();
            self.look_at_the_time(now);
            if now >= self.next_tick {
                self.next_tick = now + TICK;
                self.tick(now)?;
                if self.common.failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            if !self.is_ending && self.manner.pace.is_some() {
                self.ask_what_is_due(now)?;
            }
            if self.is_ending && self.lanes.iter().all(|lane| lane.exchange.units() == 0) {
                return Ok(());
            }
            let until = self.next_moment().saturating_sub(now);
            let waited = match self.manner.pace {
                Some(_) => self.driver.wait_nanos(until, &mut ready),
                None => self.driver.wait(Some((until / 1_000_000) as u32 + 1), &mut ready),
            };
            waited.map_err(|why| format!("waiting failed: {why}"))?;
            for event in &ready {
                let index = event.token as usize;
                if event.readable {
                    self.receive(index, &mut room)?;
                }
                if event.writable {
                    self.lanes[index].send(&mut self.driver)?;
                }
            }
        }
    }

    /// Begins and ends measuring.
    fn look_at_the_time(&mut self, now: u64) {
        if now >= self.window.measured && self.cpu_at_start.is_none() {
            self.cpu_at_start = Some(scrubjay_io::thread::cpu_nanos());
        }
        if now >= self.window.end {
            self.end();
        }
    }

    /// There is nothing left to ask.
    fn exhaust(&mut self) {
        self.is_exhausted = true;
        self.end();
    }

    fn end(&mut self) {
        if !self.is_ending {
            self.is_ending = true;
            let cpu = scrubjay_io::thread::cpu_nanos();
            self.busy = cpu - self.cpu_at_start.unwrap_or(cpu);
        }
    }

    /// When there is something to do though no reply comes.
    fn next_moment(&self) -> u64 {
        let due = match self.manner.pace {
            Some(_) if !self.is_ending && !self.free.is_empty() => self.due(),
            _ => u64::MAX,
        };
        due.min(self.next_tick)
            .min(if self.is_ending { u64::MAX } else { self.window.end })
    }

    /// The moment of the next request at a rate.
    fn due(&self) -> u64 {
        let (interval, first) = self.manner.pace.unwrap_or_default();
        self.window.begin + (first + self.paced as f64 * interval) as u64
    }

    fn ask_what_is_due(&mut self, now: u64) -> Result<(), String> {
        while !self.is_ending {
            let due = self.due();
            if due > now {
                break;
            }
            let Some(index) = self.free.pop_front() else {
                break;
            };
            if !self.ask(index, due, now) {
                self.exhaust();
                break;
            }
            self.paced += 1;
            let lane = &mut self.lanes[index];
            lane.moved = now;
            lane.is_listed = lane.exchange.units() < self.manner.pipeline;
            if lane.is_listed {
                self.free.push_back(index);
            }
            self.send(index)?;
        }
        Ok(())
    }

    /// In a closed loop: the next requests of a lane that has none in flight.
    fn ask_next(&mut self, index: usize, now: u64) -> Result<(), String> {
        if self.is_ending {
            return Ok(());
        }
        if self.manner.noreply && self.source.is_sets_only() {
            if self
                .source
                .draw_keys(self.manner.pipeline, &mut self.keys)
                .is_none()
            {
                self.exhaust();
            } else {
                let version = self.source.draw_version();
                let lane = &mut self.lanes[index];
                lane.exchange
                    .set_quietly(&self.keys, version, now, &mut lane.output);
            }
        } else {
            for _ in 0..self.manner.pipeline {
                if self.lanes[index].output.len() > OUTPUT_MAX {
                    break;
                }
                if !self.ask(index, now, now) {
                    self.exhaust();
                    break;
                }
            }
        }
        self.lanes[index].moved = now;
        self.send(index)
    }

    /// Sends what was put on a lane, over a connection of its own if it is to have one.
    fn send(&mut self, index: usize) -> Result<(), String> {
        let lane = &mut self.lanes[index];
        if let Some(route) = &self.manner.reconnect
            && lane.is_closed()
            && lane.exchange.units() > 0
        {
            lane.open(route.begin(self.manner.patience)?, &mut self.driver)?;
        }
        lane.send(&mut self.driver)
    }

    /// Puts one request on a lane, as of the moment `at`, to be sent now; `false` if there is none left.
    fn ask(&mut self, index: usize, at: u64, now: u64) -> bool {
        let Some(verb) = self.source.draw(&mut self.keys) else {
            return false;
        };
        let Lane { exchange, output, .. } = &mut self.lanes[index];
        match verb {
            Verb::Get => exchange.get(&self.keys, at, output),
            Verb::Delete => exchange.delete(self.keys[0], at, output),
            Verb::Set => {
                let version = self.source.draw_version();
                if self.manner.noreply {
                    exchange.set_quietly(&self.keys, version, at, output);
                } else {
                    exchange.set(self.keys[0], version, at, output);
                }
            }
        }
        self.lanes[index].end_request(now);
        true
    }

    fn receive(&mut self, index: usize, room: &mut Room) -> Result<(), String> {
        let (clock, window, tally) = (self.clock, self.window, &mut self.tally);
        let is_paced = self.manner.pace.is_some();
        let (refill, absent) = (self.manner.refill, &mut self.absent);
        let lane = &mut self.lanes[index];
        let mut now = None;
        let len = lane.receive(&mut self.driver, room, |waiting, outcome| {
            // One moment for all that came together.
            let now = *now.get_or_insert_with(|| clock.now().nanos());
            let moment = if is_paced { waiting.at } else { now };
            let nanos = now.saturating_sub(waiting.at);
            if refill && waiting.verb == Verb::Get && outcome == Outcome::Miss {
                absent.push(waiting.key);
            }
            tally.note(waiting, outcome, nanos, window.has(moment));
        })?;
        if len == 0 {
            return Ok(());
        }
        // What closes a group may come by itself, with nothing left to note.
        let now = now.unwrap_or_else(|| clock.now().nanos());
        lane.moved = now;
        self.last = now;
        self.refill(index, now)?;
        let lane = &mut self.lanes[index];
        if lane.exchange.units() == 0
            && self.manner.reconnect.is_some()
            && let Some(transport) = lane.close()
        {
            self.tally.note_connection(&transport, self.window.has(now));
        }
        if is_paced {
            if !lane.is_listed && lane.exchange.units() < self.manner.pipeline {
                lane.is_listed = true;
                self.free.push_back(index);
            }
            return Ok(());
        }
        if lane.exchange.units() == 0 {
            self.look_at_the_time(now);
            self.ask_next(index, now)?;
        }
        Ok(())
    }

    /// Stores what a lane was told is not there.
    fn refill(&mut self, index: usize, now: u64) -> Result<(), String> {
        if self.absent.is_empty() {
            return Ok(());
        }
        let Lane { exchange, output, .. } = &mut self.lanes[index];
        for key in self.absent.drain(..) {
            exchange.set(key, self.source.draw_version(), now, output);
            self.tally.refills += u64::from(self.window.has(now));
        }
        self.send(index)
    }

    /// What is not urgent: progress, and servers that do not answer.
    fn tick(&mut self, now: u64) -> Result<(), String> {
        let (requests, hits) = (self.tally.requests, self.tally.hits);
        let add = |to: &AtomicU64, number| to.fetch_add(number, Ordering::Relaxed);
        add(&self.common.requests, requests - self.published.0);
        add(&self.common.hits, hits - self.published.1);
        self.published = (requests, hits);
        let patience = u64::try_from(self.manner.patience.as_nanos()).unwrap_or(u64::MAX);
        for index in 0..self.lanes.len() {
            let lane = &self.lanes[index];
            if lane.is_lossy() {
                self.give_up(index, now, patience)?;
            } else if lane.exchange.units() > 0 && now.saturating_sub(lane.moved) >= patience {
                return Err(format!(
                    "no answer for {} s with {} requests in flight on a connection; --timeout allows more",
                    self.manner.patience.as_secs_f64(),
                    lane.exchange.waiting().count()
                ));
            }
        }
        Ok(())
    }

    /// What a lane that loses has waited for long enough is lost, and other requests take its place.
    fn give_up(&mut self, index: usize, now: u64, patience: u64) -> Result<(), String> {
        let lane = &mut self.lanes[index];
        let lost = now.checked_sub(patience).map_or(0, |until| lane.give_up(until));
        if lost == 0 {
            return Ok(());
        }
        self.tally.lost += lost;
        if self.manner.pace.is_some() {
            if !lane.is_listed {
                lane.is_listed = true;
                self.free.push_back(index);
            }
        } else if lane.exchange.units() == 0 {
            self.ask_next(index, now)?;
        }
        Ok(())
    }

    /// What was due within the measured time and has not been sent is at least as late as it is now.
    fn note_unsent(&mut self) {
        if self.manner.pace.is_none() || self.is_exhausted || self.window.end == u64::MAX {
            return;
        }
        let end = self.window.end;
        while self.due() < end {
            let due = self.due();
            if self.window.has(due) {
                self.tally.unsent += self.manner.multiget as u64;
                self.tally.record(Verb::Get, end - due);
            }
            self.paced += 1;
        }
    }
}
