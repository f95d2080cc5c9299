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
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use libbpf_rs::{Iter, MapCore, MapFlags, OpenObject, ProgramInput, RingBuffer, RingBufferBuilder};
use log::info;
use nix::unistd::geteuid;
use scx_utils::{
    NR_CPU_IDS, NR_CPUS_POSSIBLE, Topology, UserExitInfo, compat, scx_ops_attach, scx_ops_load,
    scx_ops_open, try_set_rlimit_infinity, uei_exited, uei_report,
};

use crate::bpf_intf::{
    comm_pattern, cpu_ctx, cpu_topo, hint_request, intf_consts_MAX_GROUPS, llc_topo, task_row,
};
use crate::bpf_skel::{BpfSkel, BpfSkelBuilder, OpenBpfSkel};
use crate::cli::Opts;
use crate::compositor;
use crate::cpufreq::Governors;
use crate::hint::{Hint, Source};
use crate::stats::Sample;
use crate::tasks::Tasks;
use crate::topology::Tables;

/// How long another scheduler may take to leave before we give up.
const OTHER_SCHEDULER_PATIENCE: Duration = Duration::from_secs(2);

/// How often to look whether it has left.
const OTHER_SCHEDULER_POLL: Duration = Duration::from_millis(50);

/// There if the kernel has cgroups.
const CGROUPS_PATH: &str = "/proc/cgroups";

/// The loaded and attached scheduler. Dropping it returns the machine to the
/// kernel's default scheduler.
pub struct Scheduler<'a> {
    skel: BpfSkel<'a>,
    link: Option<libbpf_rs::Link>,
    nr_cpu_ids: u32,
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
    /// Load the scheduler with `opts` and attach it. If it `follows_programs`
    /// it reports which processes start one, see [`Scheduler::started`].
    ///
    /// # Errors
    ///
    /// If the kernel has no sched_ext or lacks something needed, if permission
    /// is missing, if another scheduler runs and stays, or if the BPF half does
    /// not load.
    pub fn init(
        opts: &Opts,
        follows_programs: bool,
        open_object: &'a mut MaybeUninit<OpenObject>,
    ) -> Result<Self> {
        wait_for_other_scheduler()?;
        ensure!(
            geteuid().is_root(),
            "loading a scheduler into the kernel needs root: use sudo"
        );
        try_set_rlimit_infinity();

        let topo = Topology::new().context("reading the CPU topology")?;
        let nr_cpu_ids = (*NR_CPU_IDS).max(*NR_CPUS_POSSIBLE);
        let tables = Tables::new(&topo, nr_cpu_ids)?;
        info!(
            "{} CPUs, {} L2 domains, {} LLC domains, {} NUMA nodes, {}SMT {}",
            topo.all_cpus.len(),
            tables.nr_l2s,
            tables.llcs.len(),
            topo.nodes.len(),
            if tables.has_small_cores {
                "cores of several sizes, "
            } else {
                ""
            },
            if topo.smt_enabled { "on" } else { "off" }
        );

        let mut builder = BpfSkelBuilder::default();
        builder.obj_builder.debug(opts.verbose);
        let open_opts = opts.libbpf.clone().into_bpf_open_opts();
        let mut skel = scx_ops_open!(builder, open_object, pandemonium_ops, open_opts)?;
        let compositors = compositor::patterns(&opts.compositors)?;
        let governors = Governors::new(opts.cpufreq);
        configure(&mut skel, opts, &tables, compositors.len(), &governors)?;
        follow_programs(&mut skel, follows_programs);

        let mut skel = scx_ops_load!(skel, pandemonium_ops, uei)?;
        fill_topology(&mut skel, &tables)?;
        fill_compositors(&mut skel, &compositors)?;
        let link = scx_ops_attach!(skel, pandemonium_ops)?;
        // The probe of the library has done its work in the attach. To detach it
        // takes the kernel a grace period of tasks, long under load: not in a
        // stop, where somebody waits.
        skel.links.scx_lib_init_probe.take();

        let programs = follows_programs.then(|| Programs::new(&skel)).transpose()?;
        Ok(Scheduler {
            skel,
            programs,
            link: Some(link),
            nr_cpu_ids: u32::try_from(nr_cpu_ids)?,
            governors,
        })
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
        let link = self.skel.links.tasks_list.as_ref();
        let link = link.context("the iterator of tasks is not attached")?;
        let mut bytes = Vec::new();
        Iter::new(link)
            .context("starting the iterator of tasks")?
            .read_to_end(&mut bytes)
            .context("reading the tasks")?;
        let rows = bytes.chunks_exact(size_of::<task_row>());
        let rows: Result<Vec<task_row>> = rows.map(read_as::<task_row>).collect();
        Ok(Tasks::new(&rows?))
    }

    /// Tell BPF what is known of the program of process `pid`, which replaces
    /// what was known before. A process that is gone is none of its business.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to run the program that does it.
    pub fn set_hint(&self, pid: i32, hint: Hint, source: Source) -> Result<()> {
        let mut request = as_bytes(&hint_request {
            hint: hint.to_bpf(source),
            tgid: pid,
            reserved: 0,
        })
        .to_vec();
        let input = ProgramInput {
            context_in: Some(&mut request),
            ..ProgramInput::default()
        };
        let result = self.skel.progs.hint_set.test_run(input);
        result
            .map(|_| ())
            .with_context(|| format!("giving process {pid} a hint"))
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
    pub fn finish(mut self) -> Result<UserExitInfo> {
        self.link.take();
        uei_report!(&self.skel, uei)
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

/// Wait until no other scheduler is attached, and name it if it stays.
fn wait_for_other_scheduler() -> Result<()> {
    let state_path = Path::new(compat::ROOT_PREFIX.as_str()).join("sys/kernel/sched_ext/state");
    let read_state = || fs::read_to_string(&state_path).map(|state| state.trim().to_string());

    let mut state = read_state().map_err(|_| {
        anyhow!(
            "this kernel has no sched_ext: boot one of Linux 6.12 or newer with \
             CONFIG_SCHED_CLASS_EXT=y"
        )
    })?;
    let started = Instant::now();
    while state != "disabled" {
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
    rodata.nr_comm_patterns = nr_comm_patterns;
    rodata.nr_l2s = tables.nr_l2s;
    rodata.has_smt = tables.has_smt;
    rodata.has_wide_l2 = tables.has_wide_l2;
    rodata.has_small_cores = tables.has_small_cores;
    rodata.has_cpufreq = governors.may_listen();

    let data = skel
        .maps
        .data_data
        .as_mut()
        .context("the BPF object has no knobs")?;
    data.knobs.affinity_mode = opts.affinity.mode().into();
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
    skel.maps.l2_ctxs.set_max_entries(tables.nr_l2s)?;
    skel.maps.comm_patterns.set_max_entries(nr_comm_patterns)?;

    let ops = skel.struct_ops.pandemonium_ops_mut();
    ops.exit_dump_len = opts.exit_dump_len;
    // An older kernel rejects a flag that it does not know; those are 0 here.
    // The kernel would put a task that cannot migrate on the CPU where it is, and
    // takes one for such that loses its CPU to a higher class.
    ops.flags = *compat::SCX_OPS_ENQ_EXITING
        | *compat::SCX_OPS_ENQ_MIGRATION_DISABLED
        | *compat::SCX_OPS_KEEP_BUILTIN_IDLE
        | *compat::SCX_OPS_ALLOW_QUEUED_WAKEUP;
    info!("scheduler flags: {:#x}", ops.flags);
    Ok(())
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

/// Types of `intf.h`: plain C structs of integers without padding that matters.
trait Plain: Copy {}
impl Plain for comm_pattern {}
impl Plain for cpu_ctx {}
impl Plain for cpu_topo {}
impl Plain for hint_request {}
impl Plain for llc_topo {}
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
