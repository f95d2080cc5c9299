// SPDX-License-Identifier: GPL-2.0
//! Which kernels the tests boot.

use std::path::PathBuf;

use anyhow::Result;
use scx_guest::Kernel;

/// Names the image of the second kernel.
const SECOND_KERNEL_ENV: &str = "SCX_GUEST_KERNEL_2";

/// The kernel that every test boots.
pub fn first() -> Result<Kernel> {
    Ok(Kernel::find(None)?)
}

/// Run `test` on the kernel that some tests boot as well; pass, with a line that
/// says so, if no image of it is at hand.
pub fn on_second(test: impl FnOnce(&Kernel) -> Result<()>) -> Result<()> {
    let Some(image) = std::env::var_os(SECOND_KERNEL_ENV) else {
        println!("skipped: no second kernel");
        return Ok(());
    };
    let image = PathBuf::from(image);
    test(&Kernel::find(Some(&image))?)
}
