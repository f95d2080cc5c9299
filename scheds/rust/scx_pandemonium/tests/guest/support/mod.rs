// SPDX-License-Identifier: GPL-2.0
//! What tests of a scheduler in a guest are made of.

pub mod crowd;
pub mod kernels;
pub mod load;
pub mod world;
