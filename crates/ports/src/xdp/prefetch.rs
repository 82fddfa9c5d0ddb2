//! Prefetch of descriptors and frames of the receive ring.

use super::ActiveSocket;
use crate::arena::SMALL_SLOT_BYTES;
use crate::prefetch::{prefetch, prefetch_for_copy};

/// Distance of the frame whose payload is prefetched from the next frame. A frame takes about a fifth of the
/// time that a cache line needs to arrive. A frame of usual length occupies 17 lines.
const PAYLOAD_DISTANCE: u32 = 8;
/// Distance of the frame whose headers are prefetched. The headers are read first, and they arrive after all
/// lines that were requested earlier, so they need a larger distance.
const HEADERS_DISTANCE: u32 = 16;
/// Distance of the prefetched descriptor. It contains the address of a frame, so it is needed before the
/// frame. A cache line holds four descriptors.
const DESCRIPTORS_DISTANCE: u32 = 24;
/// Number of bytes that a switch reads of most frames.
const HEADERS_BYTES: usize = 64;

impl ActiveSocket {
    /// Prefetches parts of later frames, as far as the kernel is known to have written them.
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

    /// Prefetches the headers of the frame that is `distance` frames after the next one.
    #[inline]
    fn prefetch_headers(&self, distance: u32) {
        if let Some(descriptor) = self.receive.peek_known(distance) {
            prefetch(self.frame_address(&descriptor), HEADERS_BYTES);
        }
    }

    /// Prefetches the payload of the frame that is `distance` frames after the next one. The kernel copies
    /// the payload on this core when the frame is sent, and would wait for each cache line.
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

    /// Returns the address of a frame from its descriptor, without a check that the address is in the arena.
    #[inline]
    fn frame_address(&self, descriptor: &libc::xdp_desc) -> *const u8 {
        let region = self.arena.small_region().cast::<u8>();
        region.wrapping_add(descriptor.addr as usize)
    }
}
