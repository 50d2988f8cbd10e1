#![no_main]

#[allow(dead_code)] // Each target uses one of the checks.
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::message(bytes));
