// SPDX-License-Identifier: GPL-2.0
//! Programs of a desktop, as Debian has them, beside a build of four jobs for each
//! CPU: under the kernel's default scheduler, then under ours in the same guest.
//!
//! - PipeWire plays to a sink without hardware, whose clock is a timer. Its threads
//!   have no real-time priority, as without rtkit: a real-time thread is not for a
//!   sched_ext scheduler to serve.
//! - Weston composes in memory what a client draws, which notes when each of its
//!   frames was presented. Its headless backend has no display to wait for: a frame
//!   takes a refresh of 16 ms and the time to compose it.
//! - rt-app has a game's profile: frames at 60 Hz, in each a main thread and two
//!   workers that wait for each other.

use anyhow::{Context, Result};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::told::Told;
use crate::support::world::World;

const NR_CPUS: u32 = 4;

/// The words of a script for the build that is beside each program.
const BUILD: &str = r#"
export XDG_RUNTIME_DIR=/tmp/run
mkdir -p $XDG_RUNTIME_DIR
agent project /tmp/project 64 >/dev/null || give_up "there is no project to build"

nr_forks() {
	awk '/^processes/ { print $2 }' /proc/stat
}

# start_build: build again and again.
start_build() {
	(cd /tmp/project && while make -rRsB -j$((4 * NR_CPUS)); do :; done) >/dev/null 2>&1 &
	build=$!
	usleep 300000
	nr_forks_before=$(nr_forks)
	now
	build_from_ms=$now_ms
}

# end_build NAME: tell how many compilers were started and in how many ms, and stop.
end_build() {
	now
	fact build_$1 $(($(nr_forks) - nr_forks_before)) $((now_ms - build_from_ms))
	kill $build
	wait $build 2>/dev/null
	while killall make tcc 2>/dev/null; do usleep 10000; done
}

# await WORDS: until this command succeeds, for 5 s at most.
await() {
	for try in $(seq 100); do
		"$@" >/dev/null 2>&1 && return
		usleep 50000
	done
	give_up "$* fails"
}
"#;

/// Compilers that are started in a second, so that it is a build: a third of what it
/// comes to.
const FORKS_PER_SECOND_MIN: f64 = 25.0;

/// The build under ours to that under the default scheduler. Frames that are not drawn
/// there are drawn here: the game's take 6.5% of the machine.
const BUILD_MIN: f64 = 0.85;

/// How long a program is looked at.
const SECONDS: u64 = 2;

/// Frames of a period, at 48 kHz.
const QUANTUMS: [u64; 2] = [128, 256];
const RATE: u64 = 48_000;

/// Periods that the profiler has to have seen, of those that there were: it starts
/// beside the build, and what it has not read yet when it ends is lost.
const SEEN_MIN: f64 = 0.8;

/// Late periods under the default scheduler, without which nothing is compared, and
/// how many times as few are under ours.
const DEFAULT_LATE_MIN: f64 = 0.05;
const LATE_FACTOR: f64 = 20.0;

/// The session manager's part is played by the configuration and by pw-link.
const AUDIO: &str = r#"
{
	printf 'RIFF\044\230\072\000WAVEfmt \020\000\000\000\001\000\002\000'
	printf '\200\273\000\000\000\356\002\000\004\000\020\000data\000\230\072\000'
	head -c 3840000 /dev/zero
} >/tmp/silence.wav

configure() {
	cat >/tmp/pipewire.conf <<END
context.properties = {
	core.daemon = true
	core.name = pipewire-0
	default.clock.rate = 48000
	default.clock.quantum = $1
	default.clock.min-quantum = $1
}
context.spa-libs = {
	audio.convert.* = audioconvert/libspa-audioconvert
	support.* = support/libspa-support
}
context.modules = [
	{ name = libpipewire-module-protocol-native }
	{ name = libpipewire-module-profiler }
	{ name = libpipewire-module-metadata }
	{ name = libpipewire-module-client-node }
	{ name = libpipewire-module-access }
	{ name = libpipewire-module-adapter }
	{ name = libpipewire-module-link-factory }
]
context.objects = [
	{ factory = metadata args = { metadata.name = default } }
	{ factory = adapter args = {
		factory.name = support.null-audio-sink
		node.name = sink
		media.class = Audio/Sink
		audio.position = [ FL FR ]
		node.driver = true
		priority.driver = 20000
		adapter.auto-port-config = { mode = dsp position = preserve }
	} }
]
END
}

# play NAME QUANTUM: play beside the build and tell errors and late periods.
play() {
	configure $2
	pipewire -c /tmp/pipewire.conf 2>>$LOG &
	daemon=$!
	await pw-link --output
	pw-play --target 0 --latency $2 -P "{ node.name = player
		adapter.auto-port-config = { mode = dsp position = preserve } }" \
		/tmp/silence.wav 2>>$LOG &
	player=$!
	await pw-link player:output_FL sink:playback_FL
	await pw-link player:output_FR sink:playback_FR

	start_build
	TERM=xterm timeout $SECONDS pw-top </dev/null >/tmp/top &
	top=$!
	timeout -s INT $SECONDS pw-profiler -o /tmp/profile >/dev/null
	wait $top
	end_build $1_$2

	kill $player $daemon
	wait $player $daemon
	for node in sink player; do
		fact ${node}_$1_$2 "$(tr '\033' '\n' </tmp/top | grep -a " $node" | tail -n 1)"
	done
	# In the first column is the time since the period before, in the fourth
	# what it should be. What is more than 1.3 times that is late.
	fact periods_$1_$2 $(cut -f 1-4 /tmp/profile |
		awk '{ n++ } $1 > 1.3 * $4 { late++ } END { print n + 0, late + 0 }')
}

play default 128
play default 256
begin
play ours 128
play ours 256
stop INT
"#;

/// Of PipeWire, what this takes, by its directories.
const PIPEWIRE_PLUGINS: &[&str] = &["audioconvert", "audiomixer", "support"];
const PIPEWIRE_MODULES: &[&str] = &[
    "access",
    "adapter",
    "client-device",
    "client-node",
    "link-factory",
    "metadata",
    "profiler",
    "protocol-native",
    "session-manager",
];

/// What a frame of Weston may take, beside what it takes under the default scheduler
/// if all of Weston is real-time: a quarter more and 1 ms, as in games.rs.
const LONGER: f64 = 1.25;
const LONGER_MS: f64 = 1.0;

/// When a frame of the game has to be done.
const REFRESH_MS: f64 = 16.667;

/// Late frames under the default scheduler, of all of them, without which nothing
/// is compared.
const DEFAULT_LATE_FRAMES_MIN: f64 = 0.2;

/// Late frames under ours, of all of them, beyond those of a real-time Weston, which take
/// two refreshes. Of a hundred that one has 1 to 6 and ours 1 to 4, as the phases of the
/// two runs happen to be.
const LATE_FRAMES_MORE: f64 = 0.04;

const SCREEN: &str = r#"
printf '[core]\nrepaint-window=16\n' >/tmp/weston.ini

# compose NAME [WORDS]: tell times between frames beside the build, in us. WORDS
# start what they are followed by in their own way.
compose() {
	span=$1
	shift
	rm -f /tmp/run/screen*
	"$@" weston --config=/tmp/weston.ini --backend=headless-backend.so --use-pixman \
		--width=640 --height=480 --idle-time=0 --socket=screen --log=/tmp/weston.log \
		2>>$LOG &
	server=$!
	await test -S /tmp/run/screen
	usleep 500000
	WAYLAND_DISPLAY=screen "$@" weston-presentation-shm >/tmp/feedback &
	client=$!
	usleep 300000
	start_build
	sleep $SECONDS
	kill -INT $client
	wait $client
	end_build $span
	kill $server
	wait $server
	sed -n 's/.* p2p *\([0-9]*\) us.*/\1/p' /tmp/feedback |
		awk -v span_us=$((SECONDS * 1000000)) '{ frame[NR] = $1 }
			END { for (i = NR; i > 0 && sum < span_us; i--) {
				sum += frame[i]
				print frame[i]
			} }' >/tmp/frames
	tell frames_$span /tmp/frames
}

compose limit chrt -f 1
compose default
begin
compose ours
stop INT
"#;

const GAME: &str = r#"
# An operation of rt-app takes 196 instructions, and each of four busy CPUs executes
# one in 4 ns.
cat >/tmp/game.json <<END
{
	"global": {
		"duration": $((SECONDS + 1)), "default_policy": "SCHED_OTHER",
		"calibration": 784, "lock_pages": false,
		"logdir": "/tmp", "log_basename": "game", "ftrace": false, "gnuplot": false
	},
	"tasks": {
		"main": {
			"loop": -1, "run0": 2000, "barrier0": "begun", "run1": 3000,
			"barrier1": "done", "run2": 1000,
			"timer": { "ref": "refresh", "period": 16667 }
		},
		"worker1": { "loop": -1, "barrier0": "begun", "run": 3000, "barrier1": "done" },
		"worker2": { "loop": -1, "barrier0": "begun", "run": 3000, "barrier1": "done" }
	}
}
END

# draw NAME: tell times of frames beside the build, in us. A frame takes its period
# less its slack, in columns 10 and 8; column 5 is when it began.
draw() {
	rt-app /tmp/game.json >/tmp/rt-app.log 2>&1 &
	game=$!
	usleep 300000
	start_build
	wait $game
	end_build $1
	awk -v span_us=$((SECONDS * 1000000)) '$1 ~ /^[0-9]/ { n++; at[n] = $5; frame[n] = $10 - $8 }
		END { for (i = n; i > 0 && at[i] >= at[n] - span_us; i--) print frame[i] }' \
		/tmp/game-main-0.log >/tmp/frames
	tell frames_$1 /tmp/frames
}

draw default
begin
draw ours
stop INT
"#;

/// Of Weston, what this takes. The shell is a client.
const WESTON_FILES: &[&str] = &[
    "libweston-10/headless-backend.so",
    "weston",
    "weston-desktop-shell",
    "weston-keyboard",
];

fn world(kernel: &Kernel, programs: &[&str]) -> Result<World> {
    ["make", "tcc"]
        .iter()
        .chain(programs)
        .try_fold(OURS.flat(kernel, NR_CPUS)?, |world, name| {
            world.with_program(name)
        })
}

fn with_pipewire(mut world: World) -> Result<World> {
    for name in PIPEWIRE_PLUGINS {
        world = world.with_library(&format!("spa-0.2/{name}"))?;
    }
    for name in PIPEWIRE_MODULES {
        let file = format!("pipewire-0.3/libpipewire-module-{name}.so");
        world = world.with_library(&file)?;
    }
    world
        .with_installed("/usr/share/pipewire")?
        .with_installed("/lib/terminfo/x/xterm")
}

/// Two numbers that were told of `key`.
fn pair(told: &Told, key: &str) -> Result<(f64, f64)> {
    let line: String = told.one(key)?;
    let (first, second) = line.split_once(' ').context("not two numbers")?;
    Ok((first.parse()?, second.parse()?))
}

/// Checks that the build was one, and that ours left it what it needs.
fn check_build(told: &Told, span: &str) -> Result<()> {
    let per_second = |name: &str| -> Result<f64> {
        let (nr_forks, ms) = pair(told, &format!("build_{name}{span}"))?;
        Ok(nr_forks / ms * 1000.0)
    };
    let (default, ours) = (per_second("default")?, per_second("ours")?);
    println!("compilers started in a second: default {default:.1}, ours {ours:.1}");
    told.check(default.min(ours) >= FORKS_PER_SECOND_MIN, || {
        format!("{default:.1} and {ours:.1} compilers in a second: that is no build")
    })?;
    told.check(ours >= default * BUILD_MIN, || {
        format!("{ours:.1} compilers in a second, {default:.1} under the default scheduler")
    })
}

/// Errors of a node, as pw-top has them: id, quantum, rate, wait, busy, both in
/// parts of the quantum, errors.
fn nr_errors(told: &Told, node: &str, span: &str) -> Result<u64> {
    let line: String = told.one(&format!("{node}_{span}"))?;
    let column = line.split_whitespace().nth(8);
    column
        .and_then(|errors| errors.parse().ok())
        .with_context(|| format!("pw-top told no errors of {node}: {line:?}"))
}

/// Times of frames.
struct Frames {
    sorted_ms: Vec<f64>,
}

impl Frames {
    fn read(told: &Told, span: &str) -> Result<Frames> {
        let times_us: Vec<f64> = told.all(&format!("frames_{span}"))?;
        let mut sorted_ms: Vec<f64> = times_us.iter().map(|us| us / 1000.0).collect();
        sorted_ms.sort_by(f64::total_cmp);
        told.check(!sorted_ms.is_empty(), || format!("{span}: no frame"))?;
        let frames = Frames { sorted_ms };
        println!(
            "{span}: {} frames, p50 {:.1}, p95 {:.1}, longest {:.1} ms",
            frames.sorted_ms.len(),
            frames.percentile(50),
            frames.percentile(95),
            frames.percentile(100)
        );
        Ok(frames)
    }

    fn percentile(&self, percent: usize) -> f64 {
        let nth = self.sorted_ms.len() * percent / 100;
        self.sorted_ms[nth.min(self.sorted_ms.len() - 1)]
    }

    /// The part of them that takes longer than `limit_ms`.
    fn late(&self, limit_ms: f64) -> f64 {
        let nr_on_time = self.sorted_ms.partition_point(|&ms| ms <= limit_ms);
        1.0 - nr_on_time as f64 / self.sorted_ms.len() as f64
    }
}

/// Checks that frames beside the build take no longer than `limit_ms`, but for the part
/// `late_limit` and a little, unlike under the default scheduler.
fn check_frames(told: &Told, limit_ms: f64, late_limit: f64) -> Result<()> {
    let late_default = Frames::read(told, "default")?.late(limit_ms);
    let late_ours = Frames::read(told, "ours")?.late(limit_ms);
    println!(
        "longer than {limit_ms:.1} ms: limit {late_limit:.3}, default {late_default:.3}, ours {late_ours:.3}"
    );
    told.check(late_default >= DEFAULT_LATE_FRAMES_MIN, || {
        format!("the build makes only {late_default:.3} of the frames late")
    })?;
    told.check(late_ours <= late_limit + LATE_FRAMES_MORE, || {
        format!("{late_ours:.3} of the frames are late, {late_default:.3} by default")
    })?;
    check_build(told, "")?;
    told.check_stops()
}

figure!(
    weston_presents_frames_beside_a_build_as_if_real_time,
    |kernel| {
        let mut world = world(kernel, &["chrt", "weston", "weston-presentation-shm"])?;
        for name in WESTON_FILES {
            world = world.with_library(name)?;
        }
        let told = world
            .with_installed("/usr/share/weston")?
            .with_installed("/usr/share/X11/xkb")?
            .run(&format!("SECONDS={SECONDS}\n{BUILD}{SCREEN}"))?;
        let limit = Frames::read(&told, "limit")?;
        let limit_ms = limit.percentile(50) * LONGER + LONGER_MS;
        check_frames(&told, limit_ms, limit.late(limit_ms))
    }
);

figure!(a_game_of_rt_app_has_its_frames_beside_a_build, |kernel| {
    let told = world(kernel, &["rt-app"])?.run(&format!("SECONDS={SECONDS}\n{BUILD}{GAME}"))?;
    check_frames(&told, REFRESH_MS, 0.0)
});

figure!(pipewire_plays_without_an_error_beside_a_build, |kernel| {
    let world = world(
        kernel,
        &["pipewire", "pw-link", "pw-play", "pw-profiler", "pw-top"],
    )?;
    let told = with_pipewire(world)?.run(&format!("SECONDS={SECONDS}\n{BUILD}{AUDIO}"))?;
    for quantum in QUANTUMS {
        let [default, ours] = ["default", "ours"].map(|name| format!("{name}_{quantum}"));
        let mut errors = [0; 2];
        for (errors, span) in errors.iter_mut().zip([&default, &ours]) {
            *errors = nr_errors(&told, "sink", span)? + nr_errors(&told, "player", span)?;
        }
        let (nr_default, late_default) = pair(&told, &format!("periods_{default}"))?;
        let (nr_ours, late_ours) = pair(&told, &format!("periods_{ours}"))?;
        println!(
            "quantum {quantum}: errors {} by default, {} under ours; late {late_default} of \
             {nr_default} periods, {late_ours} of {nr_ours}",
            errors[0], errors[1]
        );

        let nr_due = SECONDS as f64 * RATE as f64 / quantum as f64;
        told.check(nr_ours >= nr_due * SEEN_MIN, || {
            format!("quantum {quantum}: {nr_ours} periods instead of {nr_due}")
        })?;
        told.check_eq("errors under ours", errors[1], 0)?;
        told.check(late_default >= nr_default * DEFAULT_LATE_MIN, || {
            format!("quantum {quantum}: the build makes only {late_default} periods late")
        })?;
        told.check(late_ours * LATE_FACTOR <= late_default, || {
            format!("quantum {quantum}: {late_ours} periods late, {late_default} by default")
        })?;
        check_build(&told, &format!("_{quantum}"))?;
    }
    told.check_stops()
});
