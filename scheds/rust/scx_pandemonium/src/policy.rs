//! The policy headers of the BPF half, compiled for this machine.
//!
//! Only for tests: the arithmetic that schedules is the arithmetic that is
//! tested. Each function wraps one of `src/bpf/policy/*.h`.

#[allow(non_upper_case_globals, non_camel_case_types, non_snake_case)]
#[allow(dead_code, missing_docs, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod native {
    include!(concat!(env!("OUT_DIR"), "/policy.rs"));
}

pub use native::*;

/// Bucket of a wait, `hist_bucket()`.
pub fn bucket(ns: u64) -> u32 {
    // SAFETY: pure arithmetic on its argument.
    unsafe { hist_bucket(ns) }
}

/// Lower edge of a bucket, `hist_bucket_low_ns()`.
pub fn bucket_low_ns(bucket: u32) -> u64 {
    // SAFETY: pure arithmetic on its argument.
    unsafe { hist_bucket_low_ns(bucket) }
}

mod tests;
