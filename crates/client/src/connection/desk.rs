//! Where a thread waits: replies are laid there for it by whoever has read them.

use std::cell::RefCell;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Instant;

use rustix::event::EventfdFlags;
use scrubjay_base::sync::whole::{Mutex, MutexGuard, Thread, thread};

use super::Delivered;
use crate::ids::Ids;
use crate::protocol::conversation::Bundled;

/// What came of a bundle, and what its look-ups are called.
pub(crate) type Named = (Arc<Ids>, Bundled);

/// The place of one thread.
#[derive(Debug)]
pub(crate) struct Desk {
    tray: Mutex<Tray>,
    thread: Thread,
    /// Wakes the thread where it waits for sockets, too. Made when it is first needed; none if the system has none left.
    bell: OnceLock<Option<OwnedFd>>,
}

#[derive(Debug, Default)]
struct Tray {
    replies: Vec<(u64, Delivered)>,
    /// What came of bundles, and what their look-ups are called.
    bundled: Vec<Named>,
    called: bool,
    asleep: Asleep,
    next_id: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asleep {
    #[default]
    No,
    Parked,
    Polling,
}

impl Desk {
    /// A desk for this thread.
    pub(crate) fn new() -> Arc<Desk> {
        Arc::new(Desk {
            tray: Mutex::new(Tray::default()),
            thread: thread::current(),
            bell: OnceLock::new(),
        })
    }

    /// The desk that this thread has in this process. A child has none of its parent's.
    pub(crate) fn of_thread(process: u32) -> Arc<Desk> {
        thread_local! {
            static DESK: RefCell<Option<(u32, Arc<Desk>)>> = const { RefCell::new(None) };
        }
        let made = DESK.try_with(|desk| {
            let mut desk = desk.borrow_mut();
            match &*desk {
                Some((of, desk)) if *of == process => desk.clone(),
                // What the parent had may be in use by its threads, which this process does not have.
                _ => {
                    let made = Desk::new();
                    mem::forget(desk.replace((process, made.clone())));
                    made
                }
            }
        });
        // A thread that is ending has no place for one any more.
        made.unwrap_or_else(|_| Desk::new())
    }

    fn tray(&self) -> MutexGuard<'_, Tray> {
        self.tray.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which one it is, among those that are there.
    pub(super) fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Names for so many replies that are waited for, from this one on; each only once.
    pub(crate) fn next_ids(&self, count: u64) -> u64 {
        let mut tray = self.tray();
        tray.next_id += count;
        tray.next_id - count
    }

    /// Lays replies down. The thread is still to be woken.
    pub(crate) fn deliver(&self, replies: impl IntoIterator<Item = (u64, Delivered)>) {
        self.tray().replies.extend(replies);
    }

    /// Lays down what came of a bundle.
    pub(crate) fn deliver_bundled(&self, ids: Arc<Ids>, bundled: Bundled) {
        self.tray().bundled.push((ids, bundled));
    }

    /// Makes the thread look again.
    pub(crate) fn wake(&self) {
        let mut tray = self.tray();
        tray.called = true;
        let asleep = mem::take(&mut tray.asleep);
        drop(tray);
        match asleep {
            Asleep::No => {}
            Asleep::Parked => self.thread.unpark(),
            Asleep::Polling => {
                if let Some(bell) = self.bell() {
                    // It is full only if it rings already.
                    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
                }
            }
        }
    }

    /// The reply of this name. All others are nobody's any more.
    pub(crate) fn take(&self, id: u64) -> Option<Delivered> {
        let mut tray = self.tray();
        tray.bundled.clear();
        let found = tray.replies.drain(..).find(|(each, _)| *each == id);
        found.map(|(_, reply)| reply)
    }

    /// All replies.
    pub(crate) fn take_all(&self, replies: &mut Vec<(u64, Delivered)>, bundled: &mut Vec<Named>) {
        let mut tray = self.tray();
        replies.append(&mut tray.replies);
        bundled.append(&mut tray.bundled);
    }

    /// From here on the thread looks at everything; what happens later wakes it.
    pub(crate) fn look(&self) {
        self.tray().called = false;
    }

    /// Sleeps until the thread is woken, or the time is up.
    pub(crate) fn sleep(&self, until: Option<Instant>) {
        loop {
            if !self.lie_down(Asleep::Parked) {
                return;
            }
            match until {
                None => thread::park(),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        self.get_up();
                        return;
                    }
                    thread::park_timeout(left);
                }
            }
        }
    }

    /// The thread is about to wait for sockets and its bell; not if it has been woken already.
    pub(crate) fn start_polling(&self) -> bool {
        self.lie_down(Asleep::Polling)
    }

    /// Whether it has been called since it last slept or looked.
    pub(super) fn is_called(&self) -> bool {
        self.tray().called
    }

    /// It has waited.
    pub(crate) fn stop_polling(&self, rung: bool) {
        self.get_up();
        if let (true, Some(bell)) = (rung, self.bell()) {
            // Empty only if nobody has rung.
            let _ = rustix::io::read(bell, &mut [0u8; 8]);
        }
    }

    fn lie_down(&self, how: Asleep) -> bool {
        let mut tray = self.tray();
        let quiet = !mem::take(&mut tray.called);
        tray.asleep = if quiet { how } else { Asleep::No };
        quiet
    }

    fn get_up(&self) {
        let mut tray = self.tray();
        tray.asleep = Asleep::No;
        tray.called = false;
    }

    pub(crate) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.bell
            .get_or_init(|| rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok())
            .as_ref()
            .map(AsFd::as_fd)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags};

    use super::Desk;
    use crate::connection::poll;

    #[test]
    fn the_bell_rings_for_those_who_wait_at_sockets_only() {
        let desk = Desk::new();
        let rings = || {
            let bell = desk.bell().expect("the system has one left");
            let mut fds = [PollFd::new(&bell, PollFlags::IN)];
            poll(&mut fds, Some(Duration::ZERO)).expect("it can be asked");
            !fds[0].revents().is_empty()
        };
        assert!(desk.start_polling());
        assert!(!rings(), "nobody calls");
        desk.wake();
        assert!(rings());
        desk.stop_polling(true);
        // It is about to look at everything: a call only keeps it from waiting again.
        desk.wake();
        assert!(!rings());
        assert!(!desk.start_polling());
        assert!(desk.start_polling(), "that call was heard");
    }
}
