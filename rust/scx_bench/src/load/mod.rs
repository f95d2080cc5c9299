// SPDX-License-Identifier: GPL-2.0
//! Background loads, each a group of equal tasks.

pub mod cycle;
pub mod forks;
pub mod hog;

pub use cycle::Cycle;
pub use forks::{Jobs, Storm};
pub use hog::Hogs;
