//! Sends requests over routing netlink and waits for their results.

use rtnetlink::Handle;

use super::{Error, Result};

/// Opens a routing netlink socket in the calling thread's namespace, runs `request` on this socket, and
/// closes the socket. `action` and `name` are for the error message: the requested action, and the name of
/// the interface.
///
/// # Errors
/// Returns an error if `request` fails or the socket cannot be opened.
pub(super) fn run_request<T>(
    action: &str,
    name: &str,
    request: impl AsyncFnOnce(Handle) -> std::result::Result<T, rtnetlink::Error>,
) -> Result<T> {
    // A current-thread runtime starts no thread, so the socket is opened and used in this namespace.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|error| Error::from_io(action, name, &error))?;
    runtime.block_on(async {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(|error| Error::from_io(action, name, &error))?;
        let connection_task = tokio::spawn(connection);
        let result = request(handle).await;
        connection_task.abort();
        result.map_err(|error| convert_error(action, name, error))
    })
}

fn convert_error(action: &str, name: &str, error: rtnetlink::Error) -> Error {
    match error {
        // The kernel sends the negative error number.
        rtnetlink::Error::NetlinkError(message) => {
            Error::from_errno(action, name, message.raw_code().saturating_neg())
        }
        other => Error::Protocol {
            action: action.to_owned(),
            detail: other.to_string(),
        },
    }
}
