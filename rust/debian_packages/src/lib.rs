// SPDX-License-Identifier: GPL-2.0
//! Packages from a Debian suite that this machine is not set up for.
//!
//! *How does a program get one package from backports without touching the
//! machine's apt configuration, and without knowing where packages are served?*
//! The machine's own sources name a mirror of Debian. [`PrivateApt`] writes a
//! source file for another suite of that mirror, with lists and caches of its
//! own, and keeps the system's keys, proxies and package state.
//!
//! Download and unpack, by any user:
//!
//! ```no_run
//! # use std::path::Path;
//! # fn main() -> debian_packages::Result<()> {
//! use debian_packages::PrivateApt;
//!
//! let apt = PrivateApt::new(Path::new("/tmp/apt"), &["bookworm-backports"])?;
//! apt.update()?;
//! let deb = apt.download("linux-source-6.12", Path::new("/tmp"), |nr_bytes| {
//!     println!("{nr_bytes} bytes");
//! })?;
//! debian_packages::unpack(&deb, Path::new("/tmp/unpacked"))?;
//! # Ok(())
//! # }
//! ```
//!
//! Install, as root (or put `sudo` before [`PrivateApt::words`]):
//!
//! ```no_run
//! # use std::path::Path;
//! # fn main() -> debian_packages::Result<()> {
//! # use debian_packages::PrivateApt;
//! let apt = PrivateApt::with_machine_sources(Path::new("/tmp/apt"), &["bookworm-backports"])?;
//! apt.update()?;
//! let status = apt
//!     .command("apt-get")
//!     .args(["install", "-y", "--no-install-recommends", "-t", "bookworm-backports"])
//!     .arg("qemu-system-x86")
//!     .status();
//! # let _ = status; Ok(())
//! # }
//! ```
//!
//! Sources, by any user:
//!
//! ```no_run
//! # use std::path::Path;
//! # fn main() -> debian_packages::Result<()> {
//! # use debian_packages::PrivateApt;
//! let apt = PrivateApt::for_sources(Path::new("/tmp/apt"), &["trixie-backports"])?;
//! apt.update()?;
//! let version = "6.18.15-1~bpo13+1";
//! let archive = apt.download_source("linux", version, Path::new("/tmp"), |_nr_bytes| ())?;
//! # let _ = archive; Ok(())
//! # }
//! ```
//!
//! # Limits
//!
//! It drives the machine's own `apt-get`, `apt-cache`, `apt-config` and
//! `dpkg-deb`, so these must be there, and one of apt's sources must be a mirror
//! of Debian. Only packages for amd64 are known.

mod apt;
mod machine;
mod sources;
mod tool;

pub use apt::{PrivateApt, unpack};
pub use machine::backports_suite;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no package.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// One of apt's tools failed, or the machine's configuration does not help.
    #[error("apt: {0}")]
    Apt(String),

    /// One of apt's tools is missing.
    #[error("{tool} is not installed: packages are fetched by Debian's own tools")]
    MissingTool {
        /// The program's name.
        tool: String,
    },

    /// A file or a directory cannot be read or written; the message names it.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
