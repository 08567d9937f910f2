//! Which command a connection sent last, in a byte: it is kept for each of a hundred thousand.

use scrubjay_protocol::binary::{OPCODES, Opcode};
use scrubjay_protocol::command::{COMMANDS, position};

/// No verb is longer.
const VERB_LEN_MAX: usize = 24;

/// From this number on, the opcodes of the binary protocol.
const PACKETS: u8 = 128;

const _: () = assert!(COMMANDS.len() < PACKETS as usize && OPCODES.len() <= PACKETS as usize);

/// The number of the command that a line begins with, 0 if it is none.
pub(super) fn of_line(line: &[u8]) -> u8 {
    let end = line.iter().take(VERB_LEN_MAX + 1).position(|byte| *byte <= b' ');
    let row = end.and_then(|end| position(&line[..end]));
    row.map_or(0, |row| row as u8 + 1)
}

/// The number of the request that a packet begins with, 0 if it is none.
pub(super) fn of_packet(packet: &[u8]) -> u8 {
    let Some(opcode) = packet.get(1).and_then(|number| Opcode::find(*number)) else {
        return 0;
    };
    let row = OPCODES.iter().position(|row| row.number == opcode.number);
    row.map_or(0, |row| row as u8 + PACKETS)
}

/// What has this number: a text command by its verb, a binary one by its name in the protocol's description.
pub(crate) fn name(number: u8) -> Option<&'static str> {
    match number.checked_sub(PACKETS) {
        Some(row) => OPCODES.get(usize::from(row)).map(|opcode| opcode.name),
        None => COMMANDS
            .get(usize::from(number).checked_sub(1)?)
            .map(|command| command.verb),
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, OPCODES, name, of_line, of_packet};

    #[test]
    fn every_command_is_told_by_its_number() {
        for command in COMMANDS {
            assert!(command.verb.len() <= super::VERB_LEN_MAX);
            for end in [" key\r\n", "\r\n", "\n"] {
                let line = format!("{}{end}", command.verb);
                assert_eq!(name(of_line(line.as_bytes())), Some(command.verb));
            }
        }
        for opcode in OPCODES {
            assert_eq!(name(of_packet(&[0x80, opcode.number])), Some(opcode.name));
        }
        for nothing in [&b""[..], b" ", b"\r\n", b"ge", b"nonsense"] {
            assert_eq!(name(of_line(nothing)), None);
        }
        assert_eq!([of_packet(b"\x80"), of_packet(b"\x80\xff")], [0, 0]);
    }
}
