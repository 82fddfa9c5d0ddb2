//! Lock step with a simulator.
//!
//! Two programs exchange Ethernet frames in virtual time. Each frame has the times of its first and its last bit in
//! picoseconds. Each program grants time to the other one: it promises that it sends nothing before a time. A program
//! advances only as far as the promises of its peer permit, so the result does not depend on the speed of either
//! program. docs/lockstep.md specifies the protocol.
//!
//! - [`Message`] is a message, and [`MessageDecoder`] reads messages from bytes.
//! - [`LinkState`] checks that both sides keep their promises. It performs no input or output.
//! - [`Connection`] sends and receives messages over a [`Transport`], and [`SocketTransport`] is a Unix socket,
//!   whose messages can also pass through shared memory.
//!
//! # Example
//!
//! A grant permits the receiver to process all events until its time:
//!
//! ```
//! use xoff_lockstep::{Grant, LinkState, Message};
//!
//! let mut state = LinkState::default();
//! assert_eq!(state.horizon(), 0);
//! let grant = Message::Grant(Grant { first_bit_ps: 5_000, last_bit_ps: 5_000, received: 0 });
//! state.receive(&grant)?;
//! assert_eq!(state.horizon(), 5_000);
//! # Ok::<(), xoff_lockstep::OrderError>(())
//! ```
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod bus_error;
#[allow(unsafe_code)]
mod byte_ring;
mod connection;
mod decoder;
mod error;
mod fcs;
mod header;
mod limits;
mod link_state;
#[allow(unsafe_code)]
mod mapped_file;
mod message;
mod promise;
mod request;
#[allow(unsafe_code)]
mod shared_memory;
mod unix_socket;

pub use connection::{Connection, Transport};
pub use decoder::MessageDecoder;
pub use error::{DecodeError, LinkError, OrderError};
pub use fcs::{append_fcs, has_right_fcs};
pub use limits::{
    BARE_MAC_FLAG, FRAME_BYTES_MAX, HEADER_BYTES, MAGIC, PAYLOAD_MAX, SHARED_MEMORY_FLAG, VERSION,
};
pub use link_state::LinkState;
pub use message::{Frame, Grant, Hello, Message};
pub use request::{CounterValues, HostRequest, Reply, ReplyBody, SettingValues};
pub use unix_socket::{SocketListener, SocketTransport, WaitOptions, connect_shared_memory, connect_socket};
