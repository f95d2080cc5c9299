//! What `src/bpf/intf.h` shares with the BPF half, as bindgen sees it.
#![allow(non_upper_case_globals, non_camel_case_types, non_snake_case)]
#![allow(dead_code, missing_docs, clippy::all)]
#![allow(clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/bpf_intf.rs"));
