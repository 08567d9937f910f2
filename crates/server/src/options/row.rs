//! What one row of the option table says.

use super::Options;

/// One option: everything that parsing, help, man page, completions, `stats settings` and the documents need to know.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// memcached's name: the long option, or the name behind `-o`.
    pub name: &'static str,
    /// The letter, if it has one.
    pub short: Option<char>,
    /// Belongs behind `-o` in memcached. Here it has a long name besides (underscores become hyphens).
    pub extended: bool,
    /// `-o no_NAME` and `--no-NAME` exist as well.
    pub negatable: bool,
    /// What values it takes, and where they go.
    pub kind: Kind,
    /// Default, as it is shown; empty for none.
    pub default: &'static str,
    /// Name in `stats settings`; empty if it is not there.
    pub stat: &'static str,
    /// Value in `stats settings`; `None` shows the text given, or the default.
    pub show: Option<fn(&Options) -> String>,
    /// How it compares with memcached.
    pub effect: Effect,
    /// Each time it is given adds to it.
    pub many: bool,
    /// Takes it over from newly read options while the server runs; `None`: it takes effect at the next start.
    pub live: Option<fn(&mut Options, &Options)>,
    /// Exit status when its value is refused, as memcached's.
    pub exit: u8,
    /// One sentence for the user.
    pub help: &'static str,
}

/// What an option does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What it does in memcached.
    Same,
    /// Nearly what it does in memcached; the text says what differs.
    Differs(&'static str),
    /// Accepted; the text says why nothing follows from it.
    None(&'static str),
    /// Refused, because going on without it would be worse; the text says why.
    Refused(&'static str),
}

/// The values of an option. The functions put a checked value where it belongs.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// On when given (`false` comes from the `no_` form).
    Flag(fn(&mut Options, bool)),
    /// Each time it is given counts.
    Count(fn(&mut Options)),
    /// A whole number within bounds.
    Number {
        /// Least.
        min: i64,
        /// Most.
        max: i64,
        /// Unit, for people; empty for a plain count.
        unit: &'static str,
        /// Where it goes.
        set: fn(&mut Options, i64),
    },
    /// A number of bytes with an optional suffix k, m, g or t.
    Size {
        /// What the number counts when it has no suffix, in bytes.
        unit: u64,
        /// Least, in bytes.
        min: u64,
        /// Most, in bytes.
        max: u64,
        /// Where it goes.
        set: fn(&mut Options, u64),
    },
    /// A number with a fraction, within bounds (exclusive below).
    Real {
        /// Must be above this.
        above: f64,
        /// Most.
        max: f64,
    },
    /// One of a few words.
    Choice {
        /// The words.
        words: &'static [&'static str],
        /// Where it goes.
        set: fn(&mut Options, &str),
    },
    /// Free text, checked by the function; the error says what is wrong with it. May be given several times.
    Text {
        /// How help calls the value.
        value_name: &'static str,
        /// Where it goes.
        set: fn(&mut Options, &str) -> Result<(), String>,
    },
    /// The list behind `-o`.
    Extended,
    /// Prints something and exits.
    Print,
}

impl Kind {
    /// How help calls the value; empty if it takes none.
    pub const fn value_name(&self) -> &'static str {
        match self {
            Kind::Flag(_) | Kind::Count(_) | Kind::Print => "",
            Kind::Number { unit, .. } if unit.is_empty() => "num",
            Kind::Number { unit, .. } => unit,
            Kind::Size { .. } => "size",
            Kind::Real { .. } => "num",
            Kind::Choice { .. } => "name",
            Kind::Text { value_name, .. } => value_name,
            Kind::Extended => "name[=value],...",
        }
    }

    /// The values that are accepted, for people; empty where anything goes.
    pub fn range(&self) -> String {
        match self {
            Kind::Number { min, max, .. } => format!("{min} to {max}"),
            Kind::Size { min, max, .. } => format!("{} to {}", size_text(*min), size_text(*max)),
            Kind::Real { above, max } => format!("above {above}, at most {max}"),
            Kind::Choice { words, .. } => words.join(", "),
            Kind::Flag(_) | Kind::Count(_) | Kind::Text { .. } | Kind::Extended | Kind::Print => {
                String::new()
            }
        }
    }
}

/// A number of bytes in the largest unit that divides it.
pub fn size_text(bytes: u64) -> String {
    [(40, 't'), (30, 'g'), (20, 'm'), (10, 'k')]
        .into_iter()
        .find(|(bits, _)| bytes != 0 && bytes.trailing_zeros() >= *bits)
        .map_or_else(
            || bytes.to_string(),
            |(bits, suffix)| format!("{}{suffix}", bytes >> bits),
        )
}

impl Row {
    const fn new(name: &'static str, kind: Kind, help: &'static str) -> Row {
        Row {
            name,
            short: None,
            extended: false,
            negatable: false,
            kind,
            default: "",
            stat: "",
            show: None,
            effect: Effect::Same,
            many: false,
            live: None,
            exit: 1,
            help,
        }
    }

    pub(super) const fn flag(name: &'static str, set: fn(&mut Options, bool), help: &'static str) -> Row {
        Row::new(name, Kind::Flag(set), help)
    }

    pub(super) const fn count(name: &'static str, set: fn(&mut Options), help: &'static str) -> Row {
        Row::new(name, Kind::Count(set), help)
    }

    pub(super) const fn number(
        name: &'static str,
        min: i64,
        max: i64,
        set: fn(&mut Options, i64),
        help: &'static str,
    ) -> Row {
        let unit = "";
        Row::new(name, Kind::Number { min, max, unit, set }, help)
    }

    pub(super) const fn size(
        name: &'static str,
        unit: u64,
        min: u64,
        max: u64,
        set: fn(&mut Options, u64),
        help: &'static str,
    ) -> Row {
        Row::new(name, Kind::Size { unit, min, max, set }, help)
    }

    pub(super) const fn real(name: &'static str, above: f64, max: f64, help: &'static str) -> Row {
        Row::new(name, Kind::Real { above, max }, help)
    }

    pub(super) const fn choice(
        name: &'static str,
        words: &'static [&'static str],
        set: fn(&mut Options, &str),
        help: &'static str,
    ) -> Row {
        Row::new(name, Kind::Choice { words, set }, help)
    }

    pub(super) const fn text(
        name: &'static str,
        value_name: &'static str,
        set: fn(&mut Options, &str) -> Result<(), String>,
        help: &'static str,
    ) -> Row {
        Row::new(name, Kind::Text { value_name, set }, help)
    }

    pub(super) const fn special(name: &'static str, kind: Kind, help: &'static str) -> Row {
        Row::new(name, kind, help)
    }

    pub(super) const fn short(self, short: char) -> Row {
        let short = Some(short);
        Row { short, ..self }
    }

    pub(super) const fn extended(self) -> Row {
        let extended = true;
        Row { extended, ..self }
    }

    pub(super) const fn negatable(self) -> Row {
        let negatable = true;
        Row { negatable, ..self }
    }

    pub(super) const fn unit(self, name: &'static str) -> Row {
        match self.kind {
            Kind::Number { min, max, set, .. } => {
                let kind = Kind::Number {
                    min,
                    max,
                    unit: name,
                    set,
                };
                Row { kind, ..self }
            }
            _ => self,
        }
    }

    pub(super) const fn default(self, default: &'static str) -> Row {
        Row { default, ..self }
    }

    pub(super) const fn stat(self, stat: &'static str) -> Row {
        Row { stat, ..self }
    }

    pub(super) const fn shows(self, stat: &'static str, show: fn(&Options) -> String) -> Row {
        let show = Some(show);
        Row { stat, show, ..self }
    }

    pub(super) const fn differs(self, how: &'static str) -> Row {
        let effect = Effect::Differs(how);
        Row { effect, ..self }
    }

    pub(super) const fn no_effect(self, why: &'static str) -> Row {
        let effect = Effect::None(why);
        Row { effect, ..self }
    }

    pub(super) const fn refused(self, why: &'static str) -> Row {
        let effect = Effect::Refused(why);
        Row { effect, ..self }
    }

    pub(super) const fn many(self) -> Row {
        let many = true;
        Row { many, ..self }
    }

    pub(super) const fn live(self, take: fn(&mut Options, &Options)) -> Row {
        let live = Some(take);
        Row { live, ..self }
    }

    pub(super) const fn exit(self, exit: u8) -> Row {
        Row { exit, ..self }
    }

    /// The long option, without its hyphens.
    pub fn long(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The option as a user of memcached writes it.
    pub fn spelling(&self) -> String {
        match self.short {
            Some(short) => format!("-{short}"),
            None if self.extended => format!("-o {}", self.name),
            None => format!("--{}", self.long()),
        }
    }
}
