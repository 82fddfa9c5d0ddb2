//! User namespaces: how someone who is not root gets network namespaces of his own.

use std::fs;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use super::{Error, Result};

/// Moves this process into a user namespace of its own, in which it is root, together with new namespaces
/// of the kinds in `with`. Outside it stays what it was: it may do nothing there that it could not before.
///
/// The process must have a single thread (`unshare(2)`).
///
/// # Errors
/// [`Error::NotPermitted`] or a refusal where the machine forbids it (a limit of zero in
/// `/proc/sys/user/max_user_namespaces`, AppArmor's `kernel.apparmor_restrict_unprivileged_userns`, a
/// container's seccomp filter).
pub fn enter_user_namespace(with: CloneFlags) -> Result<()> {
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | with)
        .map_err(|errno| Error::from_errno("create a user namespace", "", errno as i32))?;
    // Without privilege outside, a group map is accepted only once setgroups(2) is given up.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", &format!("0 {gid} 1"))
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::from_io(&format!("write {path}"), path, &error))
}
