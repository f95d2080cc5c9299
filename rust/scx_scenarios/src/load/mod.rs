// SPDX-License-Identifier: GPL-2.0
//! Background loads, each a group of equal tasks.

pub mod cycle;
pub mod forks;
pub mod game;
pub mod hog;
pub mod screen;
pub mod team;

pub use cycle::{Cycle, Turn};
pub use forks::{Jobs, Storm};
pub use game::Game;
pub use hog::Hogs;
pub use screen::Screen;
pub use team::Team;
