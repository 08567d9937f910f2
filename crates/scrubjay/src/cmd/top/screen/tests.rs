//! What the screen says in its main states, by a terminal that is a buffer.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use scrubjay_base::time::Now;

use super::{Look, draw};
use crate::cmd::top::fleet::Fleet;
use crate::cmd::top::fleet::tests::{reading, stats};
use crate::cmd::top::view::View;

const SECS: u64 = 9;

/// Servers after [`SECS`] seconds, each with 10 gets a second more than the one before; those in `down` are gone for the last 4.
fn fleet(count: usize, down: &[usize]) -> Fleet {
    let names: Vec<String> = (0..count)
        .map(|server| format!("10.0.0.{server}:11211"))
        .collect();
    let mut fleet = Fleet::new(&names);
    for secs in 1..=SECS {
        for server in 0..count {
            let is_gone = down.contains(&server) && secs > SECS - 4;
            let outcome = if is_gone {
                Err("gone away")
            } else {
                Ok(stats(secs, 10 * (server as u64 + 1)))
            };
            fleet.take(reading(server, secs, outcome));
        }
        fleet.note();
    }
    fleet
}

/// The screen's lines after `keys`, and whether it has colours.
fn screen(fleet: &Fleet, size: (u16, u16), keys: &[KeyCode], has_colours: bool) -> (Vec<String>, bool) {
    let look = Look {
        now: Now::from_secs(SECS),
        interval: "1 s".to_owned(),
        has_colours,
    };
    let mut view = View::new();
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("memory");
    terminal
        .draw(|frame| draw(frame, fleet, &mut view, &look))
        .expect("memory");
    for &code in keys {
        assert!(
            view.handle(KeyEvent::new(code, KeyModifiers::NONE), fleet),
            "{code:?} goes on"
        );
        terminal
            .draw(|frame| draw(frame, fleet, &mut view, &look))
            .expect("memory");
    }
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(size.0));
    let text = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
    let is_coloured = buffer
        .content()
        .iter()
        .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
    (
        lines.map(|cells| text(cells).trim_end().to_owned()).collect(),
        is_coloured,
    )
}

fn lines(fleet: &Fleet, size: (u16, u16), keys: &[KeyCode]) -> Vec<String> {
    screen(fleet, size, keys, false).0
}

fn typed(text: &str) -> Vec<KeyCode> {
    text.chars().map(KeyCode::Char).collect()
}

#[test]
fn before_the_first_answer_it_says_so() {
    let fleet = Fleet::new(&["cache:1".to_owned()]);
    let lines = lines(&fleet, (80, 24), &[]);
    assert!(
        lines[0].starts_with("scrubjay top  1 server: 0 up, 1 not answered yet"),
        "{lines:#?}"
    );
    assert!(lines[0].ends_with("every 1 s"), "{lines:#?}");
    assert_eq!(
        lines[1],
        "requests/s          -                    hit ratio           -"
    );
    assert_eq!(lines[6], ">cache:1 not answered yet");
}

#[test]
fn one_server_has_a_row_and_curves() {
    let lines = lines(&fleet(1, &[]), (80, 24), &[]);
    assert!(lines[1].starts_with("requests/s         11"), "{lines:#?}");
    assert!(lines[1].contains("█"), "{lines:#?}");
    assert!(lines[1].contains("hit ratio     90.00 %"), "{lines:#?}");
    assert!(
        lines[4].starts_with("memory 600 of 1000 [##########......] 60.0 %   items 12"),
        "{lines:#?}"
    );
    assert_eq!(
        lines[5],
        " SERVER         ▼REQ/S  HIT%  SET/S EVICT/S  MEM%  ITEMS CONNS   IN/S  OUT/S"
    );
    assert_eq!(
        lines[6],
        ">10.0.0.0:11211     11  90.0      1       0  60.0     12     3     10    100"
    );
}

#[test]
fn twenty_servers_are_summed_and_scrolled() {
    let fleet = fleet(20, &[]);
    let first = lines(&fleet, (80, 24), &[]);
    // 10 + 20 + ... + 200 gets and a set of each.
    assert!(first[1].starts_with("requests/s       2120"), "{first:#?}");
    assert!(first[6].starts_with(">10.0.0.19:11211    201"), "{first:#?}");
    assert!(first[23].ends_with("1-17 of 20"), "{first:#?}");
    let last = lines(&fleet, (80, 24), &[KeyCode::End]);
    assert!(last[22].starts_with(">10.0.0.0:11211      11"), "{last:#?}");
    assert!(last[23].ends_with("4-20 of 20"), "{last:#?}");
    let all = lines(&fleet, (160, 50), &[]);
    assert!(all[14].contains("UPTIME"), "{all:#?}");
    assert_eq!(all.iter().filter(|line| line.contains(":11211")).count(), 20);
    let filtered = lines(&fleet, (80, 24), &typed("/0.7:"));
    assert!(filtered[6].starts_with(">10.0.0.7:11211"), "{filtered:#?}");
    assert!(filtered[23].starts_with("filter: 0.7:_"), "{filtered:#?}");
}

#[test]
fn who_is_down_is_told_in_words() {
    let fleet = fleet(3, &[2]);
    let (lines, is_coloured) = screen(&fleet, (80, 24), &[], false);
    assert!(!is_coloured);
    assert!(
        lines[0].starts_with("scrubjay top  3 servers: 2 up, 1 DOWN (/down lists)"),
        "{lines:#?}"
    );
    assert_eq!(lines[8], " 10.0.0.2:11211 DOWN 3s: gone away");
    assert!(lines[1].starts_with("requests/s         32"), "{lines:#?}");
    assert!(screen(&fleet, (80, 24), &[], true).1);
}

#[test]
fn a_narrow_screen_keeps_the_column_of_the_order() {
    let fleet = fleet(3, &[]);
    let narrow = lines(&fleet, (40, 10), &[]);
    assert_eq!(narrow[5], " SERVER         ▼REQ/S  HIT%  SET/S");
    let by_version = [KeyCode::Left, KeyCode::Left];
    let narrow = lines(&fleet, (40, 10), &by_version);
    assert_eq!(narrow[5], " SERVER          REQ/S        ▼VERSION", "{narrow:#?}");
    for size in [(1, 1), (7, 3), (20, 5), (300, 4), (3, 100)] {
        for keys in [&[][..], &[KeyCode::Enter], &[KeyCode::Char('?')]] {
            assert_eq!(lines(&fleet, size, keys).len(), usize::from(size.1));
        }
    }
}

#[test]
fn a_server_has_a_page() {
    let fleet = fleet(3, &[]);
    let page = lines(&fleet, (80, 24), &[KeyCode::Down, KeyCode::Enter]);
    assert_eq!(
        page[0],
        "10.0.0.1:11211  scrubjay 0.1.0, up 9s, process 7, reply 1.5 ms"
    );
    for words in [
        "gets            20  live             500  50.0%      expired             5     0",
        "hits            18  expired          100  10.0%      evicted             0     0",
        "limit, -m       1000 100.0%",
        "pid                                 7",
    ] {
        assert!(page.iter().any(|line| line.contains(words)), "{words}: {page:#?}");
    }
    assert!(page[23].ends_with("of 23"), "{page:#?}");
    let keys = [vec![KeyCode::Enter, KeyCode::Tab], typed("/cmd_")].concat();
    let list = lines(&fleet, (80, 24), &keys);
    assert!(
        list[2].starts_with("cmd_get ") && list[2].ends_with("+30"),
        "{list:#?}"
    );
    assert!(list[3].starts_with("cmd_set "), "{list:#?}");
    assert_eq!(list[4], "", "{list:#?}");
    let wide = lines(&fleet, (160, 50), &[KeyCode::Enter]);
    assert!(wide[1].contains("STATISTICS"), "{wide:#?}");
}

#[test]
fn another_server_than_a_scrubjay_has_a_page_too() {
    let mut fleet = Fleet::new(&["cache:11211".to_owned()]);
    for secs in 1..3 {
        let text = format!(
            "version 1.6.18\nlimit_maxbytes 1000\nbytes 250\nevictions {}\nreclaimed 4\n",
            secs * 5
        );
        fleet.take(reading(0, secs, Ok(text)));
    }
    let page = lines(&fleet, (80, 24), &[KeyCode::Enter]);
    for words in [
        "items            250  25.0%",
        "other or free    750  75.0%",
        "evicted            10     5",
    ] {
        assert!(page.iter().any(|line| line.contains(words)), "{words}: {page:#?}");
    }
}

#[test]
fn help_names_every_column() {
    let help = lines(&fleet(1, &[]), (80, 24), &typed("?")).join("\n");
    for column in super::COLUMNS {
        assert!(help.contains(column.title), "{help}");
        assert!(help.contains(column.about), "{help}");
    }
}
