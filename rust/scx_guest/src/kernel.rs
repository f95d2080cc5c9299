// SPDX-License-Identifier: GPL-2.0
//! Which kernel the guest boots.
//!
//! [`Kernel::find`] answers, in this order:
//!
//!   1. the image that was named, or the host's own if [`HOST`] was;
//!   2. `$SCX_GUEST_KERNEL`: the same, for a whole session;
//!   3. the one that is pinned, fetched once into a cache ([`crate::debian`]).
//!
//! The host's is only used when it is asked for: it changes with every update,
//! and figures with it.
//!
//! [`Kernel::find_second`] answers for tests that are to hold on another kernel
//! as well, of which there may be none:
//!
//!   1. the image that was named, or `$SCX_GUEST_KERNEL_2`;
//!   2. the first `vmlinuz-*`, by name, of the directories that were named, or of
//!      those in `$SCX_GUEST_KERNELS`, a list with colons like `$PATH`;
//!   3. the first `vmlinuz-*` in `built` in the cache, where a project keeps a
//!      kernel that it builds for its tests ([`built_kernels_dir`]).
//!
//! A kernel that is known to have no sched_ext is refused here; one that does
//! not say is found out when it boots.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use etcetera::base_strategy::{BaseStrategy, choose_base_strategy};

use crate::{Error, Result, debian, image};

/// In place of a path: the kernel that this machine runs. A file of that name is
/// `./host`.
pub const HOST: &str = "host";

/// Names the kernel for every run that names none itself.
const KERNEL_VARIABLE: &str = "SCX_GUEST_KERNEL";

/// Names the second kernel.
const SECOND_KERNEL_VARIABLE: &str = "SCX_GUEST_KERNEL_2";

/// Names directories in which the second kernel may be.
const KERNELS_VARIABLE: &str = "SCX_GUEST_KERNELS";

/// What the name of an image in such a directory begins with.
const IMAGE_PREFIX: &str = "vmlinuz-";

/// A bootable kernel image with sched_ext.
#[derive(Debug, Clone)]
pub struct Kernel {
    image: PathBuf,
    release: String,
    config: Option<String>,
}

impl Kernel {
    /// The kernel in a bzImage of any distribution.
    pub fn from_path(image: &Path) -> Result<Kernel> {
        let bytes = fs::read(image).map_err(|e| Error::at("reading the kernel", image, e))?;
        let release = image::release(&bytes).map_err(|reason| Error::NotAKernel {
            path: image.to_owned(),
            reason,
        })?;

        let found = find_config(image, &release).or_else(|| {
            image::embedded_config(&bytes)
                .map(|config| ("the configuration inside it".to_owned(), config))
        });
        let Some((place, config)) = found else {
            return Ok(Kernel {
                image: image.to_owned(),
                release,
                config: None,
            });
        };
        if config_value(&config, "CONFIG_SCHED_CLASS_EXT") != Some("y") {
            return Err(Error::NoSchedExt {
                path: image.to_owned(),
                evidence: format!("CONFIG_SCHED_CLASS_EXT is not set in {place}"),
            });
        }
        Ok(Kernel {
            image: image.to_owned(),
            release,
            config: Some(config),
        })
    }

    /// The kernel without the code that unpacks it, in a file that has no name, if it
    /// can be entered directly: unpacking takes a third of a boot. This process does
    /// it once for each image.
    pub(crate) fn direct_image(&self) -> Result<Option<Arc<File>>> {
        static UNPACKED: Mutex<BTreeMap<PathBuf, Option<Arc<File>>>> = Mutex::new(BTreeMap::new());
        let mut unpacked = UNPACKED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = unpacked.get(&self.image) {
            return Ok(file.clone());
        }
        let file = self.unpack()?.map(Arc::new);
        unpacked.insert(self.image.clone(), file.clone());
        Ok(file)
    }

    fn unpack(&self) -> Result<Option<File>> {
        let bytes =
            fs::read(&self.image).map_err(|e| Error::at("reading the kernel", &self.image, e))?;
        let Some(mut kernel) = image::direct(&bytes) else {
            return Ok(None);
        };
        if image::keep_turn(&mut kernel) == 0 {
            log::debug!("{} waits at its start", self.image.display());
        }
        let writing = |e| Error::io("unpacking the kernel", e);
        let mut file = tempfile::tempfile().map_err(writing)?;
        file.write_all(&kernel).map_err(writing)?;
        Ok(Some(file))
    }

    /// The kernel that this machine runs, if it has sched_ext and its image
    /// can be read.
    pub fn host() -> Result<Option<Kernel>> {
        if !Path::new("/sys/kernel/sched_ext").exists() {
            return Ok(None);
        }
        let release = rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned();
        if let Some(reason) = debian::known_bad(&release) {
            log::info!("not using the host's kernel {release}: {reason}");
            return Ok(None);
        }
        let places = [
            format!("/boot/vmlinuz-{release}"),
            format!("/usr/lib/modules/{release}/vmlinuz"),
        ];
        for place in &places {
            match Kernel::from_path(Path::new(place)) {
                Ok(kernel) if kernel.release == release => return Ok(Some(kernel)),
                Ok(kernel) => log::info!("{place} is {}, not {release}", kernel.release),
                Err(reason) => log::debug!("{reason}"),
            }
        }
        Ok(None)
    }

    /// The kernel that is pinned ([`debian::PINNED`]), from `cache` or fetched into it.
    /// If Debian has it no more, another good one, and that is said.
    pub fn debian(cache: &Path) -> Result<Kernel> {
        debian::kernel(cache)
    }

    /// The kernel to use when `path` was given, or not: see the module's list.
    pub fn find(path: Option<&Path>) -> Result<Kernel> {
        if let Some(path) = path {
            return Kernel::named(path);
        }
        if let Some(path) = variable(KERNEL_VARIABLE) {
            return Kernel::named(Path::new(&path));
        }
        Kernel::debian(&default_cache_dir()?)
    }

    fn named(path: &Path) -> Result<Kernel> {
        if path != Path::new(HOST) {
            return Kernel::from_path(path);
        }
        Kernel::host()?.ok_or_else(|| {
            Error::NoKernel(
                "this machine's own has no sched_ext, does not load schedulers, or its image \
                 cannot be read"
                    .to_owned(),
            )
        })
    }

    /// A second kernel to test on, when `path` or a list of directories `dirs`
    /// was given, or neither: see the module's list. None if none was named and
    /// none was built.
    ///
    /// # Errors
    ///
    /// If the one that was named will not do, or if directories were named and
    /// none of them has an image.
    pub fn find_second(path: Option<&Path>, dirs: Option<&OsStr>) -> Result<Option<Kernel>> {
        let path = path.map(|path| path.as_os_str().to_owned());
        // What is named on a command line counts more than any variable.
        let path = path.or_else(|| variable(SECOND_KERNEL_VARIABLE).filter(|_| dirs.is_none()));
        if let Some(path) = path {
            return Kernel::from_path(Path::new(&path)).map(Some);
        }
        let dirs = dirs.map(OsStr::to_owned);
        if let Some(dirs) = dirs.or_else(|| variable(KERNELS_VARIABLE)) {
            let image = env::split_paths(&dirs).find_map(|dir| first_image(&dir));
            let image = image.ok_or_else(|| {
                Error::NoKernel(format!("no {IMAGE_PREFIX}* in {}", dirs.display()))
            })?;
            return Kernel::from_path(&image).map(Some);
        }
        match built_kernels_dir().ok().and_then(|dir| first_image(&dir)) {
            Some(image) => Kernel::from_path(&image).map(Some),
            None => Ok(None),
        }
    }

    /// The release, as `uname -r` prints it in the guest.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Timer ticks per second, where the configuration is known.
    pub fn hz(&self) -> Option<u32> {
        config_value(self.config.as_deref()?, "CONFIG_HZ")?
            .parse()
            .ok()
    }

    /// Where modules and BPF programs begin in its memory: a kernel that can be moved to
    /// random addresses leaves twice as much for itself. One whose configuration is not
    /// known can be, as those of distributions.
    pub(crate) fn modules_at(&self) -> u64 {
        const MOVABLE: u64 = 0xffff_ffff_c000_0000;
        const FIXED: u64 = 0xffff_ffff_a000_0000;
        match &self.config {
            Some(config) if config_value(config, "CONFIG_RANDOMIZE_BASE") != Some("y") => FIXED,
            _ => MOVABLE,
        }
    }

    /// The image's path.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The text of the configuration, where it is known.
    pub fn config(&self) -> Option<&str> {
        self.config.as_deref()
    }
}

/// Where kernels are kept unless something else is asked for:
/// `$XDG_CACHE_HOME/scx_guest` or `~/.cache/scx_guest`.
pub fn default_cache_dir() -> Result<PathBuf> {
    let base = choose_base_strategy().map_err(|_| {
        Error::NoKernel("neither XDG_CACHE_HOME nor HOME says where to keep one".to_owned())
    })?;
    Ok(base.cache_dir().join("scx_guest"))
}

/// Where a kernel that was built for tests is kept, as `vmlinuz-NAME` with its
/// configuration beside it as `config-RELEASE`: `built` in [`default_cache_dir`].
///
/// # Errors
///
/// If there is no such directory.
pub fn built_kernels_dir() -> Result<PathBuf> {
    Ok(default_cache_dir()?.join("built"))
}

/// Where the kernel's own selftests are kept once they were built for guests, as
/// programs: those of the pinned version ([`debian::PINNED`]), in `selftests` in
/// [`default_cache_dir`].
///
/// # Errors
///
/// If there is no such directory.
pub fn selftests_dir() -> Result<PathBuf> {
    let dir = default_cache_dir()?.join("selftests");
    Ok(dir.join(debian::PINNED.version))
}

/// Where programs of a package registry are kept once they were built for guests:
/// `published` in [`default_cache_dir`].
///
/// # Errors
///
/// If there is no such directory.
pub fn published_dir() -> Result<PathBuf> {
    Ok(default_cache_dir()?.join("published"))
}

/// Where `name` of the package of that name in `version` is, or would be: in
/// `NAME-VERSION/bin` in [`published_dir`].
///
/// # Errors
///
/// If there is no such directory.
pub fn published_program(name: &str, version: &str) -> Result<PathBuf> {
    let root = published_dir()?.join(format!("{name}-{version}"));
    Ok(root.join("bin").join(name))
}

/// The value of an environment variable that is set to something.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The first image of `dir` by name.
fn first_image(dir: &Path) -> Option<PathBuf> {
    let is_image = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        path.is_file() && name.is_some_and(|name| name.starts_with(IMAGE_PREFIX))
    };
    let entries = fs::read_dir(dir).ok()?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_image)
        .min()
}

/// The configuration of `release` in a file, with the file's name: beside the
/// image first, then where distributions put it.
fn find_config(image: &Path, release: &str) -> Option<(String, String)> {
    let beside = image
        .parent()
        .map(|dir| dir.join(format!("config-{release}")));
    let places = [
        beside,
        Some(PathBuf::from(format!("/boot/config-{release}"))),
        Some(PathBuf::from(format!("/usr/lib/modules/{release}/config"))),
    ];
    places.into_iter().flatten().find_map(|place| {
        let config = fs::read_to_string(&place).ok()?;
        Some((place.display().to_string(), config))
    })
}

/// The value of `name` in a kernel configuration; nothing if it is not set.
fn config_value<'a>(config: &'a str, name: &str) -> Option<&'a str> {
    config
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::{kernel_with_config, synthetic_image};

    const WITH: &str = "CONFIG_HZ_1000=y\nCONFIG_HZ=1000\nCONFIG_SCHED_CLASS_EXT=y\n";
    const WITHOUT: &str = "CONFIG_HZ=250\n# CONFIG_SCHED_CLASS_EXT is not set\n";

    fn write_image(dir: &Path, kernel: &[u8]) -> PathBuf {
        let path = dir.join("vmlinuz");
        fs::write(&path, synthetic_image("0.0.1-test", kernel)).unwrap();
        path
    }

    #[test]
    fn values_are_matched_by_whole_names() {
        assert_eq!(config_value(WITH, "CONFIG_HZ"), Some("1000"));
        assert_eq!(config_value(WITH, "CONFIG_SCHED_CLASS_EXT"), Some("y"));
        assert_eq!(config_value(WITHOUT, "CONFIG_SCHED_CLASS_EXT"), None);
        assert_eq!(config_value(WITH, "CONFIG_H"), None);
    }

    #[test]
    fn a_kernel_without_sched_ext_is_refused_by_either_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let image = write_image(dir.path(), &kernel_with_config(WITHOUT));
        assert!(matches!(
            Kernel::from_path(&image),
            Err(Error::NoSchedExt { .. })
        ));

        let image = write_image(dir.path(), b"");
        fs::write(dir.path().join("config-0.0.1-test"), WITHOUT).unwrap();
        assert!(matches!(
            Kernel::from_path(&image),
            Err(Error::NoSchedExt { .. })
        ));
    }

    #[test]
    fn the_tick_rate_comes_from_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let image = write_image(dir.path(), &kernel_with_config(WITH));
        let kernel = Kernel::from_path(&image).unwrap();
        assert_eq!(kernel.hz(), Some(1000));
        assert_eq!(kernel.release(), "0.0.1-test");

        let silent = write_image(dir.path(), b"");
        assert_eq!(Kernel::from_path(&silent).unwrap().hz(), None);
    }

    #[test]
    fn the_first_image_by_name_is_taken_and_other_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(first_image(dir.path()), None);
        for name in ["config-6.12", "vmlinuz-6.18", "vmlinuz-6.12"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(
            first_image(dir.path()),
            Some(dir.path().join("vmlinuz-6.12"))
        );
        assert_eq!(first_image(&dir.path().join("absent")), None);
    }

    #[test]
    fn a_second_kernel_is_searched_in_the_directories_that_were_named() {
        let (empty, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let image = full.path().join("vmlinuz-x");
        fs::rename(write_image(full.path(), b""), &image).unwrap();
        let dirs = |dirs: &[&Path]| env::join_paths(dirs).unwrap();

        let list = dirs(&[Path::new("/absent"), empty.path(), full.path()]);
        let found = Kernel::find_second(None, Some(&list)).unwrap().unwrap();
        assert_eq!(found.image(), image);
        let found = Kernel::find_second(Some(&image), None).unwrap().unwrap();
        assert_eq!(found.release(), "0.0.1-test");

        let none = Kernel::find_second(None, Some(&dirs(&[empty.path()])));
        let error = none.unwrap_err().to_string();
        assert!(error.contains("no vmlinuz-*"), "{error}");
    }

    #[test]
    fn missing_and_foreign_files_have_one_line_each() {
        let dir = tempfile::tempdir().unwrap();
        let missing = Kernel::from_path(&dir.path().join("none"))
            .unwrap_err()
            .to_string();
        assert!(missing.contains("No such file"), "{missing}");
        let foreign = dir.path().join("text");
        fs::write(&foreign, "hello").unwrap();
        let foreign = Kernel::from_path(&foreign).unwrap_err().to_string();
        assert!(foreign.contains("not a bootable"), "{foreign}");
        assert!(!missing.contains('\n') && !foreign.contains('\n'));
    }
}
