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

/// The kernel that some tests boot as well; `None`, and a line that says so,
/// if no image is at hand.
pub fn second() -> Result<Option<Kernel>> {
    let Some(image) = std::env::var_os(SECOND_KERNEL_ENV) else {
        println!("skipped: no second kernel");
        return Ok(None);
    };
    let image = PathBuf::from(image);
    Ok(Some(Kernel::find(Some(&image))?))
}
