//! What rules say of processes, and what becomes of files that are damaged.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use proptest::prelude::*;
use std::time::{Duration, Instant};
use tempfile::{TempDir, tempdir};

use super::files::Kind;
use super::watch::Watch;
use super::*;
use crate::fuzz;
use crate::hint::{Source, Tier};

/// A file that says something of `good` and of nothing else.
const GOOD: &str = "[[rule]]\nname = \"good\"\nleast_tier = \"interactive\"\n";

/// Rules of each kind, as the properties begin with.
const OURS: &str = "\
# of ours
[[rule]]
name = [\"game.exe\", \"launcher*\"]
path = \"/opt/games/*\"
cgroup = \"/user.slice\"
user = [0, \"root\"]
nice = \"-5..19\"
least_tier = \"interactive\"
greatest_tier = \"lat_critical\"
weight_pct = 200
";
const ANANICYS: &str = "\
# of ananicy's
{ \"type\": \"Indexer\", \"nice\": 12, \"sched\": \"idle\" }
{ \"name\": \"a-rather-long-name-of-a-game.exe\", \"type\": \"Game\" }
{ \"name\": \"backup\", \"type\": \"BG_CPUIO\", \"ionice\": 7 }
";

/// Directories with files, in the order in which they win.
struct Dirs(Vec<TempDir>);

impl Dirs {
    fn new(dirs: &[&[(&str, &str)]]) -> Dirs {
        let make = |files: &&[(&str, &str)]| {
            let dir = tempdir().unwrap();
            for (name, text) in *files {
                let path = dir.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            dir
        };
        Dirs(dirs.iter().map(make).collect())
    }

    fn first(&self) -> &Path {
        self.0[0].path()
    }

    fn read(&self) -> (Rules, Vec<Problem>) {
        let dirs: Vec<Dir> = self.0.iter().map(|dir| foreign(dir.path())).collect();
        Rules::read(&dirs)
    }

    /// Read what has no problems.
    fn rules(&self) -> Rules {
        let (rules, problems) = self.read();
        assert_eq!(problems, []);
        rules
    }
}

/// A directory that is no user's.
fn foreign(path: impl Into<PathBuf>) -> Dir {
    Dir {
        path: path.into(),
        is_own: false,
        home: None,
    }
}

/// A process whose names are all `name`.
fn program(name: &str) -> Facts {
    Facts {
        argv0: Some(name.to_owned()),
        exe: Some(format!("/usr/bin/{name}")),
        comm: name.chars().take(15).collect(),
        cgroup: Some("/".to_owned()),
        uid: 1000,
        nice: 0,
    }
}

fn at_least(tier: Tier) -> Hint {
    Hint {
        least_tier: Some(tier),
        ..Hint::default()
    }
}

fn at_most(tier: Tier) -> Hint {
    Hint {
        greatest_tier: Some(tier),
        ..Hint::default()
    }
}

/// What one file of ours says of a process.
fn said(text: &str, facts: &Facts) -> Hint {
    Dirs::new(&[&[("one.toml", text)]]).rules().hint(facts)
}

#[test]
fn each_condition_of_a_rule_must_hold() {
    let facts = Facts {
        cgroup: Some("/user.slice/app.scope".to_owned()),
        nice: 3,
        ..program("game")
    };
    for (condition, other) in [
        ("name = \"game\"", "name = \"gam\""),
        ("name = \"ga*\"", "name = \"gx*\""),
        ("name = [\"x\", \"game\"]", "name = [\"x\", \"y\"]"),
        ("path = \"/usr/bin/game\"", "path = \"/usr/bin/gam\""),
        ("path = \"/usr/*\"", "path = \"/opt/*\""),
        ("cgroup = \"/user.slice\"", "cgroup = \"/user\""),
        (
            "cgroup = \"/user.slice/app.scope/\"",
            "cgroup = \"/app.scope\"",
        ),
        ("user = 1000", "user = \"root\""),
        ("user = [\"root\", 1000]", "user = [0, 1]"),
        ("nice = 3", "nice = 4"),
        ("nice = \"0..3\"", "nice = \"4..19\""),
    ] {
        let says = "greatest_tier = \"batch\"\n";
        let rule = |conditions: &str| format!("[[rule]]\n{conditions}\n{says}");
        assert_eq!(
            said(&rule(condition), &facts),
            at_most(Tier::Batch),
            "{condition}"
        );
        assert_eq!(said(&rule(other), &facts), Hint::default(), "{other}");
        if !condition.starts_with("nice") {
            let both = format!("{condition}\nnice = -20");
            assert_eq!(said(&rule(&both), &facts), Hint::default(), "{both}");
        }
    }
}

#[test]
fn a_process_of_which_little_is_known_matches_little() {
    let text = "\
[[rule]]
path = \"/usr/*\"
weight_pct = 50
[[rule]]
cgroup = \"/user.slice\"
weight_pct = 60
";
    assert_eq!(said(text, &Facts::default()), Hint::default());
}

#[test]
fn a_later_rule_takes_a_confinement_back() {
    let text = "\
[[rule]]
cgroup = \"/background.slice\"
confine = true
[[rule]]
name = \"urgent\"
confine = false
";
    let facts = |name: &str| Facts {
        cgroup: Some("/background.slice/a".to_owned()),
        ..program(name)
    };
    let hint = said(text, &facts("indexer"));
    assert_eq!(hint.confine, Some(true));
    assert_eq!(hint.to_string(), "confined to few CPUs");
    assert_eq!(hint.to_bpf(Source::Rule).is_confined, 1);
    let hint = said(text, &facts("urgent"));
    assert_eq!(hint.to_string(), "on any CPU");
    assert_eq!(hint.to_bpf(Source::Rule).is_confined, 0);
    assert_eq!(said(text, &program("indexer")), Hint::default());
}

#[test]
fn what_is_said_later_wins() {
    let rule = |pct: u32| format!("[[rule]]\nname = \"game\"\nweight_pct = {pct}\n");
    let (of_distribution, of_machine) = (rule(20), rule(30));
    let twice = rule(40) + &rule(50);
    let dirs = Dirs::new(&[
        &[("50-a.toml", &twice), ("60-b.toml", "")],
        &[("00-c.toml", &of_distribution)],
        &[("10.toml", &of_distribution), ("20.toml", &of_machine)],
    ]);
    let rules = dirs.rules();
    assert_eq!(rules.hint(&program("game")).weight_pct, Some(30));
    let places: Vec<String> = rules
        .matches(&program("game"))
        .into_iter()
        .map(|found| found.place.rsplit('/').next().unwrap().to_owned())
        .collect();
    let expected = [
        "50-a.toml:1",
        "50-a.toml:4",
        "00-c.toml:1",
        "10.toml:1",
        "20.toml:1",
    ];
    assert_eq!(places, expected);
}

#[test]
fn our_rules_win_over_those_of_ananicy_wherever_they_stand() {
    let dirs = Dirs::new(&[
        &[(
            "a.toml",
            "[[rule]]\nname = \"game\"\ngreatest_tier = \"batch\"\n",
        )],
        &[("b.rules", "{\"name\": \"game\", \"type\": \"Game\"}")],
    ]);
    let hint = dirs.rules().hint(&program("game"));
    assert_eq!(hint.greatest_tier, Some(Tier::Batch));
    assert_eq!(hint.least_tier, Some(Tier::Batch));
}

#[test]
fn types_of_ananicy_say_what_a_program_is() {
    let rules = "\
{ \"name\": \"game\", \"type\": \"Game\" }
{ \"name\": \"synth\", \"type\": \"LowLatency_RT\" }
{ \"name\": \"backup\", \"type\": \"BG_CPUIO\" }
{ \"name\": \"encoder\", \"type\": \"Heavy_CPU\" }
{ \"name\": \"daemon\", \"type\": \"Service\", \"nice\": 11 }
{ \"name\": \"chat\", \"type\": \"Chat\" }
{ \"name\": \"indexer\", \"type\": \"Indexer\" }
{ \"name\": \"watcher\", \"type\": \"Indexer\", \"sched\": \"batch\" }
{ \"name\": \"nothing\" }
{ \"name\": \"niced\", \"nice\": 5 }
{ \"name\": \"idler\", \"sched\": \"idle\" }
";
    let types = "{ \"type\": \"Chat\", \"nice\": -3 }\n{ \"type\": \"Indexer\", \"nice\": 12 }\n";
    // The definitions come last: by then the rules have been read.
    let dirs = Dirs::new(&[&[("sub/a b/x.rules", rules), ("zz.types", types)]]);
    let rules = dirs.rules();
    for (name, hint) in [
        ("game", at_least(Tier::Interactive)),
        ("synth", at_least(Tier::LatCritical)),
        ("backup", at_most(Tier::Batch)),
        ("encoder", at_most(Tier::Batch)),
        ("daemon", Hint::default()),
        ("chat", Hint::default()),
        ("indexer", Hint::default()),
        ("watcher", at_most(Tier::Batch)),
        ("nothing", Hint::default()),
        ("niced", Hint::default()),
        ("idler", at_most(Tier::Batch)),
        ("stranger", Hint::default()),
    ] {
        assert_eq!(rules.hint(&program(name)), hint, "{name}");
    }
}

/// Such a class goes before all normal work, whatever else a rule says.
#[test]
fn a_program_of_a_real_time_class_is_no_background_work_of_ananicy() {
    let rules = Dirs::new(&[&[(
        "x.rules",
        "\
{ \"type\": \"BG_Sound\", \"nice\": 10, \"sched\": \"rr\" }
{ \"type\": \"Heavy_CPU\", \"nice\": 9 }
{ \"name\": \"wineserver\", \"nice\": 19, \"sched\": \"fifo\" }
{ \"name\": \"mixer\", \"nice\": 1, \"sched\": \"rr\" }
{ \"name\": \"encoder\", \"type\": \"Heavy_CPU\", \"sched\": \"fifo\" }
{ \"name\": \"player\", \"type\": \"BG_Sound\" }
{ \"name\": \"indexer\", \"type\": \"BG_Sound\", \"sched\": \"idle\" }
",
    )]])
    .rules();
    for name in ["wineserver", "mixer", "encoder", "player"] {
        assert_eq!(rules.hint(&program(name)), Hint::default(), "{name}");
    }
    assert_eq!(rules.hint(&program("indexer")), at_most(Tier::Batch));
}

/// Rules as a distribution installs them, and what they say of programs.
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules/testdata/ananicy.d");

/// A nice level and types of what needs little CPU time say nothing. A scheduling
/// class does, and types of what needs much, unless the same rule contradicts.
#[test]
fn rules_of_a_distribution_cap_what_they_say_is_background() {
    let (rules, problems) = Rules::read(&[foreign(INSTALLED)]);
    assert_eq!(problems, []);
    for (name, hint) in [
        ("dbus-broker", Hint::default()),
        ("dbus-daemon", Hint::default()),
        ("xdg-desktop-portal", Hint::default()),
        ("waybar", Hint::default()),
        ("steam", Hint::default()),
        ("heroic", Hint::default()),
        ("folding", Hint::default()),
        ("transcoder", Hint::default()),
        ("recorder", Hint::default()),
        ("mixer", Hint::default()),
        ("AppRun", Hint::default()),
        ("sddm", at_most(Tier::Batch)),
        ("sshd", at_most(Tier::Batch)),
        ("updatedb", at_most(Tier::Batch)),
        ("scrubber", at_most(Tier::Batch)),
        ("explorer.exe", at_most(Tier::Batch)),
        ("qemu-system-x86_64", at_most(Tier::Batch)),
        ("wineserver", at_least(Tier::LatCritical)),
        ("Puzzle-Win64-Shipping.exe", at_least(Tier::Interactive)),
    ] {
        assert_eq!(rules.hint(&program(name)), hint, "{name}");
    }
}

/// What `rules explain` says last of a shell that is called `name`, and whose main
/// thread has the name of `program`.
fn explained(name: &str, program: &str) -> String {
    let dir = tempdir().unwrap();
    let path = dir.path().join(program);
    symlink("/bin/sh", &path).unwrap();
    let mut shell = Command::new(path)
        .arg0(name)
        .args(["-c", "read line"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = i32::try_from(shell.id()).unwrap();
    // In the middle of an exec there is no command line.
    while Facts::read(pid).unwrap().argv0.is_none() {
        thread::yield_now();
    }
    let opts = RulesOpts {
        dirs: vec![PathBuf::from(INSTALLED)],
        no_rules: true,
    };
    let text = command::explain(pid, &opts).unwrap();
    drop(shell.stdin.take());
    shell.wait().unwrap();
    text.lines().last().unwrap().to_owned()
}

#[test]
fn explain_says_what_the_rules_of_a_distribution_say_together() {
    for name in [
        "dbus-broker",
        "/usr/bin/dbus-daemon",
        "/usr/lib/xdg-desktop-portal",
        "waybar",
        "/home/anna/.local/share/Steam/ubuntu12_32/steam",
        "/opt/heroic/heroic",
    ] {
        assert_eq!(explained(name, "sh"), "together: nothing", "{name}");
    }
    for name in [
        "/usr/bin/sddm",
        "sshd",
        "qemu-system-x86_64",
        "C:\\windows\\system32\\explorer.exe",
    ] {
        assert_eq!(explained(name, "sh"), "together: at most batch", "{name}");
    }
    // Each AppImage has a program of the same name in it.
    let name = "/home/anna/Puzzle.AppImage";
    assert_eq!(explained(name, "AppRun"), "no rule matches");
}

#[test]
fn ananicy_takes_the_name_that_says_most() {
    let rules = Dirs::new(&[&[(
        "x.rules",
        "\
{ \"name\": \"a-rather-long-name-of-a-game.exe\", \"type\": \"Game\" }
{ \"name\": \"wine64-preloader\", \"type\": \"BG_CPUIO\" }
{ \"name\": \"main\", \"type\": \"BG_CPU\" }
",
    )]])
    .rules();
    let mut facts = Facts {
        argv0: Some("a-rather-long-name-of-a-game.exe".to_owned()),
        exe: Some("/usr/lib/wine/wine64-preloader".to_owned()),
        comm: "a-rather-long-n".to_owned(),
        ..program("main")
    };
    assert_eq!(rules.hint(&facts), at_least(Tier::Interactive));
    facts.argv0 = Some("other.exe".to_owned());
    assert_eq!(rules.hint(&facts), at_most(Tier::Batch));
    facts.exe = None;
    assert_eq!(rules.hint(&facts), Hint::default());
    facts.comm = "main".to_owned();
    assert_eq!(rules.hint(&facts), at_most(Tier::Batch));
}

#[test]
fn the_name_is_behind_the_last_separator_of_either_kind() {
    for (path, name) in [
        (
            "Z:\\home\\me\\The Game\\Game-Win64-Shipping.exe",
            Some("Game-Win64-Shipping.exe"),
        ),
        ("/opt/game/run.sh", Some("run.sh")),
        ("C:/games/x.exe", Some("x.exe")),
        ("plain", Some("plain")),
        ("/opt/", None),
        ("", None),
    ] {
        assert_eq!(basename(path), name, "{path}");
    }
}

#[test]
fn what_follows_a_rule_of_ananicy_does_not_count_but_the_last_rule_of_a_name_does() {
    let text = "\u{feff}\
{ \"name\": \"a}b\", \"type\": \"Game\" }+
  { \"name\": \"two\", \"type\": \"BG_CPU\" } # a remark
{ \"name\": \"two\", \"type\": \"Game\" }# and more
";
    let rules = Dirs::new(&[&[("x.rules", text)]]).rules();
    assert_eq!(rules.hint(&program("a}b")), at_least(Tier::Interactive));
    assert_eq!(rules.hint(&program("two")), at_least(Tier::Interactive));
}

/// The problems of a file, each with its line.
fn problems_of(name: &str, text: &str) -> Vec<String> {
    let dirs = Dirs::new(&[&[(name, text), ("zz-good.toml", GOOD)]]);
    let (rules, problems) = dirs.read();
    assert_eq!(
        rules.hint(&program("good")),
        at_least(Tier::Interactive),
        "{text}"
    );
    let path = format!("{}/", dirs.first().display());
    let texts = problems
        .iter()
        .map(|problem| problem.to_string().replace(&path, ""));
    texts.collect()
}

#[test]
fn a_wrong_rule_is_reported_with_its_line_and_costs_no_other() {
    let says = "weight_pct = 50";
    for (rule, complaint) in [
        (
            "name = \"x\"\nweight_percent = 5",
            "x.toml:6: unknown field `weight_percent`, expected",
        ),
        (
            "name = \"x\"\nweight_pct = 5",
            "x.toml:6: must be from 10 to 1000",
        ),
        (
            "name = \"x\"\nweight_pct = 99999999999",
            "x.toml:6: must be from 10 to 1000",
        ),
        (
            "name = \"x\"\nweight_pct = \"much\"",
            "x.toml:6: invalid type",
        ),
        (
            "name = \"x\"\nleast_tier = \"best\"",
            "x.toml:6: unknown variant `best`, expected",
        ),
        (
            "name = \"x\"\nleast_tier = \"interactive\"\ngreatest_tier = \"batch\"",
            "x.toml:4: least_tier is above greatest_tier",
        ),
        ("name = \"x\"", "x.toml:4: says nothing"),
        (says, "x.toml:4: matches every program"),
        ("name = \"\"\nweight_pct = 50", "x.toml:5: is empty"),
        (
            "name = \"*\"\nweight_pct = 50",
            "x.toml:5: would match everything",
        ),
        ("name = \"a*b\"\nweight_pct = 50", "x.toml:5: a * may only"),
        (
            "name = \"\\u0007\"\nweight_pct = 50",
            "x.toml:5: contains a control",
        ),
        ("name = []\nweight_pct = 50", "x.toml:5: the list is empty"),
        (
            "name = 5\nweight_pct = 50",
            "x.toml:5: invalid type: integer",
        ),
        (
            "path = { a = 1 }\nweight_pct = 50",
            "x.toml:5: invalid type: map",
        ),
        (
            "cgroup = \"user.slice\"\nweight_pct = 50",
            "x.toml:5: must begin with /",
        ),
        (
            "cgroup = \"/\"\nweight_pct = 50",
            "x.toml:5: must begin with /",
        ),
        (
            "cgroup = \"/a/*\"\nweight_pct = 50",
            "x.toml:5: no * is needed",
        ),
        (
            "user = \"no such user\"\nweight_pct = 50",
            "x.toml:5: there is no user no such",
        ),
        (
            "user = -1\nweight_pct = 50",
            "x.toml:5: must be the name or the id",
        ),
        (
            "nice = 20\nweight_pct = 50",
            "x.toml:5: must be a nice level",
        ),
        (
            "nice = \"9..2\"\nweight_pct = 50",
            "x.toml:5: must be a nice level",
        ),
        (
            "nice = true\nweight_pct = 50",
            "x.toml:5: must be a nice level",
        ),
    ] {
        let text = format!("{GOOD}[[rule]]\n{rule}\n[[rule]]\nname = \"after\"\n{says}\n");
        let problems = problems_of("x.toml", &text);
        assert_eq!(problems.len(), 1, "{rule}: {problems:?}");
        assert!(problems[0].starts_with(complaint), "{rule}: {problems:?}");
        let dirs = Dirs::new(&[&[("x.toml", &text)]]);
        let (rules, _) = dirs.read();
        assert_eq!(rules.hint(&program("after")).weight_pct, Some(50), "{rule}");
        assert_eq!(rules.hint(&program("good")), at_least(Tier::Interactive));
    }
    for (text, complaint) in [
        ("rules = 1\n", "x.toml:1: rules: a file has [[rule]] only"),
        ("\nrule = 1\n", "x.toml:2: rule: a file has"),
        ("rule = [1]\n", "x.toml:1: a rule is a table"),
        ("[[rule]\n", "x.toml:1: is no TOML"),
        (
            "[[rule]]\nname = \"x\"\nname = \"y\"\n",
            "x.toml:3: is no TOML: duplicate key",
        ),
    ] {
        let problems = problems_of("x.toml", text);
        assert!(problems[0].starts_with(complaint), "{text}: {problems:?}");
    }
    for (line, complaint) in [
        ("{ \"name\": 5 }", "x.rules:2: invalid type"),
        ("{ \"name\": \"x\", \"nice\": 99 }", "x.rules:2: nice is 99"),
        (
            "{ \"name\": \"x\", \"nice\": 1e400 }",
            "x.rules:2: number out of range",
        ),
        ("{ \"name\": \"\" }", "x.rules:2: the name is empty"),
        ("{ \"nice\": 5 }", "x.rules:2: names neither"),
        (
            "{ \"name\": \"x\", \"cmdlines\": [\"y\"] }",
            "x.rules:2: cmdlines",
        ),
        ("{ \"name\": \"x\" ", "x.rules:2: EOF"),
        ("[ \"x\" ]", "x.rules:2: is not a rule"),
        ("name = x", "x.rules:2: is not a rule"),
    ] {
        let text = format!("{{ \"cgroup\": \"cpu90\", \"CPUQuota\": 90 }}\n{line}\n{ANANICYS}");
        let problems = problems_of("x.rules", &text);
        assert_eq!(problems.len(), 1, "{line}: {problems:?}");
        assert!(problems[0].starts_with(complaint), "{line}: {problems:?}");
        let dirs = Dirs::new(&[&[("x.rules", &text)]]);
        assert_eq!(dirs.read().0.hint(&program("backup")), at_most(Tier::Batch));
    }
}

/// Each kind of pattern that can never match is named with what to write instead, and
/// the rule counts all the same: another of its patterns may match.
#[test]
fn a_pattern_that_never_matches_is_named_with_what_to_write_instead() {
    let long = "x".repeat(256);
    let dir = tempdir().unwrap();
    let at = |name: &str| format!("{}/{name}", dir.path().display());
    fs::write(at("program"), "\x7fELF").unwrap();
    fs::write(at("a-rather-long-script"), "#!/bin/sh\n").unwrap();
    fs::create_dir(at("games")).unwrap();
    symlink("program", at("link")).unwrap();
    symlink("games", at("linked")).unwrap();
    let cases = [
        // Names.
        (
            "name = '/usr/bin/x'".to_owned(),
            "write name = \"x\" or path = \"/usr/bin/x\"".to_owned(),
        ),
        ("name = '/opt/*'".into(), "write path = \"/opt/*\"".into()),
        ("name = '~/games/x'".into(), "write name = \"x\"".into()),
        ("name = './x'".into(), "write name = \"x\"".into()),
        (
            "name = 'C:\\Games\\x.exe'".into(),
            "write name = \"x.exe\"".into(),
        ),
        ("name = 'C:/Games/x*'".into(), "write name = \"x*\"".into()),
        (
            "name = 'C:\\Games\\*'".into(),
            "write the names of the programs there".into(),
        ),
        (
            "name = 'share/games/of-mine/x'".into(),
            "write name = \"x\"".into(),
        ),
        ("name = 'x '".into(), "write name = \"x\"".into()),
        ("name = ' x*'".into(), "write name = \"x*\"".into()),
        (format!("name = '{long}'"), "more than 255 bytes".into()),
        // Paths.
        ("path = '~/games/x'".into(), "write the whole path".into()),
        (
            "path = '~anna/games/x'".into(),
            "write the whole path".into(),
        ),
        ("path = 'games/x'".into(), "write the whole path".into()),
        ("path = '$HOME/x'".into(), "write the whole path".into()),
        (
            "path = 'C:\\Games\\x.exe'".into(),
            "write name = \"x.exe\"".into(),
        ),
        ("path = '/opt/x '".into(), "write path = \"/opt/x\"".into()),
        (
            "path = '/opt/y/'".into(),
            "write path = \"/opt/y/*\"".into(),
        ),
        (
            "path = '/opt//a/../x'".into(),
            "write path = \"/opt/x\"".into(),
        ),
        (
            "path = '/opt/./no/*'".into(),
            "write path = \"/opt/no/*\"".into(),
        ),
        (
            format!("path = '{}'", at("link")),
            format!("write path = \"{}\"", at("program")),
        ),
        (
            format!("path = '{}'", at("linked/*")),
            format!("write path = \"{}\"", at("games/*")),
        ),
        (
            format!("path = '{}'", at("games")),
            format!("write path = \"{}\"", at("games/*")),
        ),
        (
            format!("path = '{}'", at("a-rather-long-script")),
            "write name = \"a-rather-long-s\"".into(),
        ),
        // Cgroups.
        (
            "cgroup = '/sys/fs/cgroup/user.slice'".into(),
            "write cgroup = \"/user.slice\"".into(),
        ),
        (
            "cgroup = '/user.slice '".into(),
            "write cgroup = \"/user.slice\"".into(),
        ),
        ("cgroup = '/a/../b'".into(), "write cgroup = \"/b\"".into()),
    ];
    for (condition, advice) in cases {
        let text = format!("[[rule]]\nweight_pct = 50\n{condition}\n");
        let problems = problems_of("x.toml", &text);
        assert_eq!(problems.len(), 1, "{condition}: {problems:?}");
        assert!(problems[0].starts_with("x.toml:3: "), "{problems:?}");
        assert!(
            problems[0].contains(" never matches: ") && problems[0].ends_with(&advice),
            "{condition}: {problems:?}"
        );
    }
    for condition in [
        "name = 'kworker/*'",
        "name = 'postgres: *'",
        "name = 'Web Content'",
        "path = '/o*'",
        "path = '/opt/games/.*'",
        "path = '/no/such/file'",
        "cgroup = '/user.slice/'",
    ] {
        let text = format!("[[rule]]\n{condition}\nweight_pct = 50\n");
        assert_eq!(problems_of("x.toml", &text), Vec::<String>::new());
    }
    let text = "[[rule]]\nname = ['/usr/bin/x', 'game']\nweight_pct = 50\n";
    assert_eq!(problems_of("x.toml", text).len(), 1);
    let (rules, _) = Dirs::new(&[&[("x.toml", text)]]).read();
    assert_eq!(rules.hint(&program("game")).weight_pct, Some(50));
}

/// A rule of the user's own that names a program goes before its nice level. One of
/// the distribution, of ananicy, or of all that a user runs does not.
#[test]
fn only_an_own_rule_that_names_a_program_goes_before_its_nice_level() {
    let rules: String = [
        ("name = 'game'", "interactive"),
        ("user = 7", "interactive"),
        ("path = '/usr/bin/other'", "interactive"),
        ("name = 'idler'", "batch"),
    ]
    .map(|(condition, tier)| format!("[[rule]]\n{condition}\nleast_tier = '{tier}'\n"))
    .concat();
    let dirs = Dirs::new(&[&[
        ("x.toml", &rules),
        ("y.rules", "{\"name\": \"theirs\", \"type\": \"Game\"}"),
    ]]);
    let read = |is_own| {
        let dir = Dir {
            is_own,
            ..foreign(dirs.first())
        };
        Rules::read(&[dir]).0
    };
    let of_user = Facts {
        uid: 7,
        ..program("tool")
    };
    for (facts, is_explicit) in [
        (program("game"), true),
        (program("other"), true),
        (program("idler"), false),
        (program("theirs"), false),
        (of_user, false),
    ] {
        let hint = read(true).hint(&facts);
        assert!(hint.least_tier.is_some(), "{facts}");
        assert_eq!(hint.ignores_nice, is_explicit, "{facts}");
        assert!(!read(false).hint(&facts).ignores_nice, "{facts}");
    }
    let usual: Vec<bool> = files::usual_directories()
        .iter()
        .map(|dir| dir.is_own)
        .collect();
    assert_eq!(usual[..3], [false, false, true]);
}

#[test]
fn a_tilde_is_the_home_of_the_user_whose_rules_these_are() {
    let dirs = Dirs::new(&[&[(
        "x.toml",
        "[[rule]]\npath = ['~/games/*', '~/x']\nweight_pct = 50\n",
    )]]);
    let own = Dir {
        home: Some(PathBuf::from("/home/anna")),
        ..foreign(dirs.first())
    };
    let (rules, problems) = Rules::read(&[own]);
    assert_eq!(problems, []);
    for (exe, pct) in [
        ("/home/anna/games/y", Some(50)),
        ("/home/anna/x", Some(50)),
        ("/home/bert/x", None),
    ] {
        let facts = Facts {
            exe: Some(exe.to_owned()),
            ..program("game")
        };
        assert_eq!(rules.hint(&facts).weight_pct, pct, "{exe}");
    }
    // Those of the machine are nobody's.
    let usual = files::usual_directories();
    assert!(usual[..3].iter().all(|dir| dir.home.is_none()));
}

/// Put one thing that is no file with rules beside a good file. Each costs one
/// warning and nothing else.
#[test]
fn what_is_damaged_costs_one_warning_and_nothing_else() {
    let ten_mb = "x".repeat(10 << 20);
    let one_line = format!("{{ \"name\": \"{}\" }}\n", "x".repeat(3 << 20));
    let deep = format!("rule = {}", "[".repeat(100_000));
    let deep_json = format!("{{ \"name\": {}", "[".repeat(100_000));
    let cut = &OURS[..OURS.len() - 20];
    let texts: [(&str, &[u8], usize); 13] = [
        ("empty.toml", b"", 0),
        ("empty.rules", b"", 0),
        ("README", b"\xff\xfe", 0),
        ("ananicy.conf", b"check_freq = 15", 0),
        ("cut.toml", cut.as_bytes(), 1),
        ("cut.rules", &ANANICYS.as_bytes()[..ANANICYS.len() - 30], 1),
        ("foreign.toml", b"\x7fELF\x02\x01\x01\0\0\0\xff\xfe", 1),
        ("foreign.rules", b"\x7fELF\x02\x01\x01\0\0\0\xff\xfe", 1),
        ("huge.toml", ten_mb.as_bytes(), 1),
        ("huge.rules", ten_mb.as_bytes(), 1),
        ("deep.toml", deep.as_bytes(), 1),
        ("deep.rules", deep_json.as_bytes(), 1),
        ("long.rules", one_line.as_bytes(), 0),
    ];
    type Make<'a> = Box<dyn Fn(&Path) + 'a>;
    let mut cases: Vec<(&str, Make<'_>, usize)> = Vec::new();
    for (name, bytes, nr) in texts {
        cases.push((
            name,
            Box::new(move |dir| fs::write(dir.join(name), bytes).unwrap()),
            nr,
        ));
    }
    let link = |name: &'static str, target: &'static str| -> Make<'static> {
        Box::new(move |dir| symlink(target, dir.join(name)).unwrap())
    };
    cases.push(("good link", link("link.toml", "good.toml"), 0));
    cases.push(("dangling link", link("link.toml", "nothing"), 1));
    cases.push(("link to itself", link("link.toml", "link.toml"), 1));
    cases.push(("link above", link("link.rules", ".."), 1));
    cases.push(("loop", link("loop", "."), 1));
    cases.push(("device", link("zero.rules", "/dev/zero"), 1));
    let directory = |dir: &Path| {
        fs::create_dir(dir.join("dir.toml")).unwrap();
        fs::write(dir.join("dir.toml/bad.toml"), "bad").unwrap();
    };
    cases.push(("directory", Box::new(directory), 1));
    // Root reads it, and finds no rule.
    cases.push(("a file of root's", link("link.rules", "/etc/shadow"), 1));
    let unreadable = |dir: &Path| {
        let path = dir.join("unreadable.toml");
        fs::write(&path, "[[rule]]\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    };
    cases.push(("unreadable", Box::new(unreadable), 1));
    for (what, make, nr_warnings) in cases {
        let dirs = Dirs::new(&[&[("good.toml", GOOD)], &[("other.rules", ANANICYS)]]);
        make(dirs.first());
        let (rules, problems) = dirs.read();
        assert_eq!(
            by_file(&problems).len(),
            nr_warnings,
            "{what}: {problems:?}"
        );
        assert_eq!(
            rules.hint(&program("good")),
            at_least(Tier::Interactive),
            "{what}"
        );
        assert_eq!(
            rules.hint(&program("backup")),
            at_most(Tier::Batch),
            "{what}"
        );
        for problem in problems {
            assert!(problem.to_string().len() < 500, "{what}: {problem}");
        }
    }
}

/// Each problem has a line of its own in the file, and the list of them an end.
#[test]
fn of_very_many_problems_the_first_are_told_with_their_lines() {
    let nr = 50_000;
    let ours = "[[rule]]\n".repeat(nr) + GOOD;
    let ananicys = "{\n".repeat(nr) + ANANICYS;
    let dirs = Dirs::new(&[&[("a.toml", &ours), ("b.rules", &ananicys)]]);
    let (rules, problems) = dirs.read();
    assert_eq!(rules.hint(&program("good")), at_least(Tier::Interactive));
    assert_eq!(rules.hint(&program("backup")), at_most(Tier::Batch));
    let groups = by_file(&problems);
    assert_eq!(groups.len(), 2);
    for ((first, nr_more), from) in groups.iter().zip([0, NR_PROBLEMS_MAX + 1]) {
        assert_eq!((first.line, *nr_more), (Some(1), NR_PROBLEMS_MAX));
        assert_eq!(problems[from + 41].line, Some(42));
    }
    let good = rules.matches(&program("good"));
    assert!(good[0].place.ends_with(&format!(":{}", nr + 1)));
}

#[test]
fn a_missing_directory_has_no_rules_and_one_that_was_asked_for_must_exist() {
    let missing = PathBuf::from("/no/such/directory");
    let (rules, problems) = Rules::read(&[foreign(missing.as_path())]);
    assert!(rules.is_empty() && problems.is_empty());
    let mut opts = RulesOpts {
        dirs: Vec::new(),
        no_rules: true,
    };
    assert_eq!(opts.directories().unwrap(), []);
    opts.dirs.push(missing);
    assert!(load(&opts).is_err());
}

/// This process is known by a rule; it is looked at twice after each report. One
/// that is gone is not.
#[test]
fn a_process_is_looked_at_when_it_is_reported_and_again_a_second_later() {
    let ours = i32::try_from(std::process::id()).unwrap();
    let uid = nix::unistd::Uid::effective();
    let text = format!("[[rule]]\nuser = {uid}\nleast_tier = \"interactive\"\n");
    let gone = i32::MAX;
    let rules = Dirs::new(&[&[("x.toml", &text)]]).rules();
    let mut watch = Watch::new(&rules);
    let start = Instant::now();
    let after = |ms| start + Duration::from_millis(ms);
    let known = vec![(ours, at_least(Tier::Interactive))];
    assert!(watch.all(start).contains(&known[0]));
    assert_eq!(watch.again(after(5000)), []);
    assert_eq!(watch.started(&[ours, gone, ours], after(6000)), known);
    assert_eq!(watch.again(after(6999)), []);
    assert_eq!(watch.again(after(7000)), known);
    assert_eq!(watch.again(after(9000)), []);
    // Reports were lost: all are looked at, but not more than once a second.
    watch.lost_some(after(10_000));
    assert!(watch.again(after(10_000)).contains(&known[0]));
    watch.lost_some(after(10_300));
    watch.lost_some(after(10_900));
    assert_eq!(watch.again(after(10_999)), []);
    assert!(watch.again(after(11_000)).contains(&known[0]));

    // Of which nothing is said is told the second time only: a rule may have
    // matched before.
    let rules = Dirs::new(&[&[("x.toml", GOOD)]]).rules();
    let mut watch = Watch::new(&rules);
    assert_eq!(watch.started(&[ours], start), []);
    assert_eq!(watch.again(after(1000)), [(ours, Hint::default())]);
}

/// Reads a text as a file of `kind` and looks for processes in what it says.
fn digest(kind: Kind, text: &str) {
    let mut rules = Rules {
        files: vec![PathBuf::from("a file")],
        ..Rules::default()
    };
    let mut nr_reports = 0;
    let mut report = |_, what: String| {
        assert!(!what.is_empty());
        nr_reports += 1;
    };
    match kind {
        Kind::Toml => {
            let home = Some(Path::new("/home/anna"));
            let origin = Origin {
                file: 0,
                is_own: true,
                home,
            };
            rules.rules = toml_file::parse(text, origin, &mut report);
        }
        Kind::Ananicy => rules.ananicy.parse(text, 0, &mut report),
    }
    rules.index();
    assert!(nr_reports <= text.len());
    for name in ["game.exe", "backup", ""] {
        let hint = rules.hint(&program(name));
        if let (Some(least), Some(greatest)) = (hint.least_tier, hint.greatest_tier) {
            assert!(least <= greatest);
        }
        if let Some(pct) = hint.weight_pct {
            assert!((10..=1000).contains(&pct));
        }
    }
}

/// What stands in rules, and what should not.
const WORDS: &[&str] = &[
    "[[rule]]\n",
    "[[[[[[[[",
    "{{{{",
    "\"",
    "\"\"\"",
    "\\u0000",
    "\n",
    "name = ",
    "weight_pct = 99999999999999999999",
    "user = -1",
    "nice = \"19..-20\"",
    "1e999",
    "nan",
    "1979-05-27T07:32:00Z",
    "null",
    "\"name\": ",
    "\"type\": \"Game\"",
    "\"nice\": -9223372036854775808",
    "\u{feff}",
    "*",
];

proptest! {
    #![proptest_config(fuzz::config(2000))]

    #[test]
    fn fuzz_rules_of_anything(text in "\\PC{0,100}") {
        digest(Kind::Toml, &text);
        digest(Kind::Ananicy, &text);
        digest(Kind::Ananicy, &format!("{{\"name\": {text}"));
        digest(Kind::Toml, &format!("[[rule]]\nname = {text}"));
    }

    #[test]
    fn fuzz_damaged_rules_of_ours(damages in fuzz::damages()) {
        let bytes = fuzz::damaged(OURS.as_bytes(), WORDS, &damages);
        digest(Kind::Toml, &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn fuzz_damaged_rules_of_ananicy(damages in fuzz::damages()) {
        let bytes = fuzz::damaged(ANANICYS.as_bytes(), WORDS, &damages);
        digest(Kind::Ananicy, &String::from_utf8_lossy(&bytes));
    }
}
