//! The BPF half from the loader's side: open, configure, load, attach, read.
//!
//! The only module that touches the skeleton. Constants and maps are filled
//! before the scheduler is attached, so that its first decision is made on the
//! same tables as every later one.
//!
//! Not here: what to do with what is read (stats), the command line (cli).

use std::cell::RefCell;
use std::fs;
use std::io::Read;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{
    Iter, Link, MapCore, MapFlags, OpenObject, ProgramInput, ProgramMut, RingBuffer,
    RingBufferBuilder,
};
use log::{debug, info, warn};
use nix::unistd::geteuid;
use scx_utils::{
    NR_CPU_IDS, NR_CPUS_POSSIBLE, compat, scx_ops_attach, scx_ops_load, scx_ops_open,
    try_set_rlimit_infinity, uei_exited,
};

use crate::bpf_intf::{
    comm_pattern, cpu_ctx, cpu_topo, hint, hint_request, intf_consts_MAX_GROUPS, knobs,
    learned_row, llc_topo, memory_key, program_request, task_row,
};
use crate::bpf_skel::{BpfSkel, BpfSkelBuilder, OpenBpfSkel, types};
use crate::check;
use crate::cli::Opts;
use crate::compositor;
use crate::control::Control;
use crate::control::knob::KNOBS;
use crate::cpufreq::Governors;
use crate::ending::Ending;
use crate::hint::{Hint, Source};
use crate::libbpf;
use crate::machine::Machine;
use crate::patience::{Patience, Step};
use crate::procdb::learner::Memory;
use crate::refusal::Words;
use crate::stats::Sample;
use crate::tasks::Tasks;
use crate::topology::Tables;
use crate::waker::{self, Samples};

/// How long another scheduler may take to leave before we give up.
const OTHER_SCHEDULER_PATIENCE: Duration = Duration::from_secs(2);

/// How often to look whether it has left.
const OTHER_SCHEDULER_POLL: Duration = Duration::from_millis(50);

/// How often what an interrupt sets in `preempt_count` is sampled, at the most.
const INTERRUPT_ROUNDS: u32 = 50;

/// How long to sleep: the timer that ends it is a hard one, and is sampled.
const INTERRUPT_SLEEP: Duration = Duration::from_millis(1);

/// How long to spin: the tick expires meanwhile, at 100 Hz too, and is a hard timer.
/// Timers of our own are no choice, since a service may not have any (`@timer`).
const INTERRUPT_SPIN: Duration = Duration::from_millis(11);

/// Why knobs cannot be read or written.
const NO_KNOBS: &str = "the BPF object has no knobs";

/// Why other variables cannot be.
const NO_VARIABLES: &str = "the BPF object has no variables";

/// There if the kernel has cgroups.
const CGROUPS_PATH: &str = "/proc/cgroups";

/// The loaded and attached scheduler. Dropping it returns the machine to the
/// kernel's default scheduler.
pub struct Scheduler<'a> {
    skel: BpfSkel<'a>,
    link: Option<Link>,
    nr_cpu_ids: u32,
    defaults: knobs,
    governors: Governors,
    programs: Option<Programs>,
}

/// What BPF reports of processes that start a program.
struct Programs {
    reports: RingBuffer<'static>,
    /// Processes that were read from there and not taken yet.
    pids: Rc<RefCell<Vec<i32>>>,
    /// How many reports were lost when the processes were taken last.
    nr_lost: u64,
}

/// Processes that a hint may be known for.
#[derive(Debug, PartialEq, Eq)]
pub enum Started {
    /// These; one may be there twice.
    Some(Vec<i32>),
    /// Any: too many started at once.
    Any,
}

impl<'a> Scheduler<'a> {
    /// Load the scheduler with `opts` and the knobs of `control` and attach it. `None`
    /// if `is_stopped` was set before it was: then it never schedules.
    /// If it `follows_programs` it reports which processes start one, see
    /// [`Scheduler::started`]. It begins with `memories` of programs, `None` if
    /// none are to be kept.
    ///
    /// # Errors
    ///
    /// If the kernel has no sched_ext or lacks something needed, if permission
    /// is missing, if another scheduler runs and stays, or if the BPF half does
    /// not load.
    pub fn init(
        opts: &Opts,
        control: &Control,
        follows_programs: bool,
        memories: Option<&[Memory]>,
        is_stopped: &AtomicBool,
        open_object: &'a mut MaybeUninit<OpenObject>,
    ) -> Result<Option<Self>> {
        check::ensure_visible()?;
        wait_for_other_scheduler(is_stopped)?;
        if is_stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        ensure!(
            geteuid().is_root(),
            "loading a scheduler into the kernel needs root: use sudo"
        );
        try_set_rlimit_infinity();

        let machine = Machine::read()?;
        let nr_cpu_ids = (*NR_CPU_IDS).max(*NR_CPUS_POSSIBLE);
        let mut tables = Tables::new(&machine, nr_cpu_ids)?;
        if let Some(nr_cpus) = opts.nr_cpus {
            tables.scale_to(nr_cpus);
        }
        info!(
            "{} CPUs, {} L2 domains, {} LLC domains{}, {} NUMA nodes, {}SMT {}",
            machine.cpus.len(),
            tables.nr_l2s,
            tables.llcs.len(),
            if tables.llcs.len() == tables.nr_caches as usize {
                String::new()
            } else {
                format!(" of {} caches", tables.nr_caches)
            },
            machine.distances.len().max(1),
            if tables.has_small_cores {
                "cores of several sizes, "
            } else {
                ""
            },
            if tables.has_smt { "on" } else { "off" }
        );

        let mut builder = BpfSkelBuilder::default();
        builder.obj_builder.debug(opts.verbose > 0);
        let open_opts = libbpf::open_opts(&opts.libbpf)?;
        let mut skel = scx_ops_open!(builder, open_object, pandemonium_ops, open_opts)?;
        let compositors = compositor::patterns(&opts.compositors)?;
        let governors = Governors::new(opts.cpufreq);
        configure(&mut skel, opts, &tables, compositors.len(), &governors)?;
        let data = skel.maps.data_data.as_mut().context(NO_KNOBS)?;
        let defaults = *knobs_of(&mut data.knobs);
        write_knobs(knobs_of(&mut data.knobs), control.knobs(defaults));
        follow_programs(&mut skel, follows_programs);
        sample_interrupts(&mut skel);
        if let Some(rodata) = skel.maps.rodata_data.as_mut() {
            rodata.has_memory = memories.is_some();
        }

        let patience = Patience::begin();
        let mut kernel_log = Words::from_now();
        let skel = scx_ops_load!(skel, pandemonium_ops, uei);
        let mut skel = skel.map_err(|err| kernel_log.explain(err))?;
        fill_topology(&mut skel, &tables)?;
        fill_compositors(&mut skel, &compositors)?;
        remember(&skel, memories.unwrap_or_default())?;
        let irq_mask = find_interrupts(&skel).unwrap_or_else(|err| {
            warn!("{err:#}");
            None
        });
        match irq_mask {
            Some(mask) => info!("interrupts set {mask:#x} in preempt_count"),
            None => warn!("{}", waker::UNKNOWN),
        }
        let bss = skel.maps.bss_data.as_mut().context(NO_VARIABLES)?;
        bss.waker_irq_mask = irq_mask.unwrap_or_default();
        // Loading takes a moment, in which another one may have come.
        wait_for_other_scheduler(is_stopped)?;
        // The loader starts the next scheduler only once this one is gone.
        if is_stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        patience.at(Step::Attach);
        let link = scx_ops_attach!(skel, pandemonium_ops);
        let link = link.map_err(|err| kernel_log.explain(err))?;
        // The probe of the library has done its work in the attach. To detach it
        // takes the kernel a grace period of tasks, long under load: not in a
        // stop, where somebody waits.
        skel.links.scx_lib_init_probe.take();

        let programs = follows_programs.then(|| Programs::new(&skel)).transpose()?;
        Ok(Some(Scheduler {
            skel,
            programs,
            link: Some(link),
            nr_cpu_ids: u32::try_from(nr_cpu_ids)?,
            defaults,
            governors,
        }))
    }

    /// Let the BPF half decide by the knobs of `control` from now on.
    ///
    /// # Errors
    ///
    /// If the knobs are not where they should be.
    pub fn set_knobs(&mut self, control: &Control) -> Result<()> {
        let data = self.skel.maps.data_data.as_mut().context(NO_KNOBS)?;
        write_knobs(knobs_of(&mut data.knobs), control.knobs(self.defaults));
        Ok(())
    }

    /// Let the BPF half look whether `cpu.idle` of a cgroup was written.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to run the program that does it.
    pub fn look_for_idle_cgroups(&self) -> Result<()> {
        let program = &self.skel.progs.cgroup_look_for_idle;
        let result = program.test_run(ProgramInput::default());
        result.map(|_| ()).context("looking for idle cgroups")
    }

    /// Let CPUs ask for a frequency from now on, or no more, if a governor was
    /// changed.
    pub fn follow_governors(&mut self) {
        let is_on = u64::from(self.governors.one_listens());
        if let Some(data) = self.skel.maps.data_data.as_mut()
            && data.knobs.is_cpufreq_on != is_on
        {
            data.knobs.is_cpufreq_on = is_on;
            log_cpufreq(is_on != 0);
        }
    }

    /// Whether the kernel has unloaded the scheduler.
    pub fn exited(&self) -> bool {
        uei_exited!(&self.skel, uei)
    }

    /// The counters since the start, of all CPUs together.
    ///
    /// # Errors
    ///
    /// If a map cannot be read.
    pub fn sample(&self) -> Result<Sample> {
        let mut sample = Sample::default();
        let data = self.skel.maps.data_data.as_ref().context(NO_KNOBS)?;
        sample.latency_target_ns = data.knobs.latency_target_ns;
        sample.nr_confined_cpus = data.knobs.nr_confined_cpus;
        for cpu in 0..self.nr_cpu_ids {
            let bytes = self
                .skel
                .maps
                .cpu_ctxs
                .lookup(&cpu.to_ne_bytes(), MapFlags::ANY)
                .with_context(|| format!("reading the counters of CPU {cpu}"))?
                .with_context(|| format!("CPU {cpu} has no counters"))?;
            sample.add_cpu(&read_as::<cpu_ctx>(&bytes)?);
        }
        sample.nr_online_cpus = scx_utils::Cpumask::from_cpulist(
            fs::read_to_string("/sys/devices/system/cpu/online")
                .context("reading which CPUs are online")?
                .trim(),
        )?
        .weight() as u64;
        Ok(sample)
    }

    /// Every task that the scheduler schedules, the most latency-critical first.
    ///
    /// # Errors
    ///
    /// If the iterator cannot be read.
    pub fn tasks(&self) -> Result<Tasks> {
        let rows = read_rows::<task_row>(self.skel.links.tasks_list.as_ref())?;
        Ok(Tasks::new(&rows))
    }

    /// The threads that have shown what they are, of those that ran since this
    /// was asked last.
    ///
    /// # Errors
    ///
    /// If the iterator cannot be read.
    pub fn learned(&self) -> Result<Vec<learned_row>> {
        read_rows(self.skel.links.tasks_learn.as_ref())
    }

    /// Let threads that begin from now on begin as `memories` say.
    ///
    /// # Errors
    ///
    /// If the map cannot be written.
    pub fn remember(&self, memories: &[Memory]) -> Result<()> {
        remember(&self.skel, memories)
    }

    /// Tell BPF that process `pid` runs what has the number `program`: a script
    /// or a game. A process that is gone is none of its business.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to run the program that does it.
    pub fn set_program(&self, pid: i32, program: u64) -> Result<()> {
        let request = program_request {
            program,
            tgid: pid,
            reserved: 0,
        };
        let result = ask(&self.skel.progs.hint_set_program, &request);
        result.with_context(|| format!("telling what process {pid} runs"))
    }

    /// Tell BPF what is known of the program of process `pid`, which replaces
    /// what was known before. A process that is gone is none of its business.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to run the program that does it.
    pub fn set_hint(&self, pid: i32, hint: Hint, source: Source) -> Result<()> {
        let request = hint_request {
            hint: hint.to_bpf(source),
            tgid: pid,
            reserved: 0,
        };
        let result = ask(&self.skel.progs.hint_set, &request);
        result.with_context(|| format!("giving process {pid} a hint"))
    }

    /// A descriptor that can be read from while [`Scheduler::started`] has
    /// something new; none if programs are not followed.
    ///
    /// # Errors
    ///
    /// If there are too many open files.
    pub fn started_fd(&self) -> Result<Option<OwnedFd>> {
        let Some(programs) = &self.programs else {
            return Ok(None);
        };
        // SAFETY: the descriptor is open as long as the ring buffer is there.
        let fd = unsafe { BorrowedFd::borrow_raw(programs.reports.epoll_fd()) };
        let fd = fd.try_clone_to_owned();
        fd.map(Some).context("watching for programs that start")
    }

    /// Report programs that start, or no more, if what is known of programs is
    /// known to the BPF half alone.
    pub fn want_reports(&mut self, are_wanted: bool) {
        if let Some(bss) = self.skel.maps.bss_data.as_mut() {
            bss.are_hint_reports_wanted = are_wanted;
        }
    }

    /// Processes that started a program, or changed their name or cgroup, since
    /// this was asked last.
    ///
    /// # Errors
    ///
    /// If the ring buffer cannot be read.
    pub fn started(&mut self) -> Result<Started> {
        let Some(programs) = &mut self.programs else {
            return Ok(Started::Some(Vec::new()));
        };
        // Lost before it is read: what is lost later is seen the next time.
        let bss = self.skel.maps.bss_data.as_ref();
        let nr_lost = bss.map_or(0, |bss| bss.nr_hint_reports_lost);
        programs
            .reports
            .consume()
            .context("reading which programs started")?;
        let pids = programs.pids.take();
        if nr_lost != programs.nr_lost {
            programs.nr_lost = nr_lost;
            return Ok(Started::Any);
        }
        Ok(Started::Some(pids))
    }

    /// Detach and say why the scheduler ended.
    ///
    /// # Errors
    ///
    /// If the kernel threw the scheduler out for an error or a stall.
    pub fn finish(mut self) -> Result<Ending> {
        self.link.take();
        let maps = &self.skel.maps;
        let data = maps.data_data.as_ref().context(NO_KNOBS)?;
        let dump = maps
            .data_uei_dump
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        // Without the dump the reason is worth telling as well.
        let dump = dump.ok().flatten().unwrap_or_default();
        let ending = Ending::new(&data.uei, &dump);
        ending.report().map(|()| ending)
    }
}

impl Programs {
    /// Begin to read what the BPF half reports.
    fn new(skel: &BpfSkel<'_>) -> Result<Programs> {
        let pids = Rc::new(RefCell::new(Vec::new()));
        let found = pids.clone();
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skel.maps.hint_reports, move |report: &[u8]| {
                if let Ok(pid) = report.try_into() {
                    found.borrow_mut().push(i32::from_ne_bytes(pid));
                }
                0
            })
            .context("adding the reports of programs")?;
        let reports = builder.build().context("opening the reports of programs")?;
        Ok(Programs {
            reports,
            pids,
            nr_lost: 0,
        })
    }
}

/// Load what reports programs only if that is asked for: each start of one costs
/// a little then.
fn follow_programs(skel: &mut OpenBpfSkel<'_>, follows_programs: bool) {
    let has_cgroups = Path::new(CGROUPS_PATH).exists();
    skel.progs.hint_exec.set_autoload(follows_programs);
    skel.progs.hint_rename.set_autoload(follows_programs);
    skel.progs
        .hint_move
        .set_autoload(follows_programs && has_cgroups);
}

/// Load what samples interrupts, if the kernel has what it looks at.
fn sample_interrupts(skel: &mut OpenBpfSkel<'_>) {
    let fields = [
        ("trace_event_raw_hrtimer_expire_entry", "hrtimer"),
        ("hrtimer", "is_soft"),
    ];
    let has = |(name, field)| compat::struct_has_field(name, field).unwrap_or(false);
    let is_there = fields.into_iter().all(has);
    skel.progs.waker_sample_task.set_autoload(is_there);
    skel.progs.waker_sample_interrupt.set_autoload(is_there);
    skel.progs.waker_sample_interrupt.set_autoattach(false);
}

/// The bits of `preempt_count` that an interrupt sets, by samples of what the
/// kernel does now. `None` if they cannot be told.
///
/// # Errors
///
/// If the kernel refuses to run the programs that sample.
fn find_interrupts(skel: &BpfSkel<'_>) -> Result<Option<u32>> {
    if !skel.progs.waker_sample_interrupt.autoload() {
        return Ok(None);
    }
    let link = skel.progs.waker_sample_interrupt.attach_trace();
    let _link = link.context("sampling interrupts")?;
    let sample_task = || {
        let program = &skel.progs.waker_sample_task;
        let result = program.test_run(ProgramInput::default());
        result.context("sampling a task")
    };
    for _ in 0..INTERRUPT_ROUNDS {
        sample_task()?;
        sleep(INTERRUPT_SLEEP);
        sample_task()?;
        let started = Instant::now();
        while started.elapsed() < INTERRUPT_SPIN {}
        let bss = skel.maps.bss_data.as_ref().context(NO_VARIABLES)?;
        let data = skel.maps.data_data.as_ref().context(NO_VARIABLES)?;
        let samples = Samples {
            task: bss.waker_task_bits,
            hardirq: data.waker_hardirq_bits,
            softirq: data.waker_softirq_bits,
        };
        debug!("preempt_count: {samples:x?}");
        let irq_mask = samples.irq_mask();
        if irq_mask.is_some() {
            return Ok(irq_mask);
        }
    }
    Ok(None)
}

/// The same without a scheduler: whether this kernel shows whether a task or an
/// interrupt wakes.
///
/// # Errors
///
/// If the programs that sample cannot be loaded or run.
pub fn can_find_interrupts() -> Result<bool> {
    let mut open_object = MaybeUninit::uninit();
    let skel = BpfSkelBuilder::default().open(&mut open_object);
    let mut skel = skel.context("opening the BPF object")?;
    for mut program in skel.open_object_mut().progs_mut() {
        program.set_autoload(false);
    }
    for mut map in skel.open_object_mut().maps_mut() {
        let name = map.name().to_string_lossy();
        let is_used = name == "waker_timers" || name.contains('.');
        if !is_used {
            map.set_autocreate(false)?;
        }
    }
    sample_interrupts(&mut skel);
    let skel = skel.load().context("loading what samples interrupts")?;
    Ok(find_interrupts(&skel)?.is_some())
}

/// Wait until no other scheduler is attached, and name it if it stays.
fn wait_for_other_scheduler(is_stopped: &AtomicBool) -> Result<()> {
    let state_path = format!("{}/sys/kernel/sched_ext/state", *compat::ROOT_PREFIX);
    let read_state = || fs::read_to_string(&state_path).map(|state| state.trim().to_string());

    let mut state = read_state().map_err(|_| {
        anyhow!(
            "this kernel has no sched_ext: boot one of Linux 6.12 or newer with \
             CONFIG_SCHED_CLASS_EXT=y"
        )
    })?;
    let started = Instant::now();
    while state != "disabled" && !is_stopped.load(Ordering::Relaxed) {
        if started.elapsed() > OTHER_SCHEDULER_PATIENCE {
            let name = fs::read_to_string("/sys/kernel/sched_ext/root/ops")
                .map(|name| name.trim().to_string())
                .unwrap_or_else(|_| "an unnamed one".to_string());
            bail!("another sched_ext scheduler is running ({name}): stop it first");
        }
        sleep(OTHER_SCHEDULER_POLL);
        state = read_state().context("reading the state of sched_ext")?;
    }
    Ok(())
}

/// Set what must be known before the programs are loaded.
fn configure(
    skel: &mut OpenBpfSkel<'_>,
    opts: &Opts,
    tables: &Tables,
    nr_compositors: usize,
    governors: &Governors,
) -> Result<()> {
    let nr_cpu_ids = u32::try_from(tables.cpus.len())?;
    let nr_llcs = u32::try_from(tables.llcs.len())?;
    let nr_comm_patterns = u32::try_from(nr_compositors)?;

    let rodata = skel
        .maps
        .rodata_data
        .as_mut()
        .context("the BPF object has no constants")?;
    rodata.nr_cpu_ids = nr_cpu_ids;
    rodata.nr_llcs = nr_llcs;
    rodata.nr_caches = tables.nr_caches;
    rodata.nr_comm_patterns = nr_comm_patterns;
    rodata.nr_l2s = tables.nr_l2s;
    rodata.has_smt = tables.has_smt;
    rodata.has_wide_l2 = tables.has_wide_l2;
    rodata.has_small_cores = tables.has_small_cores;
    rodata.has_cpufreq = governors.may_listen();
    rodata.has_cpu_release = !can_reenqueue_anywhere();

    let data = skel.maps.data_data.as_mut().context(NO_KNOBS)?;
    data.knobs.is_cpufreq_on = governors.one_listens().into();
    log_cpufreq(data.knobs.is_cpufreq_on != 0);

    skel.maps.cpu_ctxs.set_max_entries(nr_cpu_ids)?;
    skel.maps.cpu_topos.set_max_entries(nr_cpu_ids)?;
    skel.maps.slice_timers.set_max_entries(nr_cpu_ids)?;
    skel.maps.llc_ctxs.set_max_entries(nr_llcs)?;
    skel.maps.llc_topos.set_max_entries(nr_llcs)?;
    skel.maps
        .group_sums
        .set_max_entries(nr_llcs * intf_consts_MAX_GROUPS)?;
    skel.maps.wait_timers.set_max_entries(nr_llcs)?;
    skel.maps.pack_spans.set_max_entries(nr_cpu_ids + 1)?;
    skel.maps.l2_ctxs.set_max_entries(tables.nr_l2s)?;
    skel.maps.comm_patterns.set_max_entries(nr_comm_patterns)?;

    let ops = skel.struct_ops.pandemonium_ops_mut();
    ops.exit_dump_len = opts.exit_dump_len;
    if can_reenqueue_anywhere() {
        ops.cpu_release = ptr::null_mut();
    }
    // Before Linux 6.19 there is none, and the library would warn of it.
    if !compat::struct_has_field("sched_ext_ops", "cgroup_set_idle").unwrap_or(false) {
        ops.cgroup_set_idle = ptr::null_mut();
    }
    // An older kernel rejects a flag that it does not know; those are 0 here.
    // The kernel would put a task that cannot migrate on the CPU where it is, and
    // takes one for such that loses its CPU to a higher class. And it would leave a
    // confined task where it is alone.
    ops.flags = *compat::SCX_OPS_ENQ_EXITING
        | *compat::SCX_OPS_ENQ_LAST
        | *compat::SCX_OPS_ENQ_MIGRATION_DISABLED
        | *compat::SCX_OPS_KEEP_BUILTIN_IDLE
        | *compat::SCX_OPS_ALLOW_QUEUED_WAKEUP;
    info!("scheduler flags: {:#x}", ops.flags);
    Ok(())
}

/// Whether tasks of a local DSQ can be enqueued again from any callback. Kernels that
/// have it warn of `ops.cpu_release()`.
fn can_reenqueue_anywhere() -> bool {
    ["scx_bpf_reenqueue_local___v2", "scx_bpf_dsq_reenq"]
        .into_iter()
        .any(|name| compat::ksym_exists(name).unwrap_or(false))
}

/// The knobs that the BPF half was built with.
///
/// # Errors
///
/// If the BPF object cannot be parsed.
pub fn default_knobs() -> Result<knobs> {
    let mut open_object = MaybeUninit::uninit();
    let skel = BpfSkelBuilder::default().open(&mut open_object);
    let mut skel = skel.context("opening the BPF object")?;
    let data = skel.maps.data_data.as_mut().context(NO_KNOBS)?;
    Ok(*knobs_of(&mut data.knobs))
}

/// The knobs of the skeleton, which has a type of its own for them, as those of
/// `intf.h`.
fn knobs_of(knobs: &mut types::knobs) -> &mut knobs {
    const { assert!(size_of::<types::knobs>() == size_of::<knobs>()) }
    // SAFETY: both types are made from the same C struct of integers, and the
    // reference lives as long as the one it is made from.
    unsafe { &mut *ptr::from_mut(knobs).cast() }
}

/// Change those of `knobs` that are to be others. The BPF half may read one while
/// it is written, so each is written at once. Whether CPUs ask for a frequency is
/// for the governors to say.
fn write_knobs(knobs: &mut knobs, wanted: knobs) {
    let wanted = knobs {
        is_cpufreq_on: knobs.is_cpufreq_on,
        ..wanted
    };
    for knob in KNOBS {
        knob.set(knobs, knob.get(&wanted));
    }
}

/// Say who decides how fast CPUs are.
fn log_cpufreq(is_on: bool) {
    if is_on {
        info!("CPUs ask for a frequency");
    } else {
        info!("CPUs ask for no frequency");
    }
}

/// Fill the topology maps.
fn fill_topology(skel: &mut BpfSkel<'_>, tables: &Tables) -> Result<()> {
    for (cpu, entry) in (0u32..).zip(&tables.cpus) {
        skel.maps
            .cpu_topos
            .update(
                &cpu.to_ne_bytes(),
                as_bytes::<cpu_topo>(entry),
                MapFlags::ANY,
            )
            .with_context(|| format!("describing CPU {cpu}"))?;
    }
    for (llc_idx, entry) in (0u32..).zip(&tables.llcs) {
        skel.maps
            .llc_topos
            .update(
                &llc_idx.to_ne_bytes(),
                as_bytes::<llc_topo>(entry),
                MapFlags::ANY,
            )
            .with_context(|| format!("describing LLC domain {llc_idx}"))?;
    }
    Ok(())
}

/// Fill the map of compositors' names.
fn fill_compositors(skel: &mut BpfSkel<'_>, patterns: &[comm_pattern]) -> Result<()> {
    for (idx, pattern) in (0u32..).zip(patterns) {
        skel.maps
            .comm_patterns
            .update(
                &idx.to_ne_bytes(),
                as_bytes::<comm_pattern>(pattern),
                MapFlags::ANY,
            )
            .with_context(|| format!("naming compositor {idx}"))?;
    }
    Ok(())
}

/// Write what `memories` say into the map of them.
fn remember(skel: &BpfSkel<'_>, memories: &[Memory]) -> Result<()> {
    let map = &skel.maps.hint_memories;
    for (key, memory) in memories {
        let key = as_bytes(key);
        match memory {
            Some(memory) => map
                .update(key, as_bytes(memory), MapFlags::ANY)
                .context("remembering a program")?,
            // What is not there need not be forgotten.
            None => drop(map.delete(key)),
        }
    }
    Ok(())
}

/// Run a BPF program with `request`.
fn ask<T: Plain>(program: &ProgramMut<'_>, request: &T) -> libbpf_rs::Result<()> {
    let mut request = as_bytes(request).to_vec();
    let input = ProgramInput {
        context_in: Some(&mut request),
        ..ProgramInput::default()
    };
    program.test_run(input).map(|_| ())
}

/// Read all rows of an iterator.
fn read_rows<T: Plain>(link: Option<&Link>) -> Result<Vec<T>> {
    let link = link.context("the iterator of tasks is not attached")?;
    let mut bytes = Vec::new();
    Iter::new(link)
        .context("starting the iterator of tasks")?
        .read_to_end(&mut bytes)
        .context("reading the tasks")?;
    bytes.chunks_exact(size_of::<T>()).map(read_as).collect()
}

/// Types of `intf.h`: plain C structs of integers without padding that matters.
trait Plain: Copy {}
impl Plain for comm_pattern {}
impl Plain for cpu_ctx {}
impl Plain for cpu_topo {}
impl Plain for hint {}
impl Plain for hint_request {}
impl Plain for learned_row {}
impl Plain for llc_topo {}
impl Plain for memory_key {}
impl Plain for program_request {}
impl Plain for task_row {}

/// View `value` as the bytes of a map value.
fn as_bytes<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `T` is a plain C struct and lives as long as the slice.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Read a map value as a struct of `intf.h`.
fn read_as<T: Plain>(bytes: &[u8]) -> Result<T> {
    ensure!(
        bytes.len() >= size_of::<T>(),
        "a map value has {} bytes, {} were expected",
        bytes.len(),
        size_of::<T>()
    );
    // SAFETY: the length was checked, any bits are a valid `T`, and the read
    // does not need alignment.
    Ok(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}
