//! User namespaces. They let a process without root privileges create network namespaces.

use std::fs;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use super::{Error, Result};

/// Moves this process to a new user namespace, in which the process is root. `extra_namespaces` selects
/// further namespaces that the process enters at the same time, such as a new mount namespace. Outside the
/// user namespace, the process gets no new privileges.
///
/// The process must have only one thread (`unshare(2)`).
///
/// # Errors
/// Returns [`Error::NotPermitted`] or another [`Error`] if the machine forbids user namespaces. Three
/// settings can forbid them: a limit of zero in `/proc/sys/user/max_user_namespaces`, AppArmor's
/// `kernel.apparmor_restrict_unprivileged_userns`, or the seccomp filter of a container.
pub fn enter_user_namespace(extra_namespaces: CloneFlags) -> Result<()> {
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | extra_namespaces)
        .map_err(|errno| Error::from_errno("create a user namespace", "", errno as i32))?;
    // Without privileges outside, the kernel accepts a group map only after setgroups(2) is disabled.
    write_proc_file("/proc/self/setgroups", "deny")?;
    write_proc_file("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    write_proc_file("/proc/self/gid_map", &format!("0 {gid} 1"))
}

fn write_proc_file(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::from_io(&format!("write {path}"), path, &error))
}
