//! Prefetch of descriptors and frames of the receive ring.

use super::ActiveSocket;
use crate::arena::SMALL_SLOT_BYTES;
use crate::prefetch::{prefetch, prefetch_for_copy};

/// Prefetch distance of payloads in frames. While the backend processes a frame, it already loads the payload
/// of the frame that comes this number of frames later. A frame is processed in about a fifth of the time
/// that the CPU needs to load a cache line, and a frame of usual length occupies 17 cache lines.
const PAYLOAD_DISTANCE: u32 = 8;
/// Prefetch distance of headers in frames. This distance is larger than the distance of payloads, for two
/// reasons. Headers are read before the payload. In addition, the CPU loads cache lines in the order of the
/// requests, so a new request must wait for all earlier ones.
const HEADERS_DISTANCE: u32 = 16;
/// Prefetch distance of descriptors in frames. Descriptors need a larger distance than frames: a
/// descriptor contains the address of the frame, so it must be loaded before the frame. A cache line holds
/// four descriptors.
const DESCRIPTORS_DISTANCE: u32 = 24;
/// Number of bytes at the start of a frame that are prefetched. Of most frames, a switch reads no
/// further bytes.
const HEADERS_BYTES: usize = 64;

impl ActiveSocket {
    /// Prefetches parts of later frames. The function ignores frames that the kernel may not have
    /// written yet.
    #[inline]
    pub(super) fn prefetch_later_frames(&self) {
        prefetch(self.receive.entry_address(DESCRIPTORS_DISTANCE).cast(), 1);
        self.prefetch_headers(HEADERS_DISTANCE);
        self.prefetch_payload(PAYLOAD_DISTANCE);
    }

    /// Prefetches the first frames of a burst.
    #[inline]
    pub(super) fn prefetch_first_frames(&self) {
        (0..HEADERS_DISTANCE).for_each(|distance| self.prefetch_headers(distance));
        (0..PAYLOAD_DISTANCE).for_each(|distance| self.prefetch_payload(distance));
    }

    /// Prefetches the headers of the frame that comes `distance` frames after the next frame.
    #[inline]
    fn prefetch_headers(&self, distance: u32) {
        if let Some(descriptor) = self.receive.peek_known(distance) {
            prefetch(self.frame_address(&descriptor), HEADERS_BYTES);
        }
    }

    /// Prefetches the payload of the frame that comes `distance` frames after the next frame. The kernel
    /// later copies the payload on this core. Without prefetch, this copy would wait for each cache line.
    #[inline]
    fn prefetch_payload(&self, distance: u32) {
        if let Some(descriptor) = self.receive.peek_known(distance) {
            let payload_len = (descriptor.len as usize)
                .min(SMALL_SLOT_BYTES)
                .saturating_sub(HEADERS_BYTES);
            let address = self.frame_address(&descriptor).wrapping_add(HEADERS_BYTES);
            prefetch_for_copy(address, payload_len);
        }
    }

    /// Returns the address of the frame that a descriptor describes. The function does not check whether the
    /// address is in the arena.
    #[inline]
    fn frame_address(&self, descriptor: &libc::xdp_desc) -> *const u8 {
        let region = self.arena.small_region().cast::<u8>();
        region.wrapping_add(descriptor.addr as usize)
    }
}
