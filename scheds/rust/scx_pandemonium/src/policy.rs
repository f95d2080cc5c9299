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

/// Whether a name is what `pattern` says, `compositor_matches()`.
pub fn comm_matches(pattern: &crate::bpf_intf::comm_pattern, comm: [u64; 2]) -> bool {
    let pattern = comm_pattern {
        value: pattern.value,
        mask: pattern.mask,
    };
    // SAFETY: reads the struct that it is given and is pure arithmetic else.
    unsafe { compositor_matches(&raw const pattern, comm[0], comm[1]) }
}

mod frequency_tests;
mod hint_tests;
mod tests;
mod weight_tests;
