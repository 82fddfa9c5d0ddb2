//! Mutants that send pauses in a wrong way.

use xoff_units::{LinkTiming, Picos};
use xoff_wire::{MacControl, PRIORITIES, Pfc};

use super::{Mutant, mutant};
use crate::device::{Counters, Operation};
use crate::link_frame::LinkFrame;
use crate::model::mutation::{Mutation, OnCounters, OnOperation, OnSentPfc, sent_pfc_frame};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("never-pauses-peer", "B1", "never sends PFC", |_| {
        Box::new(OnSentPfc(|_, _| None))
    }),
    mutant(
        "pauses-lossy-class",
        "B2",
        "sends PFC for a class without PFC",
        |_| {
            Box::new(OnOperation(|operation| {
                Some(match operation {
                    Operation::SetPfc { enabled: 0xfe } => Operation::SetPfc { enabled: 0xff },
                    other => other,
                })
            }))
        },
    ),
    mutant("wrong-padding", "B3", "pads PFC frames with 0xFF", |_| {
        Box::new(change_bytes(34, &[0xff; 26]))
    }),
    mutant(
        "zero-source",
        "B3",
        "sends PFC frames from the address zero",
        |_| Box::new(change_bytes(6, &[0; 6])),
    ),
    mutant(
        "reserved-bits",
        "B3",
        "sets the reserved bits of the vector",
        |_| Box::new(change_bytes(16, &[0xff])),
    ),
    mutant(
        "tagged-pfc",
        "B3",
        "sends each PFC frame a second time, with a tag",
        |_| Box::new(TagsPfc(None)),
    ),
    mutant(
        "times-without-bit",
        "B4",
        "sends the time 0xFFFF for classes whose bit is clear",
        |_| {
            Box::new(OnSentPfc(|pfc: Pfc, _| {
                let time = |class: usize| {
                    if pfc.enable & (1 << class) == 0 {
                        u16::MAX
                    } else {
                        pfc.quanta[class]
                    }
                };
                let quanta = std::array::from_fn(time);
                Some(sent_pfc_frame(Pfc { quanta, ..pfc }))
            }))
        },
    ),
    mutant(
        "never-resumes-peer",
        "B5",
        "pauses its peer for ever once it is congested",
        |_| {
            Box::new(OnOperation(|operation| match operation {
                Operation::SetUnread { classes: 0 } => None,
                Operation::SetUnread { classes } => Some(Operation::SetUnread { classes: classes | 8 }),
                other => Some(other),
            }))
        },
    ),
    mutant(
        "never-refreshes",
        "B6",
        "does not repeat the pause of a congested class",
        |_| Box::new(NeverRefreshes { last: None }),
    ),
    mutant(
        "resumes-all-classes",
        "B7",
        "resumes all classes when one is no longer congested",
        |_| {
            Box::new(OnSentPfc(|pfc: Pfc, frame| {
                let resumes_one = pfc.enable.count_ones() > 1 && has_xon(&pfc);
                Some(if resumes_one {
                    sent_pfc_frame(Pfc {
                        quanta: [0; PRIORITIES],
                        ..pfc
                    })
                } else {
                    frame
                })
            }))
        },
    ),
    mutant(
        "counts-no-discards",
        "B8",
        "does not count discarded frames of classes with PFC",
        |_| {
            Box::new(OnCounters(|counters: &mut Counters| {
                counters.rx_discards[1..].fill(0)
            }))
        },
    ),
    mutant(
        "endless-storm",
        "B10",
        "pauses its peer without a limit if its host does not read",
        |link| Box::new(EndlessStorm::new(link)),
    ),
    mutant(
        "pauses-when-idle",
        "B11",
        "sends PFC frames for no class while it is not congested",
        |link| {
            Box::new(PausesWhenIdle {
                interval: link.pause_duration(4_000),
                next: Picos::ZERO,
                is_congested: false,
            })
        },
    ),
];

/// Returns whether a PFC frame resumes a class.
fn has_xon(pfc: &Pfc) -> bool {
    (0..PRIORITIES).any(|class| pfc.enable & (1 << class) != 0 && pfc.quanta[class] == 0)
}

/// Overwrites bytes of each sent PFC frame.
fn change_bytes(at: usize, bytes: &'static [u8]) -> impl Mutation {
    OnSentPfc(move |_, mut frame: LinkFrame| {
        frame.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Some(frame)
    })
}

/// Sends a tagged copy before each PFC frame.
struct TagsPfc(Option<LinkFrame>);

impl Mutation for TagsPfc {
    fn transmit(&mut self, _: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        if MacControl::parse(&frame.bytes).is_err() {
            return Some(frame);
        }
        let mut tagged = frame.clone();
        tagged.bytes.splice(12..12, [0x81, 0, 0x60, 0]);
        self.0 = Some(frame);
        Some(tagged)
    }

    fn additional_frame(&mut self, _: Picos) -> Option<LinkFrame> {
        self.0.take()
    }
}

/// Removes each PFC frame that repeats the one before.
struct NeverRefreshes {
    last: Option<Pfc>,
}

impl Mutation for NeverRefreshes {
    fn transmit(&mut self, _: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        let Ok(MacControl::Pfc(pfc)) = MacControl::parse(&frame.bytes) else {
            return Some(frame);
        };
        let is_refresh = self.last == Some(pfc);
        self.last = Some(pfc);
        (!is_refresh).then_some(frame)
    }
}

/// Continues to send the refreshes of a congested class that storm prevention removes.
struct EndlessStorm {
    refresh: Picos,
    last: Option<LinkFrame>,
    next: Picos,
}

impl EndlessStorm {
    fn new(link: &LinkTiming) -> EndlessStorm {
        EndlessStorm {
            refresh: Picos(link.pause_duration(u16::MAX).0 / 2 + link.pause_duration(100).0),
            last: None,
            next: Picos::NEVER,
        }
    }
}

impl Mutation for EndlessStorm {
    fn transmit(&mut self, now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        if let Ok(MacControl::Pfc(pfc)) = MacControl::parse(&frame.bytes) {
            self.next = if pfc.is_xoff() {
                now + self.refresh
            } else {
                Picos::NEVER
            };
            self.last = Some(frame.clone());
        }
        Some(frame)
    }

    fn additional_frame(&mut self, now: Picos) -> Option<LinkFrame> {
        if now < self.next {
            return None;
        }
        self.next = now + self.refresh;
        self.last.clone()
    }

    fn next_additional_frame(&self) -> Picos {
        self.next
    }
}

/// Sends a PFC frame without a bit at an interval, except while the device is congested.
struct PausesWhenIdle {
    interval: Picos,
    next: Picos,
    is_congested: bool,
}

impl Mutation for PausesWhenIdle {
    fn operate(&mut self, _: Picos, operation: Operation) -> Option<Operation> {
        if let Operation::SetUnread { classes } = operation {
            self.is_congested |= classes != 0;
        }
        Some(operation)
    }

    fn additional_frame(&mut self, now: Picos) -> Option<LinkFrame> {
        if now < self.next_additional_frame() {
            return None;
        }
        self.next = now + self.interval;
        Some(sent_pfc_frame(Pfc::default()))
    }

    fn next_additional_frame(&self) -> Picos {
        if self.is_congested {
            Picos::NEVER
        } else {
            self.next
        }
    }
}
