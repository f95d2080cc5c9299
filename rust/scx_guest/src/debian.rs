// SPDX-License-Identifier: GPL-2.0
//! Debian's kernels with sched_ext.
//!
//! *Which ready-made kernel loads scx schedulers, and how do I get it?* Debian's
//! backports carry cloud kernels, small and with everything built in that a
//! guest needs. They are downloaded and unpacked into a cache, never installed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use debian_packages::PrivateApt;
use sha2::{Digest, Sha256};

use crate::kernel::default_cache_dir;
use crate::{Error, Kernel, Result, progress};

/// The suite that carries the kernels, and their sources.
pub const SUITE: &str = "trixie-backports";

/// How a series of kernels gets on with the scx schedulers of today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Schedulers load.
    Good,
    /// They do not, and why.
    Bad(&'static str),
}

/// Kernels that were tried: the beginning of their release, and the verdict.
///
/// Good ones stand in the order in which they are wanted. 6.18 is the
/// reference, being a long-term series. A kernel is added here only after
/// schedulers were loaded in it.
pub const KNOWN_KERNELS: &[(&str, Verdict)] = &[
    ("6.18.", Verdict::Good),
    ("6.17.13", Verdict::Good),
    ("6.16.12", Verdict::Good),
    ("7.1.13", IMPLICIT_ARGUMENTS),
    ("7.2.12", IMPLICIT_ARGUMENTS),
];

/// What is wrong with kernels whose BTF was made by an old pahole.
const IMPLICIT_ARGUMENTS: Verdict =
    Verdict::Bad("its BTF lists the implicit argument of kfuncs, which loaders refuse");

/// Why schedulers are known not to load in `release`, if they are.
pub fn known_bad(release: &str) -> Option<&'static str> {
    KNOWN_KERNELS
        .iter()
        .find_map(|(start, verdict)| match verdict {
            Verdict::Bad(reason) if release.starts_with(start) => Some(*reason),
            _ => None,
        })
}

/// A kernel of which every byte is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// Name of its package.
    pub package: &'static str,
    /// Version of the package.
    pub version: &'static str,
    /// Name of the source package, which has the same version.
    pub source: &'static str,
    /// Release, as `uname -r` prints it.
    pub release: &'static str,
    /// SHA-256 of its image in hexadecimal.
    pub image_sha256: &'static str,
}

/// The kernel that a guest boots unless another one is named.
pub const PINNED: Pinned = Pinned {
    package: "linux-image-6.18.15+deb13-cloud-amd64",
    version: "6.18.15-1~bpo13+1",
    source: "linux",
    release: "6.18.15+deb13-cloud-amd64",
    image_sha256: "fb44deb1b865c78a7157fc6da7e9da7be5e253e056d229b54ba90d13d6df525f",
};

/// The pinned kernel from `cache`, or fetched into it. Where that cannot be had,
/// the best of the others that are known, which is said.
pub(crate) fn kernel(cache: &Path) -> Result<Kernel> {
    let (kernels, _lock) = lock_kernels(cache)?;
    let pinned = image_path(&kernels, PINNED.release);
    if !pinned.is_file()
        && let Err(reason) = fetch_pinned(cache, &kernels)
    {
        let image = other(cache, &kernels)?;
        let (pinned, image) = (PINNED.release, Kernel::from_path(&image)?);
        eprintln!(
            "Linux {pinned} cannot be had ({reason}); this is {}, and figures are others",
            image.release()
        );
        return Ok(image);
    }
    check_sha256(&pinned, PINNED.image_sha256)?;
    Kernel::from_path(&pinned)
}

/// The directory of kernels in `cache`, made if need be, and its lock: two runs at
/// once must not fetch into the same place.
fn lock_kernels(cache: &Path) -> Result<(PathBuf, File)> {
    let kernels = cache.join("kernels");
    fs::create_dir_all(&kernels).map_err(|e| Error::at("creating", &kernels, e))?;
    let lock_path = cache.join("lock");
    let lock = File::create(&lock_path).map_err(|e| Error::at("writing", &lock_path, e))?;
    lock.lock()
        .map_err(|e| Error::at("locking", &lock_path, e))?;
    Ok((kernels, lock))
}

/// The cloud kernels that [`SUITE`] offers now.
#[derive(Debug)]
pub struct Offer {
    cache: PathBuf,
    apt: PrivateApt,
}

impl Offer {
    /// Fetch the lists of the suite.
    ///
    /// # Errors
    ///
    /// If they cannot be fetched.
    pub fn fetch() -> Result<Offer> {
        let cache = default_cache_dir()?;
        let (_, _lock) = lock_kernels(&cache)?;
        let apt = updated_apt(&cache)?;
        Ok(Offer { cache, apt })
    }

    /// The same, or what was fetched last if the suite cannot be reached, which is said.
    ///
    /// # Errors
    ///
    /// If they cannot be fetched and never were.
    pub fn fetch_or_cached() -> Result<Offer> {
        let reason = match Offer::fetch() {
            Ok(offer) => return Ok(offer),
            Err(reason) => reason,
        };
        let cache = default_cache_dir()?;
        let apt = PrivateApt::new(&cache.join("apt"), &[SUITE])?;
        let offer = Offer { cache, apt };
        if offer.newest_of_each_series()?.is_empty() {
            return Err(reason);
        }
        eprintln!("{SUITE} cannot be reached ({reason}); its list is as it was fetched last");
        Ok(offer)
    }

    /// The newest release that is not known to load no schedulers.
    ///
    /// # Errors
    ///
    /// If apt-cache fails, or there is none.
    pub fn newest_good(&self) -> Result<String> {
        let releases = self.newest_of_each_series()?;
        let good = newest_good(&releases).map(str::to_owned);
        good.ok_or_else(|| Error::NoKernel(format!("{SUITE} has none that loads schedulers")))
    }

    /// The newest release of each series, the oldest series first.
    ///
    /// # Errors
    ///
    /// If apt-cache fails.
    pub fn newest_of_each_series(&self) -> Result<Vec<String>> {
        let packages = self.apt.package_names("linux-image-")?;
        let releases = packages.iter().filter_map(|name| package_release(name));
        Ok(newest(releases).into_iter().map(str::to_owned).collect())
    }

    /// The kernel `release`, from the cache or fetched into it.
    ///
    /// # Errors
    ///
    /// If there is none, it cannot be fetched, or it has no sched_ext.
    pub fn kernel(&self, release: &str) -> Result<Kernel> {
        let (kernels, _lock) = lock_kernels(&self.cache)?;
        let image = image_path(&kernels, release);
        if !image.is_file() {
            let package = format!("linux-image-{release}");
            fetch(&self.apt, &self.cache, &kernels, &package, release)?;
        }
        Kernel::from_path(&image)
    }
}

/// The image of the best known kernel but for the pinned one, from `kernels` or
/// fetched into it.
fn other(cache: &Path, kernels: &Path) -> Result<PathBuf> {
    let cached: Vec<String> = fs::read_dir(kernels)
        .map_err(|e| Error::at("reading", kernels, e))?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let release = match choose(cached.iter().map(String::as_str)) {
        Some(release) => release.to_owned(),
        None => fetch_best(cache, kernels)?,
    };
    Ok(image_path(kernels, &release))
}

fn image_path(kernels: &Path, release: &str) -> PathBuf {
    kernels.join(release).join(format!("vmlinuz-{release}"))
}

/// An error unless the file at `path` has this SHA-256, in hexadecimal.
fn check_sha256(path: &Path, expected: &str) -> Result<()> {
    let bytes = fs::read(path).map_err(|e| Error::at("reading", path, e))?;
    let found = format!("{:x}", Sha256::digest(bytes));
    if found == expected {
        return Ok(());
    }
    Err(Error::NoKernel(format!(
        "{} is not the kernel that is pinned: its SHA-256 is {found}, not {expected}; remove \
         its directory to have it fetched again, or name a kernel with --kernel",
        path.display()
    )))
}

/// Fetch the pinned kernel.
fn fetch_pinned(cache: &Path, kernels: &Path) -> Result<()> {
    let apt = updated_apt(cache)?;
    let package = format!("{}={}", PINNED.package, PINNED.version);
    fetch(&apt, cache, kernels, &package, PINNED.release)
}

/// Fetch the best kernel there is and return its release.
fn fetch_best(cache: &Path, kernels: &Path) -> Result<String> {
    let apt = updated_apt(cache)?;
    let packages = apt.package_names("linux-image-")?;
    let releases = packages.iter().filter_map(|name| package_release(name));
    let release = choose(releases).ok_or_else(|| {
        let good = KNOWN_KERNELS
            .iter()
            .filter(|(_, verdict)| *verdict == Verdict::Good);
        let good: Vec<&str> = good.map(|(start, _)| start.trim_end_matches('.')).collect();
        Error::NoKernel(format!(
            "{SUITE} has none of {}; give an image with --kernel",
            good.join(", ")
        ))
    })?;
    let package = format!("linux-image-{release}");
    fetch(&apt, cache, kernels, &package, release)?;
    Ok(release.to_owned())
}

/// apt with current lists of the suite.
fn updated_apt(cache: &Path) -> Result<PrivateApt> {
    let step = progress::step(format!("looking for a kernel in {SUITE}"));
    let apt = PrivateApt::new(&cache.join("apt"), &[SUITE])?;
    apt.update()?;
    step.finish_and_clear();
    Ok(apt)
}

/// Fetch `package`, which holds the kernel `release`, or stands for what does.
///
/// From 6.19 on the image is in a package of its own, and the configuration in a third,
/// which is offered for the newest kernels only; in 7.2 both moved out of `/boot`.
fn fetch(
    apt: &PrivateApt,
    cache: &Path,
    kernels: &Path,
    package: &str,
    release: &str,
) -> Result<()> {
    let holder = tempfile::tempdir_in(cache).map_err(|e| Error::at("writing to", cache, e))?;
    let unpacked = holder.path().join("unpacked");
    let boot = unpacked.join("boot");
    let image = boot.join(format!("vmlinuz-{release}"));
    let config = boot.join(format!("config-{release}"));
    let add = |package: &str| -> Result<()> {
        let bar = progress::bytes(format!("downloading {package}"), apt.size_bytes(package)?);
        let deb = apt.download(package, holder.path(), |nr_bytes| {
            bar.set_position(nr_bytes)
        })?;
        bar.finish_and_clear();
        let step = progress::step(format!("unpacking Linux {release}"));
        debian_packages::unpack(&deb, &unpacked)?;
        step.finish_and_clear();
        let modules = unpacked.join("usr/lib/modules").join(release);
        move_there(&modules.join("vmlinuz"), &image)?;
        move_there(&modules.join("config"), &config)
    };
    add(package)?;
    if !image.is_file() {
        add(&format!("linux-binary-{release}"))?;
    }
    // A kernel can do without.
    let with_config = format!("linux-base-{release}");
    if !config.is_file() && apt.size_bytes(&with_config).is_ok() {
        add(&with_config)?;
    }
    Kernel::from_path(&image)?;
    // The name appears only once everything below it is complete.
    let target = kernels.join(release);
    fs::rename(&boot, &target).map_err(|e| Error::at("writing", &target, e))?;
    Ok(())
}

/// Move the file at `from` to `to`, if there is one.
fn move_there(from: &Path, to: &Path) -> Result<()> {
    if !from.is_file() {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(|e| Error::at("making", parent, e))?;
    }
    fs::rename(from, to).map_err(|e| Error::at("writing", to, e))
}

/// The release in the name of a cloud kernel's package.
fn package_release(name: &str) -> Option<&str> {
    let release = name.strip_prefix("linux-image-")?;
    let is_cloud = release.ends_with("-cloud-amd64");
    (is_cloud && release.starts_with(|c: char| c.is_ascii_digit())).then_some(release)
}

/// The release to use: of the first series in the table that has any, the
/// newest.
fn choose<'a>(releases: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let releases: Vec<&str> = releases.collect();
    KNOWN_KERNELS
        .iter()
        .filter(|(_, verdict)| *verdict == Verdict::Good)
        .find_map(|(start, _)| {
            let series = releases
                .iter()
                .filter(|release| is_in_series(release, start));
            series.copied().max_by_key(|release| version(release))
        })
}

/// The newest release of each series, which the first two numbers name.
fn newest<'a>(releases: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut newest: BTreeMap<Vec<u32>, &str> = BTreeMap::new();
    for release in releases {
        let series = version(release).into_iter().take(2).collect();
        let kept = newest.entry(series).or_insert(release);
        if version(release) > version(kept) {
            *kept = release;
        }
    }
    newest.into_values().collect()
}

/// The last of `releases` that is not known to load no schedulers.
fn newest_good(releases: &[String]) -> Option<&str> {
    let mut releases = releases.iter().map(String::as_str).rev();
    releases.find(|release| known_bad(release).is_none())
}

/// Whether `release` begins with `start` and not with a longer number.
fn is_in_series(release: &str, start: &str) -> bool {
    release
        .strip_prefix(start)
        .is_some_and(|rest| start.ends_with('.') || !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The numbers of a release, for comparison: 6.18.15 is newer than 6.18.9.
pub fn version(release: &str) -> Vec<u32> {
    let numbers = release.split(|c: char| !c.is_ascii_digit());
    numbers.map_while(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_cloud_images_count() {
        let release = package_release("linux-image-6.18.15+deb13-cloud-amd64");
        assert_eq!(release, Some("6.18.15+deb13-cloud-amd64"));
        for name in [
            "linux-image-6.18.15+deb13-cloud-amd64-dbg",
            "linux-image-6.18.15+deb13-cloud-amd64-unsigned",
            "linux-image-6.18.15+deb13-amd64",
            "linux-image-cloud-amd64",
        ] {
            assert_eq!(package_release(name), None, "{name}");
        }
    }

    #[test]
    fn the_newest_of_the_reference_series_is_chosen() {
        let releases = [
            "6.16.12+x",
            "6.18.9+x",
            "6.18.15+x",
            "7.2.12+x",
            "6.17.13+x",
            "6.18.5+x",
        ];
        assert_eq!(choose(releases.into_iter()), Some("6.18.15+x"));
    }

    #[test]
    fn the_newest_of_each_series_are_found_and_the_oldest_series_is_first() {
        let releases = ["7.0.9+x", "6.18.15+x", "7.0.13+x", "6.9.1+x", "6.18.9+x"];
        assert_eq!(
            newest(releases.into_iter()),
            ["6.9.1+x", "6.18.15+x", "7.0.13+x"]
        );
        assert!(newest([].into_iter()).is_empty());
    }

    #[test]
    fn the_newest_that_loads_schedulers_is_of_the_last_series_that_is_not_known_bad() {
        let releases = |names: &[&str]| names.iter().map(|&name| name.into()).collect::<Vec<_>>();
        let all = releases(&["6.18.15+x", "7.0.13+x", "7.1.13+x", "7.2.12+x", "7.3.4+x"]);
        assert_eq!(newest_good(&all), Some("7.3.4+x"));
        assert_eq!(newest_good(&all[..4]), Some("7.0.13+x"));
        assert_eq!(newest_good(&all[2..4]), None);
    }

    #[test]
    fn without_the_reference_series_the_next_good_one_is_chosen() {
        assert_eq!(
            choose(["6.16.12+x", "6.17.13+x", "6.17.8+x"].into_iter()),
            Some("6.17.13+x")
        );
        assert_eq!(
            choose(["6.17.8+x", "6.16.120+x", "7.3.4+x"].into_iter()),
            None
        );
    }

    #[test]
    fn an_image_of_other_bytes_is_refused_with_both_digests() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "another").unwrap();
        let error = check_sha256(file.path(), PINNED.image_sha256).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(PINNED.image_sha256), "{error}");
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        fs::write(file.path(), "").unwrap();
        assert!(check_sha256(file.path(), empty).is_ok());
    }

    #[test]
    fn the_pinned_kernel_is_one_that_loads_schedulers() {
        assert_eq!(package_release(PINNED.package), Some(PINNED.release));
        assert_eq!(choose([PINNED.release].into_iter()), Some(PINNED.release));
        assert!(PINNED.release.starts_with(KNOWN_KERNELS[0].0));
    }

    #[test]
    fn bad_kernels_have_a_reason() {
        assert!(known_bad("7.2.12+deb13-cloud-amd64").is_some());
        assert_eq!(known_bad("6.18.15+deb13-cloud-amd64"), None);
    }
}
