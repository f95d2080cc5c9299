// SPDX-License-Identifier: GPL-2.0
//! The sandbox of scx_loader's systemd unit without systemd: a program that is
//! started in it, and all that it starts, may do as little as the service.
//!
//! - `sandboxed PROGRAM ARGS`: becomes that program.
//!
//! What the unit asks for, in its order: `ProtectSystem=full`,
//! `PrivateTmp=disconnected`, `PrivateMounts=`, `ProtectKernelLogs=`,
//! `ProtectControlGroups=`, `RestrictRealtime=`, `MemoryDenyWriteExecute=`,
//! `RestrictAddressFamilies=AF_UNIX`, `CapabilityBoundingSet=` and
//! `SystemCallFilter=` with the groups of systemd 252.
//!
//! Not here: the list of devices that `ProtectClock=` implies, which is a program of
//! the cgroup, and `LockPersonality=`.

use std::ffi::{CStr, c_int, c_ulong};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use anyhow::{Context, Result, bail, ensure};

/// `CapabilityBoundingSet=~`, as in `linux/capability.h`.
const DROPPED_CAPS: &[c_ulong] = &[
    0,  // CHOWN
    13, // NET_RAW
    16, // SYS_MODULE
    18, // SYS_CHROOT
    19, // SYS_PTRACE
    20, // SYS_PACCT
    22, // SYS_BOOT
    25, // SYS_TIME
    27, // MKNOD
    34, // SYSLOG
    35, // WAKE_ALARM
    36, // BLOCK_SUSPEND
];

/// `SystemCallFilter=~`, which lets `perf_event_open` through.
const DENIED_CALLS: &[i64] = &[
    // @aio
    libc::SYS_io_cancel,
    libc::SYS_io_destroy,
    libc::SYS_io_getevents,
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    // @chown
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_lchown,
    // @clock
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    // @cpu-emulation
    libc::SYS_modify_ldt,
    // @debug
    libc::SYS_lookup_dcookie,
    libc::SYS_pidfd_getfd,
    libc::SYS_ptrace,
    // @keyring
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // @module
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    // @mount
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_umount2,
    // @obsolete
    libc::SYS_sysfs,
    libc::SYS_uselib,
    libc::SYS_ustat,
    // @pkey
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    // @raw-io
    libc::SYS_ioperm,
    libc::SYS_iopl,
    // @reboot
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    // @setuid
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setuid,
    // @swap
    libc::SYS_swapoff,
    libc::SYS_swapon,
    // @sync
    libc::SYS_fdatasync,
    libc::SYS_fsync,
    libc::SYS_msync,
    libc::SYS_sync,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    // @timer
    libc::SYS_alarm,
    libc::SYS_getitimer,
    libc::SYS_setitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_delete,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_gettime,
    libc::SYS_timer_settime,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_times,
];

/// Policies of `sched_setscheduler` that `RestrictRealtime=` denies.
const REAL_TIME: &[c_int] = &[libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE];

/// Directories that become read-only; the guest has its programs in /bin.
const READ_ONLY: &[&CStr] = &[c"/bin", c"/boot", c"/etc", c"/usr", c"/sys/fs/cgroup"];

/// Directories that the service has for itself.
const PRIVATE: &[&CStr] = &[c"/tmp", c"/var/tmp"];

/// What cannot be opened.
const INACCESSIBLE: &CStr = c"/run/inaccessible";
const KERNEL_LOGS: &[&CStr] = &[c"/dev/kmsg", c"/proc/kmsg"];

/// Offsets in `struct seccomp_data`.
const NR_AT: u32 = 0;
const ARG_0_AT: u32 = 16;
const ARG_1_AT: u32 = 24;

/// What the words after `sandboxed` ask for. Returns only if it fails.
pub fn become_sandboxed(words: &[&str]) -> Result<String> {
    let [program, args @ ..] = words else {
        bail!("sandboxed PROGRAM ARGS");
    };
    // What the harness does not have, see support/agent.rs.
    // SAFETY: a call without pointers.
    check("dup2", unsafe { libc::dup2(3, 1) })?;
    restrict_files()?;
    DROPPED_CAPS
        .iter()
        .try_for_each(|&cap| drop_capability(cap))?;
    // SAFETY: a call without pointers.
    check("denying memory that is written and run", unsafe {
        libc::prctl(
            libc::PR_SET_MDWE,
            c_ulong::from(libc::PR_MDWE_REFUSE_EXEC_GAIN),
            0,
            0,
            0,
        )
    })?;
    restrict_calls()?;
    let err = Command::new(program).args(args).exec();
    Err(err).with_context(|| format!("running {program}"))
}

/// What is run from here on does without capability `cap`.
pub fn drop_capability(cap: c_ulong) -> Result<()> {
    // SAFETY: a call without pointers.
    let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, cap, 0, 0, 0) };
    check("dropping a capability", dropped)
}

/// Mounts of its own.
fn restrict_files() -> Result<()> {
    // SAFETY: a call without pointers.
    check("unshare", unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
    for &dir in READ_ONLY {
        mount(Some(dir), dir, None, libc::MS_BIND)?;
        let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
        mount(None, dir, None, flags)?;
    }
    for &dir in PRIVATE {
        mount(Some(c"tmpfs"), dir, Some(c"tmpfs"), 0)?;
    }
    // SAFETY: the text lives during the call.
    let made = unsafe { libc::mknod(INACCESSIBLE.as_ptr(), libc::S_IFCHR, libc::makedev(0, 0)) };
    check("mknod", made)?;
    for &log in KERNEL_LOGS {
        mount(Some(INACCESSIBLE), log, None, libc::MS_BIND)?;
    }
    Ok(())
}

fn mount(source: Option<&CStr>, at: &CStr, kind: Option<&CStr>, flags: c_ulong) -> Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: the texts live during the call.
    let mounted = unsafe {
        libc::mount(
            pointer(source),
            at.as_ptr(),
            pointer(kind),
            flags,
            ptr::null(),
        )
    };
    check(&format!("mounting {at:?}"), mounted)
}

/// The filter of system calls, for this thread and what it becomes.
fn restrict_calls() -> Result<()> {
    let filter = filter()?;
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len())?,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program and its instructions live during the call, which writes none.
    check("filtering system calls", unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            c_ulong::from(libc::SECCOMP_MODE_FILTER),
            &raw const program,
            0,
            0,
        )
    })
}

fn filter() -> Result<Vec<libc::sock_filter>> {
    let mut filter = vec![load(NR_AT)];
    for &nr in DENIED_CALLS {
        filter.extend([skip_unless(u32::try_from(nr)?, 1), deny(libc::EPERM)]);
    }
    // Of these it depends on an argument. Each ends with the verdict.
    filter.extend([
        skip_unless(u32::try_from(libc::SYS_socket)?, 4),
        load(ARG_0_AT),
        skip_unless(u32::try_from(libc::AF_UNIX)?, 1),
        allow(),
        deny(libc::EAFNOSUPPORT),
    ]);
    let nr = u8::try_from(1 + 2 * REAL_TIME.len())?;
    filter.push(skip_unless(
        u32::try_from(libc::SYS_sched_setscheduler)?,
        nr,
    ));
    filter.push(load(ARG_1_AT));
    for &policy in REAL_TIME {
        filter.extend([skip_unless(u32::try_from(policy)?, 1), deny(libc::EPERM)]);
    }
    filter.push(allow());
    Ok(filter)
}

fn load(offset: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, offset)
}

/// Go on if what was loaded is `value`, else behind the next `nr` instructions.
fn skip_unless(value: u32, nr: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, nr, value)
}

fn deny(error: c_int) -> libc::sock_filter {
    let verdict = libc::SECCOMP_RET_ERRNO | error.unsigned_abs();
    instruction(libc::BPF_RET | libc::BPF_K, 0, verdict)
}

fn allow() -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW)
}

fn instruction(code: u32, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        // Codes have 8 bits.
        code: code as u16,
        jt: 0,
        jf,
        k,
    }
}

fn check(what: &str, result: c_int) -> Result<()> {
    let error = std::io::Error::last_os_error();
    ensure!(result >= 0, "{what}: {error}");
    Ok(())
}
