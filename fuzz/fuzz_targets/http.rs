#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sapwood_fuzz::http(data));
