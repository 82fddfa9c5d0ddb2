//! What of the frames that wait is fetched before it is read, and how much earlier.

use super::Live;
use crate::ahead;
use crate::arena::SMALL_SLOT_BYTES;

/// So many frames behind the next one are fetched: each takes about a fifth of the time that a line takes to come, and has seventeen of
/// them if it is of a usual length.
const AHEAD: u32 = 8;
/// Headers are fetched earlier: they are waited for, and come behind all lines that were asked for before.
const HEADERS_AHEAD: u32 = 16;
/// As are descriptors, of which four lie in a cache line: each says where its frame is.
const DESCRIPTORS_AHEAD: u32 = 24;
/// Octets that a switch reads of most frames.
const HEADER_BYTES: usize = 64;

impl Live {
    /// Fetches what is read some frames later, as far as it is known to be there.
    #[inline]
    pub(super) fn fetch(&self) {
        ahead::fetch(self.receive.place(DESCRIPTORS_AHEAD).cast(), 1);
        self.fetch_headers(HEADERS_AHEAD);
        self.fetch_rest(AHEAD);
    }

    /// Fetches what a turn begins with.
    #[inline]
    pub(super) fn fetch_first(&self) {
        (0..HEADERS_AHEAD).for_each(|ahead| self.fetch_headers(ahead));
        (0..AHEAD).for_each(|ahead| self.fetch_rest(ahead));
    }

    /// Fetches the headers of the frame `ahead` of the next one.
    #[inline]
    fn fetch_headers(&self, ahead: u32) {
        if let Some(part) = self.receive.known(ahead) {
            ahead::fetch(self.place(&part), HEADER_BYTES);
        }
    }

    /// Fetches what lies behind the headers of the frame `ahead` of the next one, since the kernel copies it on this core when it is
    /// sent, and would wait for each line.
    #[inline]
    fn fetch_rest(&self, ahead: u32) {
        if let Some(part) = self.receive.known(ahead) {
            let rest = (part.len as usize)
                .min(SMALL_SLOT_BYTES)
                .saturating_sub(HEADER_BYTES);
            ahead::fetch_for_copy(self.place(&part).wrapping_add(HEADER_BYTES), rest);
        }
    }

    /// Where a descriptor says that a frame lies. It is not looked at whether that is in the arena.
    #[inline]
    fn place(&self, part: &libc::xdp_desc) -> *const u8 {
        let region = self.arena.small_region().cast::<u8>();
        region.wrapping_add(part.addr as usize)
    }
}
