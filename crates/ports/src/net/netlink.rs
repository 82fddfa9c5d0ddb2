//! One netlink conversation at a time, driven to its end on the calling thread.

use rtnetlink::Handle;

use super::{Error, Result};

/// Opens a routing netlink socket in the calling thread's namespace, runs `talk` on it and closes it.
///
/// # Errors
/// Whatever `talk` meets, told as the failure of `action` on `name`.
pub(super) fn talk<T>(
    action: &str,
    name: &str,
    talk: impl AsyncFnOnce(Handle) -> std::result::Result<T, rtnetlink::Error>,
) -> Result<T> {
    // A current-thread runtime starts no thread, so the socket is opened, and used, in this namespace.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|error| Error::from_io(action, name, &error))?;
    runtime.block_on(async {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(|error| Error::from_io(action, name, &error))?;
        let pump = tokio::spawn(connection);
        let result = talk(handle).await;
        pump.abort();
        result.map_err(|error| translate(action, name, error))
    })
}

fn translate(action: &str, name: &str, error: rtnetlink::Error) -> Error {
    match error {
        // The kernel sends the negated error number.
        rtnetlink::Error::NetlinkError(message) => {
            Error::from_errno(action, name, message.raw_code().saturating_neg())
        }
        other => Error::Protocol {
            action: action.to_owned(),
            detail: other.to_string(),
        },
    }
}
