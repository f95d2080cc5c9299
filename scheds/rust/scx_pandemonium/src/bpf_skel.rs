//! The skeleton that libbpf-cargo generates for the BPF object.
#![allow(missing_docs, clippy::all)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    clippy::expect_used
)]

include!(env!("BPF_SKEL"));
