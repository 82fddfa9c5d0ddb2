//! The ends of a tester: what sends frames into a device as fast as they can be made, and what looks at those that come out.
//!
//! A tester is no port: it repairs nothing on its device, owns no arena, and says nothing of what it cannot send but how much it was.

mod listen;
mod live;
mod send;

pub use listen::{FrameListener, Heard};
pub use live::{LiveFrames, Redirects};
pub use send::{FrameSender, SEND_BURST_FRAMES, Sent};
