// SPDX-License-Identifier: GPL-2.0
//! Which kernels the tests boot: see `scx_guest::Kernel` for where they are
//! searched.

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
