//! A list on its way to another server over the same cache: its cursors mean the same there.

use std::ops::RangeInclusive;

use scrubjay_protocol::dump::{Classes, Filter, Form, Order};

use super::Dump;
use crate::service::Shared;
use crate::session::carry::{Reader, Writer};

const FORMS: [Form; 3] = [Form::Facts, Form::Gets, Form::Items];

fn pack_range(writer: &mut Writer, range: &RangeInclusive<u64>) {
    writer.number(*range.start());
    writer.number(*range.end());
}

fn unpack_range(reader: &mut Reader<'_>) -> Option<RangeInclusive<u64>> {
    Some(reader.number()?..=reader.number()?)
}

impl Dump {
    pub(in crate::session) fn pack(&self, writer: &mut Writer) {
        let Order {
            form,
            classes,
            filter,
            limit,
            ..
        } = &self.order;
        writer.byte(FORMS.iter().position(|known| known == form).unwrap_or(0) as u8);
        let bits = match classes {
            Classes::All => None,
            Classes::Some(bits) => Some(*bits),
        };
        writer.option(bits, |writer, bits| writer.bytes(&bits.to_le_bytes()));
        writer.bytes(&filter.prefix);
        [&filter.size, &filter.age, &filter.ttl]
            .iter()
            .for_each(|range| pack_range(writer, range));
        writer.number(*limit);
        writer.number(self.next);
        writer.flag(self.looks.is_some());
        writer.number(self.left);
        writer.number(self.bytes_left as u64);
    }

    pub(in crate::session) fn unpack(reader: &mut Reader<'_>, shared: &Shared) -> Option<Dump> {
        let form = *FORMS.get(usize::from(reader.byte()?))?;
        let bits = reader.option(|reader| Some(u128::from_le_bytes(reader.bytes()?.try_into().ok()?)))?;
        let filter = Filter {
            prefix: reader.bytes()?.to_vec(),
            size: unpack_range(reader)?,
            age: unpack_range(reader)?,
            ttl: unpack_range(reader)?,
        };
        let (limit, from, has_begun) = (reader.number()?, reader.number()?, reader.flag()?);
        Some(Dump {
            cursor: shared.cache.cursor_of(from)?,
            next: from,
            looks: has_begun.then_some(0),
            left: reader.number()?,
            bytes_left: usize::try_from(reader.number()?).ok()?,
            order: Order {
                form,
                classes: bits.map_or(Classes::All, Classes::Some),
                filter,
                from,
                limit,
            },
        })
    }
}
