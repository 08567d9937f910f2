//! The terminal: reads keys, takes in readings, draws when something has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use scrubjay_io::clock::Clock;
use scrubjay_io::{process, thread as threads};

use super::fleet::{Fleet, Reading};
use super::screen::{self, Look};
use super::view::View;

/// How long a reading may wait to be shown. Keys are seen at once.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the thread that draws may take to see that it is to end.
const GRACE: Duration = Duration::from_secs(1);

/// Shows the servers until the user has seen enough, or a signal comes. The signals are to be blocked already.
///
/// # Errors
/// What the terminal refuses, and threads that cannot be started.
pub(super) fn run(
    fleet: &mut Fleet,
    readings: &Receiver<Reading>,
    clock: Clock,
    interval: Duration,
) -> Result<(), String> {
    let refused =
        |why: std::io::Error| format!("cannot use this terminal: {why}; --once prints a table without one");
    let is_ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_ended);
    // Whichever signal it is: nobody is to find the terminal as only this program can use it. Relaxed: it publishes nothing.
    let wait = move || {
        process::wait_signal();
        ends.store(true, Ordering::Relaxed);
        // A terminal that is gone reads as empty without end, and crossterm does not come back from reading it.
        threads::Bell::default().wait(GRACE);
        // Nobody is left to tell if that fails.
        let _ = ratatui::try_restore();
        std::process::exit(0);
    };
    threads::spawn("signals", wait).map_err(|why| format!("cannot start a thread: {why}"))?;
    // Whatever happens from here on, a panic too, the terminal is given back as it was.
    let mut terminal = ratatui::try_init().map_err(refused)?;
    let result = watch(&mut terminal, fleet, readings, clock, interval, &is_ended);
    ratatui::restore();
    result.map_err(refused)
}

fn watch(
    terminal: &mut DefaultTerminal,
    fleet: &mut Fleet,
    readings: &Receiver<Reading>,
    clock: Clock,
    interval: Duration,
    is_ended: &AtomicBool,
) -> std::io::Result<()> {
    let mut view = View::new();
    let mut look = Look {
        now: clock.now(),
        interval: format!("{} s", interval.as_secs_f64()),
        has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    let interval_nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    let mut noted_at = look.now;
    let mut is_stale = true;
    while !is_ended.load(Ordering::Relaxed) {
        look.now = clock.now();
        for reading in readings.try_iter() {
            fleet.take(reading);
            is_stale = true;
        }
        if look.now.nanos_since(noted_at) >= interval_nanos {
            noted_at = look.now;
            fleet.note();
            is_stale = true;
        }
        if is_stale {
            terminal.draw(|frame| screen::draw(frame, fleet, &mut view, &look))?;
            is_stale = false;
        }
        if !event::poll(PAUSE)? {
            continue;
        }
        // Whatever came, a new size too, is worth a new picture.
        is_stale = true;
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && !view.handle(key, fleet)
        {
            return Ok(());
        }
    }
    Ok(())
}
