//! Properties of the memory: what is learned, forgotten, and kept in a file.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use super::learner::{Learner, today};
use super::profile::{ONE, STALE_DAYS, Sighting};
use super::*;
use crate::bpf_intf::{intf_consts_NSEC_PER_MSEC, learned_row};
use crate::fuzz;
use crate::hint::Tier;

const MS: u64 = intf_consts_NSEC_PER_MSEC as u64;
const DAY: u32 = 20_000;

fn seen(tier: Tier, avg_runtime_ns: u64) -> Sighting {
    Sighting {
        tier,
        avg_runtime_ns,
        score: 50,
    }
}

const HOG: Sighting = Sighting {
    tier: Tier::Batch,
    avg_runtime_ns: 900 * MS,
    score: 0,
};

fn key(program: &str, thread: &str) -> Key {
    Key {
        program: program.to_owned(),
        thread: thread.to_owned(),
        uid: 1000,
    }
}

/// The profile of threads that were seen like this, one after the other.
fn profile(sightings: &[Sighting]) -> Profile {
    let mut profile = Profile::new(&sightings[..1], DAY).unwrap();
    for sighting in &sightings[1..] {
        profile.observe(&[*sighting], DAY);
    }
    profile
}

/// A memory with `nr` entries that were seen on `DAY`, three times each.
fn memory(nr: usize) -> Procdb {
    let mut procdb = Procdb::default();
    for idx in 0..nr {
        for _ in 0..3 {
            procdb.observe(key(&format!("/bin/{idx:04}"), "main"), 7, &[HOG], DAY);
        }
    }
    procdb
}

#[test]
fn three_observations_are_enough_and_two_are_not() {
    assert_eq!(profile(&[HOG; 2]).prediction(DAY), None);
    let prediction = profile(&[HOG; 3]).prediction(DAY).unwrap();
    assert_eq!(prediction.tier, Tier::Batch);
    // That of a hog has no end, and is only said to be long.
    assert_eq!(prediction.avg_runtime_ns, 32 * MS);
}

#[test]
fn another_behaviour_is_doubted_at_once_and_believed_after_two_observations() {
    let frame = seen(Tier::Interactive, 3 * MS);
    let mut changed = profile(&[HOG; 100]);
    changed.observe(&[frame], DAY);
    assert_eq!(changed.prediction(DAY), None);
    changed.observe(&[frame], DAY);
    let prediction = changed.prediction(DAY).unwrap();
    assert_eq!(prediction.tier, Tier::Interactive);
    assert_eq!(prediction.avg_runtime_ns, 3 * MS);
}

#[test]
fn one_odd_moment_is_forgotten_after_one_more_usual_one() {
    let mut odd = profile(&[HOG; 100]);
    odd.observe(&[seen(Tier::Interactive, 3 * MS)], DAY);
    odd.observe(&[HOG], DAY);
    assert_eq!(odd.prediction(DAY).unwrap().tier, Tier::Batch);
}

#[test]
fn threads_of_one_name_that_differ_let_expect_nothing() {
    let both = [HOG, seen(Tier::LatCritical, MS)];
    let mut mixed = Profile::new(&both, DAY).unwrap();
    for _ in 0..100 {
        mixed.observe(&both, DAY);
        assert_eq!(mixed.prediction(DAY), None);
    }
}

#[test]
fn an_average_that_jumps_about_lets_expect_less() {
    let steady = profile(&[seen(Tier::Interactive, MS); 50]);
    let jumps: Vec<Sighting> = (0..50)
        .map(|idx| {
            seen(
                Tier::Interactive,
                if idx % 2 == 0 { MS / 10 } else { 10 * MS },
            )
        })
        .collect();
    let restless = profile(&jumps);
    assert_eq!(steady.confidence(DAY), ONE);
    assert!(restless.confidence(DAY) < ONE * 3 / 4);
    assert_eq!(
        restless
            .prediction(DAY)
            .unwrap_or(steady.prediction(DAY).unwrap())
            .tier,
        Tier::Interactive
    );
}

#[test]
fn a_memory_fades_in_weeks_not_in_seconds() {
    let hog = profile(&[HOG; 9]);
    assert!(hog.prediction(DAY + 20).is_some());
    assert!(hog.prediction(DAY + 40).is_none());
    // The clock was set back.
    assert!(hog.prediction(DAY - 9).is_some());
    let mut procdb = memory(1);
    procdb.age(DAY + STALE_DAYS - 1);
    assert_eq!(procdb.len(), 1);
    procdb.age(DAY + STALE_DAYS);
    assert_eq!(procdb.len(), 0);
}

#[test]
fn a_day_to_come_does_not_keep_an_entry_for_ever() {
    let mut procdb = memory(1);
    procdb.age(DAY - 100);
    procdb.age(DAY - 100 + STALE_DAYS);
    assert_eq!(procdb.len(), 0);
}

#[test]
fn the_stalest_go_first_then_what_was_seen_least_then_the_last_by_name() {
    let mut procdb = memory(NR_ENTRIES_MAX - 2);
    procdb.observe(key("/bin/0000", "main"), 7, &[HOG], DAY + 1);
    procdb.observe(key("/a/old", "main"), 7, &[HOG], DAY - 1);
    for _ in 0..2 {
        procdb.observe(key("/a/seldom", "main"), 7, &[HOG], DAY);
    }
    assert_eq!(procdb.len(), NR_ENTRIES_MAX);
    procdb.observe(key("/z/new", "main"), 7, &[HOG], DAY + 1);
    assert_eq!(procdb.len(), NR_ENTRIES_KEPT);
    let stays = |program: &str| procdb.entries.contains_key(&key(program, "main"));
    assert!(stays("/z/new") && stays("/bin/0000") && stays("/bin/0001"));
    assert!(!stays("/a/old") && !stays("/a/seldom"));
    assert!(!stays(&format!("/bin/{:04}", NR_ENTRIES_MAX - 3)));
}

#[test]
fn a_file_holds_what_was_remembered_and_the_same_gives_the_same_bytes() {
    let procdb = memory(20);
    let bytes = file::encode(&procdb).unwrap();
    let again = file::decode(&bytes).unwrap();
    assert_eq!(again, procdb);
    assert_eq!(file::encode(&again).unwrap(), bytes);
    // In another order.
    let mut other = Procdb::default();
    for (key, entry) in procdb.entries.iter().rev() {
        other.entries.insert(key.clone(), entry.clone());
    }
    assert_eq!(file::encode(&other).unwrap(), bytes);
}

/// The names of what is in `dir`, in their order.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_save_replaces_the_file_as_a_whole_and_leaves_nothing_else() {
    let dir = dir();
    let path = dir.path().join("a/b/procdb");
    file::save(&memory(3), &path).unwrap();
    file::save(&memory(5), &path).unwrap();
    assert_eq!(file::read(&path).unwrap(), Some(memory(5)));
    assert_eq!(names(path.parent().unwrap()), ["procdb"]);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "what a user runs is not for all to read");
}

#[test]
fn what_is_no_memory_is_put_aside_and_a_new_one_begins() {
    let whole = file::encode(&memory(3)).unwrap();
    let mut flipped = whole.clone();
    flipped[100] ^= 1;
    let newer = String::from_utf8(whole.clone()).unwrap();
    let newer = newer.replace("procdb 1 ", "procdb 2 ").into_bytes();
    let foreign = b"PDDB\x02\0\0\0".to_vec();
    let huge = vec![b'x'; 2 << 20];
    let truncated = whole[..whole.len() - 10].to_vec();
    let tab = String::from_utf8(whole.clone()).unwrap();
    let tab = tab.replace("procdb 1", "procdb\t1").into_bytes();
    for bytes in [flipped, newer, foreign, huge, truncated, tab, Vec::new()] {
        let dir = dir();
        let path = dir.path().join("procdb");
        fs::write(&path, &bytes).unwrap();
        assert!(file::read(&path).is_err());
        assert_eq!(file::load(&path), Procdb::default());
        assert_eq!(names(dir.path()), ["procdb.bad"]);
        assert_eq!(fs::read(dir.path().join("procdb.bad")).unwrap(), bytes);
        // The next one finds nothing to complain of.
        assert_eq!(file::read(&path).unwrap(), None);
    }
}

#[test]
fn a_directory_a_pipe_and_a_link_are_put_aside_and_nothing_is_written_through() {
    let dir = dir();
    let path = dir.path().join("procdb");
    let secret = dir.path().join("secret");
    fs::write(&secret, "secret").unwrap();

    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), "").unwrap();
    assert_eq!(file::load(&path), Procdb::default());
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(file::load(&path), Procdb::default());
    symlink(&secret, &path).unwrap();
    assert_eq!(file::load(&path), Procdb::default());
    let aside = ["procdb.bad", "procdb.bad.1", "procdb.bad.2", "secret"];
    assert_eq!(names(dir.path()), aside);

    // One that was put there meanwhile is replaced.
    symlink(&secret, &path).unwrap();
    file::save(&memory(1), &path).unwrap();
    assert!(!path.is_symlink());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(file::load(&path), memory(1));
}

/// What `--procdb` names may be anything: the home directory, a device.
#[test]
fn what_was_named_and_is_none_of_ours_is_neither_moved_nor_written() {
    let dir = dir();
    let named = |name: &str| dir.path().join(name);
    fs::write(named("secret"), "root:*:1:").unwrap();
    fs::create_dir(named("home")).unwrap();
    symlink(named("secret"), named("link")).unwrap();
    symlink("/dev/null", named("null")).unwrap();
    let pipe = named("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let before = names(dir.path());
    for name in &before {
        let path = named(name);
        let mut learner = learner_of(&path);
        assert_eq!(learner.counts(), (0, 0), "{name}");
        let pid = i32::try_from(std::process::id()).unwrap();
        learner.learn(&[row(pid, 7, b"worker")], Instant::now());
        learner.save();
        assert_eq!(names(dir.path()), before, "{name}");
    }
    assert_eq!(fs::read(named("secret")).unwrap(), b"root:*:1:");

    // One of ours is put aside, however short: a disk may have been full.
    let whole = file::encode(&memory(3)).unwrap();
    for len in [0, 7, 30, whole.len() - 1] {
        let dir = self::dir();
        let path = dir.path().join("mine");
        fs::write(&path, &whole[..len]).unwrap();
        let (procdb, saved_to) = file::load_named(&path);
        assert_eq!((procdb, saved_to), (Procdb::default(), Some(path)));
        assert_eq!(names(dir.path()), ["mine.bad"], "{len}");
    }
}

/// The user may be any but root, whom nothing is hidden from.
#[test]
fn what_may_not_be_read_is_put_aside() {
    let dir = dir();
    let path = dir.path().join("procdb");
    file::save(&memory(3), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let is_readable = fs::read(&path).is_ok();
    let (expected, name) = match is_readable {
        true => (memory(3), "procdb"),
        false => (Procdb::default(), "procdb.bad"),
    };
    assert_eq!(file::load(&path), expected);
    assert_eq!(names(dir.path()), [name]);
}

#[test]
fn what_cannot_be_saved_is_told_and_leaves_the_old_file() {
    let dir = dir();
    let path = dir.path().join("procdb");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), "").unwrap();
    assert!(file::save(&memory(1), &path).is_err());
    assert_eq!(names(dir.path()), ["procdb"]);
    assert!(file::save(&memory(1), &path.join("inside/procdb")).is_err());
}

fn row(tgid: i32, program: u64, comm: &[u8]) -> learned_row {
    let mut row = learned_row {
        program,
        score: 0,
        avg_runtime_ns: 20 * MS,
        tgid,
        uid: 0,
        tier: 0,
        reserved: 0,
        comm: [0; 16],
    };
    row.comm[..comm.len()].copy_from_slice(comm);
    row
}

/// A learner with a file in `dir`.
fn learner(dir: &Path) -> Learner {
    learner_of(&dir.join("procdb"))
}

fn learner_of(path: &Path) -> Learner {
    let opts = ProcdbOpts {
        procdb: Some(path.to_owned()),
        no_procdb: false,
    };
    Learner::load(&opts).unwrap()
}

#[test]
fn the_bpf_half_is_told_once_and_told_to_forget() {
    let dir = dir();
    let mut learner = learner(dir.path());
    assert!(learner.begin().is_empty());
    let pid = i32::try_from(std::process::id()).unwrap();
    let batch = row(pid, 7, b"worker");
    let mut told = Vec::new();
    for _ in 0..6 {
        let news = learner.learn(&[batch], Instant::now());
        told.push(news.memories.len());
    }
    assert_eq!(told, [0, 0, 1, 0, 0, 0]);
    let mut changed = batch;
    changed.tier = 1;
    changed.avg_runtime_ns = MS;
    let told: Vec<bool> = (0..2)
        .flat_map(|_| learner.learn(&[changed], Instant::now()).memories)
        .map(|(key, hint)| {
            assert_eq!((key.program, key.uid), (7, 0));
            assert_eq!(&key.comm[..7], b"worker\0");
            hint.is_some()
        })
        .collect();
    assert_eq!(told, [false, true]);

    // After a restart: by the inode that it had, and by that of its file.
    learner.save();
    let mut again = self::learner(dir.path());
    assert_eq!(again.begin().len(), 2);
    assert_eq!(again.begin().len(), 2, "another BPF half knows nothing");
    assert_eq!(again.counts(), (1, 1));
}

#[test]
fn a_save_begins_when_it_is_due_and_is_waited_for_at_the_end() {
    let dir = dir();
    let mut learner = learner(dir.path());
    let pid = i32::try_from(std::process::id()).unwrap();
    let now = Instant::now();
    learner.learn(&[row(pid, 7, b"worker")], now);
    learner.save_if_due(now);
    assert!(names(dir.path()).is_empty(), "too early");
    learner.save_if_due(now + Duration::from_secs(301));
    learner.save();
    assert_eq!(names(dir.path()), ["procdb"]);
    assert_eq!(self::learner(dir.path()).counts().0, 1);
}

#[test]
fn what_is_gone_or_has_no_name_is_not_learned() {
    let dir = dir();
    let mut learner = learner(dir.path());
    let pid = i32::try_from(std::process::id()).unwrap();
    for _ in 0..3 {
        let rows = [
            row(i32::MAX, 7, b"gone"),
            row(pid, 7, b"\xff"),
            row(pid, 7, b""),
        ];
        let news = learner.learn(&rows, Instant::now());
        assert!(news.memories.is_empty() && news.numbered.is_empty());
    }
    assert_eq!(learner.counts(), (0, 0));
    assert!(today() > DAY);
}

fn any_tier() -> impl Strategy<Value = Tier> {
    prop_oneof![
        Just(Tier::Batch),
        Just(Tier::Interactive),
        Just(Tier::LatCritical)
    ]
}

fn any_sightings() -> impl Strategy<Value = Vec<Sighting>> {
    let sighting = (any_tier(), any::<u64>(), any::<u64>());
    let sighting = sighting.prop_map(|(tier, avg_runtime_ns, score)| Sighting {
        tier,
        avg_runtime_ns,
        score,
    });
    vec(sighting, 1..9)
}

proptest! {
    #[test]
    fn a_changed_byte_is_found(at in 0_usize..2000, bits in 1_u8..) {
        let mut bytes = file::encode(&memory(10)).unwrap();
        let at = at % bytes.len();
        bytes[at] ^= bits;
        prop_assert!(file::decode(&bytes).is_err());
    }

    #[test]
    fn any_life_gives_a_sound_profile_that_a_file_can_hold(
        life in vec((any_sightings(), 0_u32..100_000), 1..20),
        day in any::<u32>(),
    ) {
        let mut procdb = Procdb::default();
        for (sightings, day) in &life {
            procdb.observe(key("/a", "b"), 1, sightings, *day);
        }
        let profile = &procdb.entries[&key("/a", "b")].profile;
        prop_assert!(profile.is_sound());
        prop_assert!(profile.confidence(day) <= ONE);
        let again = file::decode(&file::encode(&procdb).unwrap()).unwrap();
        prop_assert_eq!(again, procdb);
    }

    #[test]
    fn from_any_past_two_alike_observations_are_believed(
        life in vec(any_sightings(), 2..20),
        tier in any_tier(),
        run_ns in 1..32 * MS,
    ) {
        let mut profile = Profile::new(&life[0], DAY).unwrap();
        for sightings in &life[1..] {
            profile.observe(sightings, DAY);
        }
        for _ in 0..2 {
            profile.observe(&[seen(tier, run_ns)], DAY);
        }
        prop_assert_eq!(profile.tier, tier);
        if let Some(prediction) = profile.prediction(DAY) {
            prop_assert_eq!(prediction.tier, tier);
        }
    }

    #[test]
    fn there_are_never_too_many_entries(nr in 500_usize..1100) {
        prop_assert!(memory(nr).len() <= NR_ENTRIES_MAX);
    }
}

/// What stands in a file, and what should not.
const WORDS: &[&str] = &[
    "18446744073709551615",
    "-1",
    "1e999",
    "null",
    "{}",
    "[[[[[[[[",
    "\"\\ud800\"",
    "\"lat_critical\"",
    "\"program\":\"\"",
    "\n",
    "\0",
    "scx_pandemonium procdb 1 00000001\n",
];

/// Bytes that are read as a memory are those of a sound one.
fn digest(bytes: &[u8]) {
    if let Ok(mut procdb) = file::decode(bytes) {
        let again = file::decode(&file::encode(&procdb).unwrap()).unwrap();
        assert_eq!(again, procdb);
        assert!(procdb.len() <= NR_ENTRIES_MAX);
        procdb.age(DAY);
        assert!(procdb.predictions(DAY).count() <= procdb.len());
    }
}

/// `body` behind a header that fits it.
fn with_header(body: &[u8]) -> Vec<u8> {
    let header = format!("scx_pandemonium procdb 1 {:08x}\n", crc32fast::hash(body));
    [header.as_bytes(), body].concat()
}

proptest! {
    #![proptest_config(fuzz::config(2000))]

    #[test]
    fn fuzz_a_file_of_anything(bytes in vec(any::<u8>(), 0..200)) {
        digest(&bytes);
        digest(&with_header(&bytes));
    }

    #[test]
    fn fuzz_a_damaged_file(damages in fuzz::damages()) {
        static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| file::encode(&memory(3)).unwrap());
        let bytes = fuzz::damaged(&GOOD, WORDS, &damages);
        prop_assert!(bytes == *GOOD || file::decode(&bytes).is_err());
        let body = GOOD.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        digest(&with_header(&fuzz::damaged(&GOOD[body..], WORDS, &damages)));
    }
}

#[test]
fn the_usual_file_is_of_the_service_the_user_or_the_machine() {
    let path = |variables: &[(&str, &str)]| {
        let path = file::path_by(|name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| value.into())
        });
        path.to_string_lossy().into_owned()
    };
    let machine = "/var/cache/pandemonium/procdb";
    for (variables, expected) in [
        (&[][..], machine),
        (
            &[("HOME", "/home/one")],
            "/home/one/.cache/pandemonium/procdb",
        ),
        (
            &[("HOME", "/home/one"), ("XDG_CACHE_HOME", "/tmp/cache")],
            "/tmp/cache/pandemonium/procdb",
        ),
        (
            &[("HOME", "/home/one"), ("XDG_CACHE_HOME", "/")],
            "/home/one/.cache/pandemonium/procdb",
        ),
        (
            &[("HOME", "/home/one"), ("CACHE_DIRECTORY", "/var/x:/var/y")],
            "/var/x/procdb",
        ),
        (&[("HOME", "/")], machine),
        (&[("HOME", "")], machine),
        (&[("HOME", "home/one")], machine),
        (&[("HOME", "/"), ("XDG_CACHE_HOME", "/.")], machine),
    ] {
        assert_eq!(path(variables), expected, "{variables:?}");
    }
}
