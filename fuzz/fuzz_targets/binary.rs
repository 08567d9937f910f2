#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| scrubjay_protocol::fuzz::binary(input));
