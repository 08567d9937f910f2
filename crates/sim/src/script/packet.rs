//! Packets of the binary protocol in scripts: an opcode and `field=value` words.
//! The protocol's own encoder is not used on purpose: a mistake there would hide itself.

use super::text::{Pattern, Template, escape, named, parse_name};
use super::{Match, Names};

/// Opcodes by name. Source: memcached doc/protocol-binary.txt, "Command Opcodes".
pub const OPCODES: [(&str, u8); 36] = [
    ("get", 0x00),
    ("set", 0x01),
    ("add", 0x02),
    ("replace", 0x03),
    ("delete", 0x04),
    ("incr", 0x05),
    ("decr", 0x06),
    ("quit", 0x07),
    ("flush", 0x08),
    ("getq", 0x09),
    ("noop", 0x0a),
    ("version", 0x0b),
    ("getk", 0x0c),
    ("getkq", 0x0d),
    ("append", 0x0e),
    ("prepend", 0x0f),
    ("stat", 0x10),
    ("setq", 0x11),
    ("addq", 0x12),
    ("replaceq", 0x13),
    ("deleteq", 0x14),
    ("incrq", 0x15),
    ("decrq", 0x16),
    ("quitq", 0x17),
    ("flushq", 0x18),
    ("appendq", 0x19),
    ("prependq", 0x1a),
    ("verbosity", 0x1b),
    ("touch", 0x1c),
    ("gat", 0x1d),
    ("gatq", 0x1e),
    ("sasl_list", 0x20),
    ("sasl_auth", 0x21),
    ("sasl_step", 0x22),
    ("gatk", 0x23),
    ("gatkq", 0x24),
];

/// Bytes of a packet's header.
pub const HEADER_LEN: usize = 24;

/// A number written in a script, or one named before.
#[derive(Clone, Debug)]
enum Number {
    Given(u64),
    Name(String, i64),
}

impl Number {
    fn parse(source: &str) -> Result<Number, String> {
        if let Some(inside) = source.strip_prefix("\\(").and_then(|rest| rest.strip_suffix(')')) {
            let (name, plus) = parse_name(inside)?;
            return Ok(Number::Name(name, plus));
        }
        let number = match source.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => source.parse().ok(),
        };
        number
            .map(Number::Given)
            .ok_or_else(|| format!("no number: {source}"))
    }

    fn value(&self, names: &Names) -> Result<u64, String> {
        match self {
            Number::Given(number) => Ok(*number),
            Number::Name(name, plus) => named(names, name, *plus).ok_or_else(|| format!("{name} is not set")),
        }
    }
}

/// A packet's fields as written; lengths and magic follow from the rest unless given.
#[derive(Clone, Debug, Default)]
struct Fields {
    opcode: u8,
    magic: Option<u64>,
    key_len: Option<u64>,
    extras_len: Option<u64>,
    body_len: Option<u64>,
    data_type: u64,
    /// vBucket in a request, status in a reply.
    status: u64,
    opaque: u64,
    extras: Vec<u8>,
    key: String,
    value: String,
    cas: String,
}

impl Fields {
    fn parse(source: &str) -> Result<Fields, String> {
        let mut words = source.split(' ');
        let opcode = words.next().unwrap_or_default();
        let mut fields = Fields {
            opcode: parse_opcode(opcode)?,
            ..Fields::default()
        };
        for word in words {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("no field=value: {word}"))?;
            fields.set(name, value)?;
        }
        Ok(fields)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || match Number::parse(value)? {
            Number::Given(number) => Ok(number),
            Number::Name(..) => Err(format!("{name} cannot be a name")),
        };
        match name {
            "magic" => self.magic = Some(number()?),
            "keylen" => self.key_len = Some(number()?),
            "extlen" => self.extras_len = Some(number()?),
            "bodylen" => self.body_len = Some(number()?),
            "type" => self.data_type = number()?,
            "vbucket" | "status" => self.status = number()?,
            "opaque" => self.opaque = number()?,
            "flags" | "exptime" | "verbosity" => {
                self.extras.extend_from_slice(&(number()? as u32).to_be_bytes());
            }
            "delta" | "initial" => self.extras.extend_from_slice(&number()?.to_be_bytes()),
            "extras" => Template::parse(value)?.encode(&Names::new(), &mut self.extras)?,
            "number" => {
                self.value = number()?
                    .to_be_bytes()
                    .iter()
                    .map(|byte| format!("\\x{byte:02x}"))
                    .collect();
            }
            "key" => self.key = value.to_owned(),
            "value" => self.value = value.to_owned(),
            "cas" => self.cas = value.to_owned(),
            _ => return Err(format!("no such field: {name}")),
        }
        Ok(())
    }
}

fn parse_opcode(source: &str) -> Result<u8, String> {
    if let Some(digits) = source.strip_prefix("0x") {
        return u8::from_str_radix(digits, 16).map_err(|_| format!("no opcode: {source}"));
    }
    OPCODES
        .iter()
        .find(|(name, _)| *name == source)
        .map(|(_, opcode)| *opcode)
        .ok_or_else(|| format!("no opcode: {source}"))
}

/// A request packet.
#[derive(Clone, Debug)]
pub struct Packet {
    fields: Fields,
    key: Template,
    value: Template,
    cas: Number,
}

impl Packet {
    /// Reads what follows `>>`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(source: &str) -> Result<Packet, String> {
        let fields = Fields::parse(source)?;
        Ok(Packet {
            key: Template::parse(&fields.key)?,
            value: Template::parse(&fields.value)?,
            cas: match fields.cas.as_str() {
                "" => Number::Given(0),
                cas => Number::parse(cas)?,
            },
            fields,
        })
    }

    /// The named numbers in it.
    pub fn names(&self) -> Vec<String> {
        let mut names = [self.key.names(), self.value.names()].concat();
        if let Number::Name(name, _) = &self.cas {
            names.push(name.clone());
        }
        names
    }

    /// Appends the packet's bytes.
    ///
    /// # Errors
    /// A name not set yet.
    pub fn encode(&self, names: &Names, out: &mut Vec<u8>) -> Result<(), String> {
        let fields = &self.fields;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.key.encode(names, &mut key)?;
        self.value.encode(names, &mut value)?;
        let body_len = fields.extras.len() + key.len() + value.len();
        out.push(fields.magic.unwrap_or(0x80) as u8);
        out.push(fields.opcode);
        out.extend_from_slice(&(fields.key_len.unwrap_or(key.len() as u64) as u16).to_be_bytes());
        out.push(fields.extras_len.unwrap_or(fields.extras.len() as u64) as u8);
        out.push(fields.data_type as u8);
        out.extend_from_slice(&(fields.status as u16).to_be_bytes());
        out.extend_from_slice(&(fields.body_len.unwrap_or(body_len as u64) as u32).to_be_bytes());
        out.extend_from_slice(&(fields.opaque as u32).to_be_bytes());
        out.extend_from_slice(&self.cas.value(names)?.to_be_bytes());
        out.extend_from_slice(&fields.extras);
        out.extend_from_slice(&key);
        out.extend_from_slice(&value);
        Ok(())
    }
}

/// What a reply's CAS field must be.
#[derive(Clone, Debug)]
enum CasPattern {
    Exact(Number),
    /// Any number but 0, under this name from now on.
    Any(Option<String>),
}

/// A reply packet that must come.
#[derive(Clone, Debug)]
pub struct PacketPattern {
    fields: Fields,
    key: Vec<u8>,
    value: Pattern,
    cas: CasPattern,
}

impl PacketPattern {
    /// Reads what follows `<<`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(source: &str) -> Result<PacketPattern, String> {
        let fields = Fields::parse(source)?;
        let mut key = Vec::new();
        Template::parse(&fields.key)?.encode(&Names::new(), &mut key)?;
        let cas = match fields.cas.as_str() {
            "" => CasPattern::Exact(Number::Given(0)),
            "\\(number)" => CasPattern::Any(None),
            cas => match cas
                .strip_prefix("\\(number:")
                .and_then(|rest| rest.strip_suffix(')'))
            {
                Some(name) => CasPattern::Any(Some(name.to_owned())),
                None => CasPattern::Exact(Number::parse(cas)?),
            },
        };
        Ok(PacketPattern {
            value: Pattern::parse(&fields.value)?,
            key,
            cas,
            fields,
        })
    }

    /// Compares the start of `bytes`.
    pub fn matches(&self, bytes: &[u8], names: &mut Names) -> Match {
        if bytes.first().is_some_and(|magic| *magic != 0x81) {
            return Match::Different;
        }
        let Some(reply) = Received::parse(bytes) else {
            return Match::Partial;
        };
        let fields = &self.fields;
        let cas_fits = match &self.cas {
            CasPattern::Exact(number) => number.value(names).is_ok_and(|cas| cas == reply.cas),
            CasPattern::Any(_) => reply.cas != 0,
        };
        let value_fits = self.value.is_any()
            || self.value.matches(reply.value, &mut names.clone()) == Match::Full(reply.value.len());
        let fits = reply.opcode == fields.opcode
            && u64::from(reply.data_type) == fields.data_type
            && u64::from(reply.status) == fields.status
            && u64::from(reply.opaque) == fields.opaque
            && reply.extras == fields.extras
            && reply.key == self.key
            && value_fits
            && cas_fits;
        if !fits {
            return Match::Different;
        }
        if let CasPattern::Any(Some(name)) = &self.cas {
            names.insert(name.clone(), reply.cas);
        }
        Match::Full(reply.len)
    }
}

/// A reply packet that came.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// What it answers.
    pub opcode: u8,
    /// Data type, always 0.
    pub data_type: u8,
    /// 0 is success.
    pub status: u16,
    /// As in the request.
    pub opaque: u32,
    /// CAS number.
    pub cas: u64,
    /// Extras.
    pub extras: &'a [u8],
    /// Key.
    pub key: &'a [u8],
    /// Value.
    pub value: &'a [u8],
    /// Bytes of the whole packet.
    pub len: usize,
}

impl<'a> Received<'a> {
    /// Reads the packet at the start of `bytes`; `None` if it is incomplete or its lengths contradict each other.
    pub fn parse(bytes: &'a [u8]) -> Option<Received<'a>> {
        let header = bytes.get(..HEADER_LEN)?;
        let number = |from: usize, to: usize| {
            header[from..to]
                .iter()
                .fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte))
        };
        let (key_len, extras_len, body_len) = (number(2, 4), number(4, 5), number(8, 12));
        let len = HEADER_LEN + body_len as usize;
        let body = bytes.get(HEADER_LEN..len)?;
        let extras_len = extras_len as usize;
        let key_end = extras_len + key_len as usize;
        Some(Received {
            opcode: header[1],
            data_type: header[5],
            status: number(6, 8) as u16,
            opaque: number(12, 16) as u32,
            cas: number(16, 24),
            extras: body.get(..extras_len)?,
            key: body.get(extras_len..key_end)?,
            value: body.get(key_end..)?,
            len,
        })
    }

    /// As a script writes it.
    pub fn describe(&self) -> String {
        let opcode = OPCODES
            .iter()
            .find(|(_, opcode)| *opcode == self.opcode)
            .map_or(format!("0x{:02x}", self.opcode), |(name, _)| (*name).to_owned());
        let mut out = opcode;
        let mut field = |name: &str, value: String| out.push_str(&format!(" {name}={value}"));
        if self.data_type != 0 {
            field("type", self.data_type.to_string());
        }
        if self.status != 0 {
            field("status", format!("0x{:02x}", self.status));
        }
        if self.opaque != 0 {
            field("opaque", self.opaque.to_string());
        }
        if self.cas != 0 {
            field("cas", "\\(number)".to_owned());
        }
        match self.extras {
            [] => {}
            [a, b, c, d] => field("flags", u32::from_be_bytes([*a, *b, *c, *d]).to_string()),
            extras => field("extras", escape(extras)),
        }
        if !self.key.is_empty() {
            field("key", escape(self.key).replace(' ', "\\s"));
        }
        match <[u8; 8]>::try_from(self.value) {
            Ok(value) if matches!(self.opcode, 0x05 | 0x06) && self.status == 0 => {
                field("number", u64::from_be_bytes(value).to_string());
            }
            _ if self.value.is_empty() => {}
            _ => field("value", escape(self.value).replace(' ', "\\s")),
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{Match, Names, Packet, PacketPattern, Received};

    #[test]
    fn packets_are_built_from_their_fields() {
        let mut out = Vec::new();
        Packet::parse("set opaque=1 cas=0x2 flags=5 exptime=0 key=k value=a\\sb")
            .unwrap()
            .encode(&Names::new(), &mut out)
            .unwrap();
        let expected =
            b"\x80\x01\0\x01\x08\0\0\0\0\0\0\x0c\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x05\0\0\0\0ka b";
        assert_eq!(out, expected);
    }

    #[test]
    fn replies_are_compared_field_by_field() {
        let bytes = b"\x81\x00\0\0\x04\0\0\0\0\0\0\x05\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x05a";
        let mut names = Names::new();
        let mut check = |source: &str, expected: Match| {
            let pattern = PacketPattern::parse(source).unwrap();
            assert_eq!(pattern.matches(bytes, &mut names), expected, "{source}");
            assert_eq!(
                pattern.matches(&bytes[..20], &mut names),
                Match::Partial,
                "{source}"
            );
        };
        check("get opaque=1 cas=\\(number:cas) flags=5 value=a", Match::Full(29));
        check("get opaque=1 cas=\\(cas) flags=5 value=\\(any)", Match::Full(29));
        check("get opaque=1 cas=2 flags=5 value=b", Match::Different);
        check("get opaque=1 flags=5 value=a", Match::Different);
        let reply = Received::parse(bytes).unwrap();
        assert_eq!(reply.describe(), "get opaque=1 cas=\\(number) flags=5 value=a");
    }
}
