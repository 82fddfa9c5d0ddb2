//! Errors of requests to the network configuration of the kernel.

use std::io;

use nix::errno::Errno;

/// Result of a request to the network configuration of the kernel.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a request to the network configuration of the kernel. The message contains the action, the
/// interface, the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The namespace of the calling thread has no interface of this name.
    #[error("no network interface '{name}' here: look at `ip link`, and check the namespace")]
    NoSuchLink {
        /// Name of the interface.
        name: String,
    },
    /// The interface, address or route to create already exists.
    #[error(
        "cannot {action}: '{name}' already exists: choose another name, or remove it with `ip link del {name}`"
    )]
    Exists {
        /// The failed action, such as `remove interface 'veth0'`.
        action: String,
        /// Name of the interface. Empty for a route.
        name: String,
    },
    /// The process lacks a capability.
    #[error(
        "cannot {action}: not permitted: run as root, with CAP_NET_ADMIN, or inside a user namespace (`unshare -Urn`)"
    )]
    NotPermitted {
        /// The failed action, such as `remove interface 'veth0'`.
        action: String,
    },
    /// The name is not valid: it is empty, longer than 15 bytes, `.` or `..`, or contains `/`, `:`, white
    /// space or a zero byte.
    #[error(
        "'{name}' cannot be the name of a network interface: 1 to 15 bytes without '/', ':' and white space"
    )]
    BadName {
        /// The refused name.
        name: String,
    },
    /// The kernel refused the request for another reason.
    #[error("cannot {action}: {source_text} (errno {errno})")]
    Refused {
        /// The failed action, such as `remove interface 'veth0'`.
        action: String,
        /// Error number of the kernel (`errno`).
        errno: i32,
        /// Description of the error number, such as `Invalid argument`.
        source_text: String,
    },
    /// The answer of the kernel is not valid, or netlink failed for another reason.
    #[error("cannot {action}: {detail}")]
    Protocol {
        /// The failed action, such as `remove interface 'veth0'`.
        action: String,
        /// Description of the problem, for the message.
        detail: String,
    },
}

impl Error {
    /// Converts an error number of the kernel. `action` is the failed action, and `name` is the name of
    /// the interface.
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

    /// Converts the error of a system call, like [`Error::from_errno`].
    pub(crate) fn from_io(action: &str, name: &str, error: &io::Error) -> Error {
        match error.raw_os_error() {
            Some(errno) => Error::from_errno(action, name, errno),
            None => Error::Protocol {
                action: action.to_owned(),
                detail: error.to_string(),
            },
        }
    }

    /// Returns true if the cause of the error is the machine, such as a missing privilege or a missing kernel
    /// feature. Returns false if the request is wrong, for example if the name is not valid.
    pub fn is_environment_error(&self) -> bool {
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
