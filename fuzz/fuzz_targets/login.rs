#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| scrubjay_sim::fuzz::login(input));
