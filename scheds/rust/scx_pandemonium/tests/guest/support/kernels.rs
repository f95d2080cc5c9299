// SPDX-License-Identifier: GPL-2.0
//! Which kernels the tests boot: see `scx_guest::Kernel` for where they are
//! searched.

use std::env;
use std::path::Path;

use anyhow::Result;
use scx_guest::Kernel;

use super::skip;

/// Names the newest kernel that loads schedulers.
const NEWEST_ENV: &str = "SCX_GUEST_KERNEL_3";

/// Run `test` on the long-term kernel, which all tests but few boot.
pub fn lts(test: impl FnOnce(&Kernel) -> Result<()>) -> Result<()> {
    test(&Kernel::find(None)?)
}

/// Run `test` on the oldest kernel that has sched_ext; skip it if no image of one is at
/// hand.
pub fn oldest(test: impl FnOnce(&Kernel) -> Result<()>) -> Result<()> {
    let Some(kernel) = Kernel::find_second(None, None)? else {
        skip("no oldest kernel");
        return Ok(());
    };
    test(&kernel)
}

/// Run `test` on the newest kernel that loads schedulers; skip it if none is named.
pub fn newest(test: impl FnOnce(&Kernel) -> Result<()>) -> Result<()> {
    let Some(image) = env::var_os(NEWEST_ENV) else {
        skip("no newest kernel");
        return Ok(());
    };
    test(&Kernel::from_path(Path::new(&image))?)
}
