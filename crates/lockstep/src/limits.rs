//! The numbers of the protocol.

/// Version of the protocol.
pub const VERSION: u16 = 1;
/// Field `c` of a HELLO: the bytes `xofflock`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"xofflock");
/// Length of the header of a message, in bytes.
pub const HEADER_BYTES: usize = 32;
/// Largest number of bytes of a frame, with FCS.
pub const FRAME_BYTES_MAX: usize = 16_384;
/// Length of the longest payload of a message, in bytes.
pub const PAYLOAD_MAX: usize = 65_536;
/// Flag of a HELLO: the simulator is a MAC without a host. Checks that need a host are skipped.
pub const BARE_MAC_FLAG: u8 = 1;
/// Flag of a HELLO: the side can use shared memory. If both sides set it, all later messages pass through the rings.
pub const SHARED_MEMORY_FLAG: u8 = 2;
