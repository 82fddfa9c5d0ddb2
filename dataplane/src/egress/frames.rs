//! Frames inside the switch: a table of fixed size, queues as lists threaded through it.

use crate::frame::Handle;
use crate::ids::{PgId, PortId};
use crate::parse::Payload;
use crate::prefetch::prefetch;
use crate::time::Picos;

/// No frame: the end of a list.
const NO_FRAME: u32 = u32::MAX;

/// Who pays for a frame's ingress cells.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Charge {
    /// This frame alone: its group and cells.
    Own { pg: PgId, cells: u32 },
    /// A flooded frame: an entry of the table of shared charges, released with the last copy.
    Shared(u32),
    /// Nobody: injected by the switch itself.
    None,
}

/// A frame (or one copy of a flooded one) that waits in an egress queue: half a cache line, since a fabric's tables are larger
/// than a cache. No frame has more than 2^16 cells: the longest has 9 KiB, and a cell is an octet at least.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct QueuedFrame {
    /// Earliest start of its departure.
    pub(crate) ready_at: Picos,
    pub(crate) frame: Handle,
    pub(crate) mac_len: u32,
    /// Group, or entry of the shared charges.
    payer: u32,
    cells: u16,
    charged_cells: u16,
    payer_kind: PayerKind,
    pub(crate) tc: u8,
    pub(crate) l3_offset: u8,
    pub(crate) payload: Payload,
    pub(crate) ecn_capable: bool,
    /// It has been trimmed.
    pub(crate) trimmed: bool,
}

#[derive(Clone, Copy, Debug)]
enum PayerKind {
    Own,
    Shared,
    None,
}

impl QueuedFrame {
    /// A frame that occupies `cells` of its queue, and may leave at once; nothing is known of what is in it.
    #[inline(always)]
    pub(crate) fn new(frame: Handle, mac_len: u32, cells: u32, charge: Charge) -> QueuedFrame {
        let (payer_kind, payer, charged_cells) = match charge {
            Charge::Own { pg, cells } => (PayerKind::Own, u32::from(pg.0), cells),
            Charge::Shared(entry) => (PayerKind::Shared, entry, 0),
            Charge::None => (PayerKind::None, 0, 0),
        };
        debug_assert!(cells.max(charged_cells) <= u32::from(u16::MAX));
        QueuedFrame {
            ready_at: Picos::ZERO,
            frame,
            mac_len,
            payer,
            cells: cells as u16,
            charged_cells: charged_cells as u16,
            payer_kind,
            tc: 0,
            l3_offset: 0,
            payload: Payload::Other,
            ecn_capable: false,
            trimmed: false,
        }
    }

    /// Cells that it occupies of its queue.
    #[inline(always)]
    pub(crate) fn cells(&self) -> u32 {
        u32::from(self.cells)
    }

    /// Who pays for its ingress cells.
    #[inline(always)]
    pub(crate) fn charge(&self) -> Charge {
        match self.payer_kind {
            PayerKind::Own => Charge::Own {
                pg: PgId(self.payer as u16),
                cells: u32::from(self.charged_cells),
            },
            PayerKind::Shared => Charge::Shared(self.payer),
            PayerKind::None => Charge::None,
        }
    }
}

const _: () = assert!(core::mem::size_of::<QueuedFrame>() == 32);

/// Frames that wait for one queue of a port: first come, first served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
    bytes: u64,
}

impl Fifo {
    pub(crate) const EMPTY: Fifo = Fifo {
        head: NO_FRAME,
        tail: NO_FRAME,
        bytes: 0,
    };

    /// Bytes (`mac_len`) that wait in it.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// All frames in the switch, and the lists that its queues are. Nothing is allocated after [`FrameTable::new`].
#[derive(Debug)]
pub(crate) struct FrameTable {
    frames: Vec<QueuedFrame>,
    /// What follows each frame, in its queue or in the list of free places. Apart from the frames, which are read in one
    /// go at their departure: a field written just before makes that wait.
    next: Vec<u32>,
    /// The most frames there can be. Room for all is reserved at the start, and touched when so many are there at once.
    frames_max: usize,
    free: u32,
    in_use: usize,
    shared: SharedCharges,
    /// Bytes in all queues of each port: side by side, for those that compare ports.
    port_bytes: Vec<u64>,
}

impl FrameTable {
    pub(crate) fn new(frames_max: usize, ports: usize) -> FrameTable {
        let frames_max = frames_max.min(NO_FRAME as usize - 1);
        FrameTable {
            frames: Vec::with_capacity(frames_max),
            next: Vec::with_capacity(frames_max),
            frames_max,
            free: NO_FRAME,
            in_use: 0,
            shared: SharedCharges::new(frames_max / 2),
            port_bytes: vec![0; ports],
        }
    }

    /// Frames in the switch, copies counted.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use
    }

    /// How many frames still fit.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.frames_max - self.in_use
    }

    /// Appends to a queue of a port. The caller has checked [`FrameTable::room`].
    #[inline(always)]
    pub(crate) fn push(&mut self, port: PortId, fifo: &mut Fifo, frame: QueuedFrame) {
        debug_assert!(self.room() > 0, "room() was not checked");
        let index = match self.frames.get_mut(self.free as usize) {
            Some(place) => {
                *place = frame;
                let index = self.free;
                self.free = core::mem::replace(&mut self.next[index as usize], NO_FRAME);
                index
            }
            None => {
                self.frames.push(frame);
                self.next.push(NO_FRAME);
                self.frames.len() as u32 - 1
            }
        };
        self.in_use += 1;
        fifo.bytes += u64::from(frame.mac_len);
        self.port_bytes[port.index()] += u64::from(frame.mac_len);
        let tail = core::mem::replace(&mut fifo.tail, index);
        match tail {
            NO_FRAME => fifo.head = index,
            tail => self.next[tail as usize] = index,
        }
    }

    /// The frame at the head of a queue.
    #[inline(always)]
    pub(crate) fn head(&self, fifo: &Fifo) -> Option<&QueuedFrame> {
        self.frames.get(fifo.head as usize)
    }

    /// Removes the head of a queue of a port.
    pub(crate) fn pop(&mut self, port: PortId, fifo: &mut Fifo) -> Option<QueuedFrame> {
        self.take(port, fifo).map(|(frame, _)| *frame)
    }

    /// As [`FrameTable::pop`], the frame where it lies, until the next one is pushed, and the charges that it may share.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        port: PortId,
        fifo: &mut Fifo,
    ) -> Option<(&QueuedFrame, &mut SharedCharges)> {
        let index = fifo.head;
        let next = self.next.get_mut(index as usize)?;
        let frame = self.frames.get(index as usize)?;
        fifo.head = core::mem::replace(next, self.free);
        fifo.bytes -= u64::from(frame.mac_len);
        self.port_bytes[port.index()] -= u64::from(frame.mac_len);
        // What stands behind it leaves next, and has been in no cache since it came.
        match (
            self.frames.get(fifo.head as usize),
            self.next.get(fifo.head as usize),
        ) {
            (Some(behind), Some(next)) => {
                prefetch(behind);
                prefetch(next);
            }
            _ => fifo.tail = NO_FRAME,
        }
        self.free = index;
        self.in_use -= 1;
        Some((frame, &mut self.shared))
    }

    /// Bytes (`mac_len`) that wait in all queues of a port.
    #[inline]
    pub(crate) fn port_queued_bytes(&self, port: usize) -> u64 {
        self.port_bytes[port]
    }

    /// As [`FrameTable::port_queued_bytes`], of all ports in their order.
    #[inline]
    pub(crate) fn queued_bytes_of_ports(&self) -> &[u64] {
        &self.port_bytes
    }

    /// The groups that pay for the frames of a queue, from its head; those that nobody pays for are left out.
    pub(crate) fn groups_in(&self, fifo: &Fifo) -> impl Iterator<Item = PgId> + '_ {
        let first = Some(fifo.head).filter(|index| *index != NO_FRAME);
        let places = core::iter::successors(first, |index| {
            Some(self.next[*index as usize]).filter(|index| *index != NO_FRAME)
        });
        places.filter_map(|index| match self.frames[index as usize].charge() {
            Charge::Own { pg, .. } => Some(pg),
            Charge::Shared(charge) => self.shared.group(charge),
            Charge::None => None,
        })
    }

    /// Opens a charge for `copies` copies of a flooded frame.
    pub(crate) fn share_charge(&mut self, pg: PgId, cells: u32, copies: u32) -> Charge {
        self.shared.open(pg, cells, copies)
    }

    /// As [`SharedCharges::settle`].
    pub(crate) fn settle(&mut self, charge: Charge) -> Option<(PgId, u32)> {
        self.shared.settle(charge)
    }
}

/// What flooded frames are charged, each once for all of its copies.
#[derive(Debug)]
pub(crate) struct SharedCharges {
    charges: Vec<SharedCharge>,
    free: u32,
}

/// A charge that several copies share.
#[derive(Clone, Copy, Debug)]
struct SharedCharge {
    pg: PgId,
    cells: u32,
    copies: u32,
    next_free: u32,
}

impl SharedCharges {
    fn new(most: usize) -> SharedCharges {
        SharedCharges {
            charges: Vec::with_capacity(most),
            free: NO_FRAME,
        }
    }

    fn group(&self, charge: u32) -> Option<PgId> {
        self.charges.get(charge as usize).map(|shared| shared.pg)
    }

    fn open(&mut self, pg: PgId, cells: u32, copies: u32) -> Charge {
        let entry = SharedCharge {
            pg,
            cells,
            copies,
            next_free: NO_FRAME,
        };
        let index = self.free;
        if index == NO_FRAME {
            self.charges.push(entry);
            return Charge::Shared(self.charges.len() as u32 - 1);
        }
        self.free = self.charges[index as usize].next_free;
        self.charges[index as usize] = entry;
        Charge::Shared(index)
    }

    /// Takes one copy off a charge; the cells to release once nothing refers to them any more.
    #[inline(always)]
    pub(crate) fn settle(&mut self, charge: Charge) -> Option<(PgId, u32)> {
        match charge {
            Charge::Own { pg, cells } => Some((pg, cells)),
            Charge::None => None,
            Charge::Shared(index) => self.settle_copy(index),
        }
    }

    #[inline(never)]
    fn settle_copy(&mut self, index: u32) -> Option<(PgId, u32)> {
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
