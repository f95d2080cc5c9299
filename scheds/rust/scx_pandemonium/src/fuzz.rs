//! What tests of parsers share: how many inputs they try, and good ones damaged.
//!
//! Their names begin with `fuzz_`. `PROPTEST_CASES` is the number of inputs of each.

use std::env;

use proptest::collection::vec;
use proptest::prelude::*;

/// Names the variable with the number of cases; proptest's own.
const CASES_ENV: &str = "PROPTEST_CASES";

/// Damages of one input.
const NR_DAMAGES_MAX: usize = 6;

/// Bytes that are cut or repeated at once.
const PART_LEN_MAX: u16 = 64;

/// `usual` cases, unless the environment asks for another number.
pub fn config(usual: u32) -> ProptestConfig {
    let config = ProptestConfig {
        // The input that failed is printed, and becomes a test of its own.
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    match env::var_os(CASES_ENV) {
        Some(_) => config,
        None => ProptestConfig {
            cases: usual,
            ..config
        },
    }
}

/// One damage: where, to how much, and what of it.
#[derive(Clone, Copy, Debug)]
pub struct Damage {
    at: u16,
    len: u16,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Flip(u8),
    Put(u8),
    Cut,
    Repeat(u8),
    Word(u16),
    End,
}

/// Some damages for an input.
pub fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let what = prop_oneof![
        (0..8_u8).prop_map(What::Flip),
        any::<u8>().prop_map(What::Put),
        Just(What::Cut),
        any::<u8>().prop_map(What::Repeat),
        any::<u16>().prop_map(What::Word),
        Just(What::End),
    ];
    let damage = (any::<u16>(), 0..PART_LEN_MAX, what);
    vec(
        damage.prop_map(|(at, len, what)| Damage { at, len, what }),
        0..NR_DAMAGES_MAX,
    )
}

/// `good` with these damages; some of them put one of `words` in.
pub fn damaged(good: &[u8], words: &[&str], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for damage in damages {
        if bytes.is_empty() {
            break;
        }
        let at = usize::from(damage.at) % bytes.len();
        let end = bytes.len().min(at + usize::from(damage.len));
        match damage.what {
            What::Flip(bit) => bytes[at] ^= 1 << bit,
            What::Put(byte) => bytes[at] = byte,
            What::Cut => drop(bytes.drain(at..end)),
            What::Repeat(times) => {
                let part = bytes[at..end].repeat(usize::from(times));
                bytes.splice(at..at, part);
            }
            What::Word(idx) if !words.is_empty() => {
                let word = words[usize::from(idx) % words.len()];
                bytes.splice(at..end, word.bytes());
            }
            What::Word(_) => {}
            What::End => bytes.truncate(at),
        }
    }
    bytes
}
