// SPDX-License-Identifier: GPL-2.0
//! Which kernels the tests boot: see `scx_guest::Kernel` for where they are
//! searched.

use std::env;
use std::path::Path;

use anyhow::Result;
use scx_guest::Kernel;

use super::skip;

/// The kernel that every test boots.
pub fn first() -> Result<Kernel> {
    Ok(Kernel::find(None)?)
}

/// Run `test` on the kernel that some tests boot as well; skip it if no image of
/// one is at hand.
pub fn on_second(test: impl FnOnce(&Kernel) -> Result<()>) -> Result<()> {
    let Some(kernel) = Kernel::find_second(None, None)? else {
        skip("no second kernel");
        return Ok(());
    };
    test(&kernel)
}

/// Names the newest kernel that loads schedulers.
const NEWEST_ENV: &str = "SCX_GUEST_KERNEL_3";

/// Run `test` on the newest kernel, for what only that one has; skip it if none is named.
pub fn on_newest(test: impl FnOnce(&Kernel) -> Result<()>) -> Result<()> {
    let Some(image) = env::var_os(NEWEST_ENV) else {
        skip("no newest kernel");
        return Ok(());
    };
    test(&Kernel::from_path(Path::new(&image))?)
}
