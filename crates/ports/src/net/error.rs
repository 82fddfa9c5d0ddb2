//! What can go wrong between us and the kernel.

use std::io;

use nix::errno::Errno;

/// The result of a call into the kernel's network configuration.
pub type Result<T> = std::result::Result<T, Error>;

/// A refused or failed request, in words: what was tried, on what, why it failed, and what helps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No interface of that name in the namespace of the calling thread.
    #[error("no network interface '{name}' here: look at `ip link`, and check the namespace")]
    NoSuchLink {
        /// The name that was looked for.
        name: String,
    },
    /// An interface of that name is already there.
    #[error(
        "cannot {action}: '{name}' already exists: choose another name, or remove it with `ip link del {name}`"
    )]
    Exists {
        /// What was tried.
        action: String,
        /// The name that is taken.
        name: String,
    },
    /// The process lacks a capability.
    #[error(
        "cannot {action}: not permitted: run as root, with CAP_NET_ADMIN, or inside a user namespace (`unshare -Urn`)"
    )]
    NotPermitted {
        /// What was tried.
        action: String,
    },
    /// A name that the kernel would refuse: empty, over 15 bytes, or with `/`, `:` or white space.
    #[error(
        "'{name}' cannot be the name of a network interface: 1 to 15 bytes without '/', ':' and white space"
    )]
    BadName {
        /// The name as given.
        name: String,
    },
    /// The kernel refused for another reason.
    #[error("cannot {action}: {source_text} (errno {errno})")]
    Refused {
        /// What was tried.
        action: String,
        /// The kernel's error number.
        errno: i32,
        /// The text of that number.
        source_text: String,
    },
    /// The kernel's answer was not one.
    #[error("cannot {action}: {detail}")]
    Protocol {
        /// What was tried.
        action: String,
        /// What came back.
        detail: String,
    },
}

impl Error {
    /// An error of `action`, which concerned `name`, from an error number.
    pub(crate) fn from_errno(action: &str, name: &str, errno: i32) -> Error {
        let action = action.to_owned();
        match Errno::from_raw(errno) {
            Errno::ENODEV => Error::NoSuchLink {
                name: name.to_owned(),
            },
            Errno::EEXIST => Error::Exists {
                action,
                name: name.to_owned(),
            },
            Errno::EPERM | Errno::EACCES => Error::NotPermitted { action },
            other => Error::Refused {
                action,
                errno,
                source_text: other.desc().to_owned(),
            },
        }
    }

    /// As [`Error::from_errno`], from the error of a system call.
    pub(crate) fn from_io(action: &str, name: &str, error: &io::Error) -> Error {
        match error.raw_os_error() {
            Some(errno) => Error::from_errno(action, name, errno),
            None => Error::Protocol {
                action: action.to_owned(),
                detail: error.to_string(),
            },
        }
    }

    /// Whether the machine, not the request, is at fault: privileges or a missing facility.
    pub fn is_environment(&self) -> bool {
        match self {
            Error::NotPermitted { .. } => true,
            Error::Refused { errno, .. } => [
                libc::EOPNOTSUPP,
                libc::ENOSYS,
                libc::ENOSPC,
                libc::EMFILE,
                libc::EROFS,
            ]
            .contains(errno),
            _ => false,
        }
    }
}
