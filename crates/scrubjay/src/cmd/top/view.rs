//! What the user has chosen to see, and what each key changes about it. Nothing is drawn here.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::columns::{self, COLUMNS};
use super::fleet::{Fleet, Server, State};

/// Longest text to search for.
const SEARCH_LEN_MAX: usize = 64;

/// A text to search for, and whether it is being typed.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    pub(super) text: String,
    pub(super) is_open: bool,
}

impl Search {
    /// Takes what is typed.
    fn handle(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_open = false,
            KeyCode::Esc => *self = Search::default(),
            KeyCode::Backspace => drop(self.text.pop()),
            KeyCode::Char(char) if self.text.chars().count() < SEARCH_LEN_MAX => self.text.push(char),
            _ => (),
        }
    }

    /// Whether one of `texts` contains it; upper and lower case are the same.
    pub(super) fn finds(&self, texts: &[&str]) -> bool {
        let wanted = self.text.to_lowercase();
        texts.iter().any(|text| text.to_lowercase().contains(&wanted))
    }
}

/// A list that is longer than the screen. Whoever draws it says how much there is and how much fits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scroll {
    pub(super) first: usize,
    /// Lines that fit.
    rows: usize,
    len: usize,
}

impl Scroll {
    /// Fits `first` to a list of `len` lines of which `rows` are shown; line `kept` stays among these.
    pub(super) fn fit(&mut self, len: usize, rows: usize, kept: Option<usize>) {
        (self.len, self.rows) = (len, rows);
        if let Some(kept) = kept {
            self.first = self.first.clamp((kept + 1).saturating_sub(rows.max(1)), kept);
        }
        self.first = self.first.min(len.saturating_sub(rows));
    }

    /// The lines that are shown.
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.first..(self.first + self.rows).min(self.len)
    }

    /// Where `key` leads from line `from`; `None` if it is no key for that.
    fn target(&self, key: KeyCode, from: usize) -> Option<usize> {
        let page = self.rows.max(1);
        let to = match key {
            KeyCode::Up | KeyCode::Char('k') => from.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => from + 1,
            KeyCode::PageUp => from.saturating_sub(page),
            KeyCode::PageDown => from + page,
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => self.len,
            _ => return None,
        };
        Some(to.min(self.len.saturating_sub(1)))
    }
}

/// The page of one server.
#[derive(Clone, Debug, Default)]
pub(super) struct Detail {
    pub(super) server: usize,
    pub(super) search: Search,
    pub(super) scroll: Scroll,
    /// The statistics have the whole page.
    pub(super) is_list_only: bool,
}

/// What is seen.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The column of the order, `None` for the name.
    pub(super) column: Option<usize>,
    pub(super) is_descending: bool,
    pub(super) filter: Search,
    /// The chosen server's place in the fleet, which the screen follows; without one it is whoever comes first.
    pub(super) selected: Option<usize>,
    pub(super) scroll: Scroll,
    pub(super) detail: Option<Detail>,
    pub(super) is_help: bool,
}

impl View {
    /// The busiest servers first.
    pub(super) fn new() -> View {
        View {
            column: Some(0),
            is_descending: true,
            filter: Search::default(),
            selected: None,
            scroll: Scroll::default(),
            detail: None,
            is_help: false,
        }
    }

    /// Places of the servers that the filter leaves, in their order.
    pub(super) fn order(&self, fleet: &Fleet) -> Vec<usize> {
        let mut order = columns::order(&fleet.servers, self.column, self.is_descending);
        order.retain(|&place| self.shows(&fleet.servers[place]));
        order
    }

    fn shows(&self, server: &Server) -> bool {
        let state = match &server.state {
            State::Waiting => "waiting",
            State::Up => "up",
            State::Down(_) => "down",
        };
        self.filter.text.is_empty() || self.filter.finds(&[&server.name, state, &server.version()])
    }

    /// Does what a key says; whether to go on.
    pub(super) fn handle(&mut self, key: KeyEvent, fleet: &Fleet) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control {
            return key.code != KeyCode::Char('c');
        }
        if self.is_help {
            self.is_help = false;
            return true;
        }
        let search = self
            .detail
            .as_mut()
            .map_or(&mut self.filter, |detail| &mut detail.search);
        if search.is_open {
            search.handle(key.code);
            return true;
        }
        match key.code {
            KeyCode::Char('q') => return false,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.is_help = true,
            KeyCode::Char('/') => search.is_open = true,
            KeyCode::Esc if !search.text.is_empty() => search.text.clear(),
            code if self.detail.is_some() => self.handle_in_detail(code, fleet),
            code => self.handle_in_table(code, fleet),
        }
        true
    }

    fn handle_in_table(&mut self, code: KeyCode, fleet: &Fleet) {
        // The name stands before the first column.
        let at = self.column.map_or(0, |column| column + 1);
        let columns = COLUMNS.len() + 1;
        match code {
            KeyCode::Left | KeyCode::Char('<') => self.sort_by((at + columns - 1) % columns),
            KeyCode::Right | KeyCode::Char('>') => self.sort_by((at + 1) % columns),
            KeyCode::Char('r') => self.is_descending = !self.is_descending,
            KeyCode::Enter => {
                let order = self.order(fleet);
                self.detail = order.get(self.row(&order)).map(|&server| Detail {
                    server,
                    ..Detail::default()
                });
            }
            KeyCode::Home | KeyCode::Char('g') => self.selected = None,
            code => {
                let order = self.order(fleet);
                if let Some(to) = self.scroll.target(code, self.row(&order)) {
                    self.selected = order.get(to).copied();
                }
            }
        }
    }

    /// The chosen server's row in `order`.
    pub(super) fn row(&self, order: &[usize]) -> usize {
        let is_it = |&server: &usize| Some(server) == self.selected;
        order.iter().position(is_it).unwrap_or(0)
    }

    fn sort_by(&mut self, place: usize) {
        self.column = place.checked_sub(1);
        self.is_descending = self.column.is_some();
    }

    fn handle_in_detail(&mut self, code: KeyCode, fleet: &Fleet) {
        let order = self.order(fleet);
        let Some(detail) = &mut self.detail else { return };
        let at = order
            .iter()
            .position(|&server| server == detail.server)
            .unwrap_or(0);
        let neighbour = match code {
            KeyCode::Left => at.checked_sub(1),
            KeyCode::Right => Some(at + 1),
            _ => None,
        };
        if let Some(&server) = neighbour.and_then(|at| order.get(at)) {
            (detail.server, self.selected) = (server, Some(server));
        }
        match code {
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Enter => self.detail = None,
            KeyCode::Tab => detail.is_list_only = !detail.is_list_only,
            code => {
                let first = detail.scroll.first;
                detail.scroll.first = detail.scroll.target(code, first).unwrap_or(first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::{Scroll, View};
    use crate::cmd::top::fleet::Fleet;
    use crate::cmd::top::fleet::tests::{reading, stats};

    fn fleet() -> Fleet {
        let mut fleet = Fleet::new(&["one:1".to_owned(), "two:1".to_owned(), "three:1".to_owned()]);
        for secs in 1..3 {
            fleet.take(reading(0, secs, Ok(stats(secs, 10))));
            fleet.take(reading(1, secs, Ok(stats(secs, 20))));
            fleet.take(reading(2, secs, Err("gone")));
        }
        fleet
    }

    /// Presses keys; whether to go on after the last.
    fn press(view: &mut View, fleet: &Fleet, keys: &[KeyCode]) -> bool {
        let mut goes_on = true;
        for &code in keys {
            let shown = view.order(fleet).len();
            view.scroll.fit(shown, 2, None);
            goes_on = view.handle(KeyEvent::new(code, KeyModifiers::NONE), fleet);
        }
        goes_on
    }

    fn typed(text: &str) -> Vec<KeyCode> {
        text.chars().map(KeyCode::Char).collect()
    }

    #[test]
    fn keys_choose_order_and_server() {
        let (fleet, mut view) = (fleet(), View::new());
        assert_eq!(view.order(&fleet), [1, 0, 2]);
        press(&mut view, &fleet, &[KeyCode::Char('r')]);
        assert_eq!(view.order(&fleet), [0, 1, 2]);
        press(&mut view, &fleet, &[KeyCode::Left]);
        assert_eq!((view.column, view.is_descending), (None, false));
        assert_eq!(view.order(&fleet), [0, 2, 1]);
        for (key, selected) in [
            (KeyCode::Down, Some(2)),
            (KeyCode::Down, Some(1)),
            (KeyCode::Down, Some(1)),
            (KeyCode::PageUp, Some(0)),
            (KeyCode::End, Some(1)),
            (KeyCode::Home, None),
        ] {
            press(&mut view, &fleet, &[key]);
            assert_eq!(view.selected, selected, "{key:?}");
        }
        press(&mut view, &fleet, &[KeyCode::Enter, KeyCode::Right]);
        assert_eq!(view.detail.as_ref().map(|detail| detail.server), Some(2));
        press(&mut view, &fleet, &[KeyCode::Esc]);
        assert!(view.detail.is_none());
        assert_eq!(view.selected, Some(2));
    }

    #[test]
    fn filter_goes_by_name_state_and_version() {
        let (fleet, mut view) = (fleet(), View::new());
        press(&mut view, &fleet, &typed("/TWq"));
        assert_eq!(view.order(&fleet), [] as [usize; 0]);
        press(&mut view, &fleet, &[KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!(view.order(&fleet), [1]);
        press(&mut view, &fleet, &[KeyCode::Esc]);
        press(&mut view, &fleet, &typed("/down"));
        assert_eq!(view.order(&fleet), [2]);
        press(&mut view, &fleet, &[KeyCode::Esc]);
        press(&mut view, &fleet, &typed("/0.1.0"));
        assert_eq!(view.order(&fleet), [1, 0]);
    }

    #[test]
    fn q_quits_unless_it_is_typed_or_closes_the_help() {
        let (fleet, mut view) = (fleet(), View::new());
        assert!(press(&mut view, &fleet, &typed("/q")));
        assert!(press(&mut view, &fleet, &[KeyCode::Esc]));
        assert!(press(&mut view, &fleet, &typed("?q")));
        assert!(press(&mut view, &fleet, &[KeyCode::Enter]));
        assert!(!press(&mut view, &fleet, &typed("q")));
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut view, &fleet, &typed("/"));
        assert!(!view.handle(control_c, &fleet));
    }

    #[test]
    fn what_is_kept_in_sight_stays_in_sight() {
        let mut scroll = Scroll::default();
        scroll.fit(100, 10, Some(50));
        assert_eq!(scroll.range(), 41..51);
        scroll.fit(100, 10, Some(45));
        assert_eq!(scroll.range(), 41..51);
        scroll.fit(100, 10, Some(3));
        assert_eq!(scroll.range(), 3..13);
        scroll.fit(5, 10, Some(4));
        assert_eq!(scroll.range(), 0..5);
        scroll.fit(0, 0, None);
        assert_eq!(scroll.range(), 0..0);
    }
}
