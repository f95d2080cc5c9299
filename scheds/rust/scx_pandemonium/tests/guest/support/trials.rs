// SPDX-License-Identifier: GPL-2.0
//! What kind of promise a test keeps, and on which kernels it runs.
//!
//! `invariant!(NAME, TEST)` holds in every draw by construction: nothing is lost, books
//! balance, exit codes. It runs once. `figure!(NAME, TEST)` is of a distribution, such as
//! a gap, a p99, a ratio or frames, and is judged over several draws, see
//! [`draws`](super::draws). `TEST` is given the kernel that it boots.
//!
//! Both run on the long-term kernel;
//! `NAME, [lts, oldest, newest], TEST` names others, see
//! [`kernels`](super::kernels). Each is a test of its own, `NAME::KERNEL`.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result};

/// Names a file to which each test adds a line, its seconds and its name.
const TIMES_ENV: &str = "SCX_GUEST_TIMES";

/// Run `test`, and tell how long it took where that is asked for.
pub fn timed(name: &str, test: impl FnOnce() -> Result<()>) -> Result<()> {
    let started = Instant::now();
    let result = test();
    if let Some(path) = env::var_os(TIMES_ENV) {
        let line = format!("{:.1} {name}\n", started.elapsed().as_secs_f64());
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    result
}

/// One kind of test by name: how it is judged, given a run on one kernel.
macro_rules! trial {
    ($judge:expr, $name:ident, [$($kernel:ident),+], $test:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $(
                #[test]
                fn $kernel() -> anyhow::Result<()> {
                    let name = concat!(module_path!(), "::", stringify!($kernel));
                    let run = || $crate::support::kernels::$kernel($test);
                    $crate::support::trials::timed(name, || $judge(run))
                }
            )+
        }
    };
}

/// A test of what holds in every draw.
macro_rules! invariant {
    ($name:ident, [$($kernel:ident),+], $test:expr $(,)?) => {
        trial!(|run: fn() -> anyhow::Result<()>| run(), $name, [$($kernel),+], $test);
    };
    ($name:ident, $test:expr $(,)?) => {
        invariant!($name, [lts], $test);
    };
}

/// A test of a figure.
macro_rules! figure {
    ($name:ident, [$($kernel:ident),+], $test:expr $(,)?) => {
        trial!($crate::support::draws::judge, $name, [$($kernel),+], $test);
    };
    ($name:ident, $test:expr $(,)?) => {
        figure!($name, [lts], $test);
    };
}
