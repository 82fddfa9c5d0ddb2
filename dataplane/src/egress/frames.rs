//! A table with a fixed capacity, which contains all frames in the egress queues. Each queue is a linked list
//! in this table.

use crate::frame::FrameHandle;
use crate::ids::{PgId, PortId};
use xoff_units::{Picos, prefetch};
use xoff_wire::parse::Payload;

/// Index that marks the end of a list.
const NO_FRAME: u32 = u32::MAX;

/// The ingress cells of a queued frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IngressCharge {
    /// The cells of one frame, which are charged to its priority group.
    Own { pg: PgId, cells: u32 },
    /// The frame is a copy of a flooded frame. An entry of [`SharedCellCharges`] records the cells, which are
    /// released with the last copy.
    Shared(u32),
    /// No cells, because the switch itself sends the frame.
    None,
}

/// A frame, or one copy of a flooded frame, that waits in an egress queue. The tables of a large fabric do
/// not fit into the caches, so the entry has only the size of half a cache line. Lengths and numbers of cells
/// are below 2^16, because the longest frame has 9 KiB and a cell has at least one byte.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct QueuedFrame {
    /// Earliest time at which the transmission of the frame may start.
    pub(crate) ready_at: Picos,
    pub(crate) frame: FrameHandle,
    mac_len: u16,
    /// Copy of the `mac_len` of the next frame in the queue. The scheduler needs this length, and the entry
    /// of the next frame is often not in the caches.
    next_len: u16,
    /// The priority group of the charge, or the index of the shared charge.
    charge_index: u32,
    cells: u16,
    charged_cells: u16,
    /// The next frame in the queue, or the next entry in the free list.
    next: u32,
    /// The kind of charge, and the flags below.
    flags: u8,
    pub(crate) tc: u8,
    pub(crate) l3_offset: u8,
    pub(crate) payload: Payload,
}

/// Bits of `flags`. The lowest two bits contain the [`ChargeKind`]. The next bits state whether the frame is
/// ECN-capable, whether it was trimmed, and which queue refused the frame before trimming.
const CHARGE_KIND_MASK: u8 = 3;
const FLAG_ECN_CAPABLE: u8 = 4;
const FLAG_TRIMMED: u8 = 8;
const TRIMMED_FOR_SHIFT: u32 = 4;

/// Values of the kind of an [`IngressCharge`] in `flags`.
struct ChargeKind;

impl ChargeKind {
    const OWN: u8 = 0;
    const SHARED: u8 = 1;
    const NONE: u8 = 2;
}

impl QueuedFrame {
    /// Creates an entry for a frame that occupies `cells` cells of its queue and may leave immediately. The
    /// caller sets the traffic class and the fields of the layer-3 header.
    #[inline(always)]
    pub(crate) fn new(frame: FrameHandle, mac_len: u32, cells: u32, charge: IngressCharge) -> QueuedFrame {
        let (charge_kind, charge_index, charged_cells) = match charge {
            IngressCharge::Own { pg, cells } => (ChargeKind::OWN, u32::from(pg.0), cells),
            IngressCharge::Shared(entry) => (ChargeKind::SHARED, entry, 0),
            IngressCharge::None => (ChargeKind::NONE, 0, 0),
        };
        debug_assert!(cells.max(charged_cells).max(mac_len) <= u32::from(u16::MAX));
        QueuedFrame {
            ready_at: Picos::ZERO,
            frame,
            mac_len: mac_len as u16,
            next_len: 0,
            charge_index,
            cells: cells as u16,
            charged_cells: charged_cells as u16,
            next: NO_FRAME,
            flags: charge_kind,
            tc: 0,
            l3_offset: 0,
            payload: Payload::Other,
        }
    }

    /// Sets whether the frame may be marked CE.
    #[inline(always)]
    pub(crate) fn set_ecn_capable(&mut self, ecn_capable: bool) {
        let ecn_capable = if ecn_capable { FLAG_ECN_CAPABLE } else { 0 };
        self.flags = self.flags & CHARGE_KIND_MASK | ecn_capable;
    }

    /// Records that the frame was trimmed because `queue` refused it.
    pub(crate) fn set_refusing_queue(&mut self, queue: u8) {
        self.flags |= FLAG_TRIMMED | (queue & 7) << TRIMMED_FOR_SHIFT;
    }

    /// Returns true if the frame may be marked CE.
    #[inline(always)]
    pub(crate) fn is_ecn_capable(&self) -> bool {
        self.flags & FLAG_ECN_CAPABLE != 0
    }

    /// Returns the queue that refused the frame before trimming. Returns `None` if the frame was not trimmed.
    #[inline(always)]
    pub(crate) fn trimmed_for_queue(&self) -> Option<usize> {
        (self.flags & FLAG_TRIMMED != 0).then_some(usize::from(self.flags >> TRIMMED_FOR_SHIFT & 7))
    }

    /// Returns the length of the frame in bytes, with FCS.
    #[inline(always)]
    pub(crate) fn mac_len(&self) -> u32 {
        u32::from(self.mac_len)
    }

    /// Returns the number of cells that the frame occupies in its egress queue.
    #[inline(always)]
    pub(crate) fn cells(&self) -> u32 {
        u32::from(self.cells)
    }

    /// Returns the ingress cells of the frame.
    #[inline(always)]
    pub(crate) fn charge(&self) -> IngressCharge {
        match self.flags & CHARGE_KIND_MASK {
            ChargeKind::OWN => IngressCharge::Own {
                pg: PgId(self.charge_index as u16),
                cells: u32::from(self.charged_cells),
            },
            ChargeKind::SHARED => IngressCharge::Shared(self.charge_index),
            _ => IngressCharge::None,
        }
    }
}

const _: () = assert!(core::mem::size_of::<QueuedFrame>() == 32);

/// The frames of one egress queue, first in, first out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameQueue {
    head: u32,
    tail: u32,
    bytes: u64,
    /// `mac_len` of the first frame.
    head_len: u16,
}

impl FrameQueue {
    pub(crate) const EMPTY: FrameQueue = FrameQueue {
        head: NO_FRAME,
        tail: NO_FRAME,
        bytes: 0,
        head_len: 0,
    };

    /// Returns `mac_len` of the first frame. Returns 0 if the queue is empty.
    #[inline(always)]
    pub(crate) fn head_len(&self) -> u32 {
        u32::from(self.head_len)
    }

    /// Returns the number of bytes (`mac_len`) of all frames in the queue.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A frame that was removed from the head of its queue.
pub(crate) struct DequeuedFrame<'a> {
    pub(crate) frame: &'a QueuedFrame,
    /// The shared charges, which are needed to release the ingress cells of the frame.
    pub(crate) charges: &'a mut SharedCellCharges,
    /// Bytes (`mac_len`) that remain in all queues of the port.
    pub(crate) remaining_at_port: u64,
}

/// Table of all frames in egress queues. Each frame is in the list of its queue. No memory is allocated
/// after [`FrameTable::new`].
#[derive(Debug)]
#[repr(C)] // the fields that each frame uses come first
pub(crate) struct FrameTable {
    in_use: usize,
    /// Largest number of frames.
    frames_max: usize,
    frames: Vec<QueuedFrame>,
    /// Number of bytes in all queues of each port. These numbers are in one array, so that load balancing can
    /// compare ports quickly.
    port_bytes: Vec<u64>,
    free: u32,
    shared: SharedCellCharges,
}

impl FrameTable {
    pub(crate) fn new(frames_max: usize, ports: usize) -> FrameTable {
        let frames_max = frames_max.min(NO_FRAME as usize - 1);
        FrameTable {
            frames: Vec::new(),
            frames_max,
            free: NO_FRAME,
            in_use: 0,
            shared: SharedCellCharges::new(),
            port_bytes: vec![0; ports],
        }
    }

    /// Reserves the memory of all frames.
    pub(crate) fn reserve(&mut self) {
        self.frames
            .reserve(self.frames_max.saturating_sub(self.frames.len()));
        self.shared.charges.reserve(self.frames_max / 2);
    }

    /// Returns the number of frames in egress queues. Each copy of a flooded frame is counted.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use
    }

    /// Returns the number of further frames for which the table has space.
    #[inline]
    pub(crate) fn free_entries(&self) -> usize {
        self.frames_max - self.in_use
    }

    /// Appends a frame to a queue of a port. The caller must check [`FrameTable::free_entries`] before.
    #[inline(always)]
    pub(crate) fn push(&mut self, port: PortId, fifo: &mut FrameQueue, frame: QueuedFrame) {
        debug_assert!(self.free_entries() > 0, "free_entries() was not checked");
        let index = self.free;
        let index = match self.frames.get_mut(index as usize) {
            Some(entry) => {
                self.free = entry.next;
                *entry = frame;
                index
            }
            None => {
                self.frames.push(frame);
                self.frames.len() as u32 - 1
            }
        };
        self.in_use += 1;
        fifo.bytes += u64::from(frame.mac_len);
        self.port_bytes[port.index()] += u64::from(frame.mac_len);
        let tail = core::mem::replace(&mut fifo.tail, index);
        match self.frames.get_mut(tail as usize) {
            Some(last) => (last.next, last.next_len) = (index, frame.mac_len),
            None => (fifo.head, fifo.head_len) = (index, frame.mac_len),
        }
    }

    /// Returns the first frame of a queue. Returns `None` if the queue is empty.
    #[inline(always)]
    pub(crate) fn head(&self, fifo: &FrameQueue) -> Option<&QueuedFrame> {
        self.frames.get(fifo.head as usize)
    }

    /// Removes the first frame of a queue and returns a copy of its entry. Returns `None` if the queue
    /// is empty.
    pub(crate) fn dequeue_copy(&mut self, port: PortId, fifo: &mut FrameQueue) -> Option<QueuedFrame> {
        self.dequeue(port, fifo).map(|taken| *taken.frame)
    }

    /// Removes the first frame of a queue. The returned entry stays valid until the next push. Returns `None`
    /// if the queue is empty.
    #[inline(always)]
    pub(crate) fn dequeue(&mut self, port: PortId, fifo: &mut FrameQueue) -> Option<DequeuedFrame<'_>> {
        let index = fifo.head;
        let frame = self.frames.get_mut(index as usize)?;
        fifo.head = core::mem::replace(&mut frame.next, self.free);
        fifo.head_len = frame.next_len;
        let mac_len = u64::from(frame.mac_len);
        fifo.bytes -= mac_len;
        let port_bytes = &mut self.port_bytes[port.index()];
        *port_bytes -= mac_len;
        let remaining_at_port = *port_bytes;
        // The next frame probably leaves soon, and is often no longer in the caches.
        match self.frames.get(fifo.head as usize) {
            Some(behind) => prefetch(behind),
            None => fifo.tail = NO_FRAME,
        }
        self.free = index;
        self.in_use -= 1;
        Some(DequeuedFrame {
            frame: &self.frames[index as usize],
            charges: &mut self.shared,
            remaining_at_port,
        })
    }

    /// Returns the charges that copies of flooded frames share.
    #[inline(always)]
    pub(crate) fn shared_charges_mut(&mut self) -> &mut SharedCellCharges {
        &mut self.shared
    }

    /// Returns the number of bytes (`mac_len`) in all queues of a port.
    #[inline]
    pub(crate) fn port_queued_bytes(&self, port: usize) -> u64 {
        self.port_bytes[port]
    }

    /// Like [`FrameTable::port_queued_bytes`], but for all ports in their order.
    #[inline]
    pub(crate) fn queued_bytes_of_ports(&self) -> &[u64] {
        &self.port_bytes
    }

    /// Returns the priority group of each frame in a queue, starting with the first frame. Frames that use no
    /// cells of a priority group are skipped.
    pub(crate) fn priority_groups_in(&self, fifo: &FrameQueue) -> impl Iterator<Item = PgId> + '_ {
        let first = Some(fifo.head).filter(|index| *index != NO_FRAME);
        let indices = core::iter::successors(first, |index| {
            Some(self.frames[*index as usize].next).filter(|index| *index != NO_FRAME)
        });
        indices.filter_map(|index| match self.frames[index as usize].charge() {
            IngressCharge::Own { pg, .. } => Some(pg),
            IngressCharge::Shared(charge) => self.shared.priority_group(charge),
            IngressCharge::None => None,
        })
    }

    /// Adds a shared charge for `copies` copies of a flooded frame.
    pub(crate) fn add_shared_charge(&mut self, pg: PgId, cells: u32, copies: u32) -> IngressCharge {
        self.shared.add(pg, cells, copies)
    }

    /// Like [`SharedCellCharges::release_charge`].
    pub(crate) fn release_charge(&mut self, charge: IngressCharge) -> Option<(PgId, u32)> {
        self.shared.release_charge(charge)
    }
}

/// The ingress cells of flooded frames. All copies of a frame share one entry.
#[derive(Debug)]
pub(crate) struct SharedCellCharges {
    charges: Vec<FloodedFrameCharge>,
    free: u32,
}

/// The ingress cells of one flooded frame, and the number of its remaining copies.
#[derive(Clone, Copy, Debug)]
struct FloodedFrameCharge {
    pg: PgId,
    cells: u32,
    copies: u32,
    next_free: u32,
}

impl SharedCellCharges {
    fn new() -> SharedCellCharges {
        SharedCellCharges {
            charges: Vec::new(),
            free: NO_FRAME,
        }
    }

    fn priority_group(&self, charge: u32) -> Option<PgId> {
        self.charges.get(charge as usize).map(|shared| shared.pg)
    }

    fn add(&mut self, pg: PgId, cells: u32, copies: u32) -> IngressCharge {
        let entry = FloodedFrameCharge {
            pg,
            cells,
            copies,
            next_free: NO_FRAME,
        };
        let index = self.free;
        if index == NO_FRAME {
            self.charges.push(entry);
            return IngressCharge::Shared(self.charges.len() as u32 - 1);
        }
        self.free = self.charges[index as usize].next_free;
        self.charges[index as usize] = entry;
        IngressCharge::Shared(index)
    }

    /// Releases the cells that one frame uses in its ingress priority group. Returns the group and the number
    /// of cells that are now free. The copies of a flooded frame share these cells, so the result is `None`
    /// until the last copy is released.
    #[inline(always)]
    pub(crate) fn release_charge(&mut self, charge: IngressCharge) -> Option<(PgId, u32)> {
        match charge {
            IngressCharge::Own { pg, cells } => Some((pg, cells)),
            IngressCharge::None => None,
            IngressCharge::Shared(index) => self.release_copy(index),
        }
    }

    #[inline(never)]
    fn release_copy(&mut self, index: u32) -> Option<(PgId, u32)> {
        let entry = &mut self.charges[index as usize];
        entry.copies -= 1;
        if entry.copies > 0 {
            return None;
        }
        let (pg, cells) = (entry.pg, entry.cells);
        entry.next_free = self.free;
        self.free = index;
        Some((pg, cells))
    }
}
