//! Mutants that receive pauses in a wrong way.

use xoff_units::Picos;
use xoff_wire::mac_control::DESTINATION;
use xoff_wire::{MacControl, PRIORITIES, Pfc};

use super::timers::{Timers, with_timers};
use super::{Mutant, mutant};
use crate::device::{Counters, Operation};
use crate::link_frame::{Defect, LinkFrame};
use crate::model::mutation::{Mutation, OnPfc, OnReceive, OnTransmit, pfc_frame};
use crate::traffic::{INSTRUMENT_MAC, identify_data_frame};

/// The bit of the class that most checks pause.
const BIT_3: u8 = 1 << 3;
/// The longest pause of all classes.
const LONGEST: [u16; PRIORITIES] = [u16::MAX; PRIORITIES];

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "null-pfc-pauses",
        "A1",
        "pauses all classes on a PFC frame without a bit and a time",
        |_| {
            Box::new(OnPfc(|_, pfc: Pfc| {
                let is_null = pfc == Pfc::default();
                Some(if is_null {
                    Pfc {
                        enable: 0xff,
                        quanta: LONGEST,
                    }
                } else {
                    pfc
                })
            }))
        },
    ),
    mutant("forwards-pfc", "A1", "passes PFC frames to its host", |_| {
        Box::new(ForwardsPfc(0))
    }),
    mutant(
        "pauses-everything",
        "A2",
        "pauses all classes on each XOFF",
        |_| {
            Box::new(OnPfc(|_, pfc: Pfc| {
                let longest = pfc.quanta.iter().copied().max().unwrap_or_default();
                let pauses_one = pfc.is_xoff() && pfc.enable.count_ones() == 1;
                Some(if pauses_one {
                    Pfc {
                        enable: 0xff,
                        quanta: [longest; PRIORITIES],
                    }
                } else {
                    pfc
                })
            }))
        },
    ),
    mutant("seven-classes", "A3", "ignores bit 7 of the vector", |_| {
        Box::new(OnPfc(|_, pfc: Pfc| {
            Some(Pfc {
                enable: pfc.enable & 0x7f,
                ..pfc
            })
        }))
    }),
    mutant(
        "one-timer",
        "A4",
        "uses the time of the lowest enabled class for all classes",
        |_| {
            Box::new(OnPfc(|_, pfc: Pfc| {
                let lowest = pfc.enable.trailing_zeros() as usize % PRIORITIES;
                Some(Pfc {
                    quanta: [pfc.quanta[lowest]; PRIORITIES],
                    ..pfc
                })
            }))
        },
    ),
    mutant("resumes-late", "A5", "pauses for 10 % longer", |_| {
        Box::new(scale_times(11, 10))
    }),
    mutant("resumes-early", "A5", "pauses for 10 % less", |_| {
        Box::new(scale_times(9, 10))
    }),
    mutant(
        "adds-timers",
        "A6",
        "adds a new time to the running timer",
        |link| Box::new(Timers::new(link, |left, new| left.saturating_add(new))),
    ),
    mutant(
        "keeps-timer",
        "A6",
        "ignores a new time while a class is paused",
        |link| Box::new(Timers::new(link, |left, _| left)),
    ),
    mutant(
        "ignores-xon",
        "A7",
        "ignores the time 0, so it resumes only when the timer expires",
        |_| {
            Box::new(OnPfc(|_, pfc: Pfc| {
                let is_xoff = |class: &usize| pfc.quanta[*class] != 0;
                let enable = (0..PRIORITIES)
                    .filter(is_xoff)
                    .fold(0, |bits, class| bits | 1 << class);
                Some(Pfc {
                    enable: pfc.enable & enable,
                    ..pfc
                })
            }))
        },
    ),
    mutant(
        "ignores-vector",
        "A8",
        "pauses each class whose time is not 0",
        |_| {
            Box::new(OnPfc(|_, pfc: Pfc| {
                let bits = (0..PRIORITIES).map(|class| u8::from(pfc.quanta[class] != 0) << class);
                Some(Pfc {
                    enable: pfc.enable | bits.fold(0, |all, bit| all | bit),
                    ..pfc
                })
            }))
        },
    ),
    mutant(
        "zero-is-longest",
        "A9",
        "pauses a running class for the longest time on the time 0",
        |link| Box::new(ZeroIsLongest(Timers::new(link, |_, new| new))),
    ),
    mutant(
        "obeys-disabled-class",
        "A10",
        "pauses class 3 without PFC if class 0 has PFC",
        |_| {
            Box::new(PfcMode {
                is_wrong: |enabled| enabled & 1 != 0 && enabled & BIT_3 == 0,
            })
        },
    ),
    mutant(
        "ignores-pfc-off",
        "A11",
        "pauses all classes even if PFC is disabled",
        |_| {
            Box::new(PfcMode {
                is_wrong: |enabled| enabled == 0,
            })
        },
    ),
    mutant(
        "pauses-in-pfc-mode",
        "A12",
        "treats 802.3x PAUSE as a PFC frame for all classes",
        |_| {
            Box::new(OnReceive(|_, frame: LinkFrame| {
                match MacControl::parse(&frame.bytes) {
                    Ok(MacControl::Pause { quanta }) if quanta == u16::MAX => {
                        let pfc = Pfc {
                            enable: 0xff,
                            quanta: [quanta; PRIORITIES],
                        };
                        Some(pfc_frame(pfc, INSTRUMENT_MAC))
                    }
                    _ => Some(frame),
                }
            }))
        },
    ),
    mutant(
        "no-link-pause",
        "A13",
        "ignores 802.3x PAUSE in 802.3x mode",
        |_| {
            Box::new(OnReceive(|_, frame: LinkFrame| {
                let is_pause = matches!(MacControl::parse(&frame.bytes), Ok(MacControl::Pause { .. }));
                (!is_pause).then_some(frame)
            }))
        },
    ),
    mutant(
        "stuck-after-disable",
        "A14",
        "keeps a class paused for ever if PFC is disabled during its pause",
        |link| {
            Box::new(StuckAfterDisable {
                timers: Timers::new(link, |_, new| new),
                is_stuck: false,
            })
        },
    ),
    mutant(
        "any-address",
        "A16",
        "accepts PFC frames to any group address",
        |_| Box::new(correct_bytes(|bytes| bytes[0] & 1 != 0, 0, &DESTINATION)),
    ),
    mutant("any-opcode", "A16", "accepts any opcode as PFC", |_| {
        Box::new(correct_bytes(
            |bytes| bytes[12..14] == [0x88, 0x08] && bytes[15] == 2,
            14,
            &[1, 1],
        ))
    }),
    mutant(
        "accepts-bad-fcs",
        "A17",
        "accepts frames with a wrong FCS",
        |_| {
            Box::new(OnReceive(|_, frame: LinkFrame| {
                let defect = frame.defect.filter(|defect| *defect != Defect::WrongFcs);
                Some(LinkFrame { defect, ..frame })
            }))
        },
    ),
    mutant(
        "accepts-runts",
        "A17",
        "accepts frames that are shorter than 64 bytes",
        |_| {
            Box::new(OnReceive(|_, frame: LinkFrame| {
                let defect = frame.defect.filter(|defect| *defect != Defect::Runt);
                Some(LinkFrame { defect, ..frame })
            }))
        },
    ),
    mutant(
        "only-64-bytes",
        "A17",
        "ignores PFC frames that are longer than 64 bytes",
        |_| {
            Box::new(OnReceive(|_, frame: LinkFrame| {
                let is_long = is_mac_control(&frame) && frame.bytes.len() > 60;
                (!is_long).then_some(frame)
            }))
        },
    ),
    mutant(
        "needs-zero-reserved-bits",
        "A18",
        "ignores PFC frames with reserved bits",
        |_| {
            Box::new(OnReceive(|_, frame: LinkFrame| {
                // Opcode 0x0101, and the high byte of the vector.
                let is_ignored = is_mac_control(&frame) && frame.bytes[14..17] == [1, 1, 0xff];
                (!is_ignored).then_some(frame)
            }))
        },
    ),
    mutant(
        "reads-reserved-bits",
        "A18",
        "uses the reserved bits of the vector as enable bits",
        |_| {
            Box::new(OnReceive(|_, mut frame: LinkFrame| {
                if is_mac_control(&frame) && frame.bytes[14..16] == [1, 1] {
                    frame.bytes[17] |= frame.bytes[16];
                }
                Some(frame)
            }))
        },
    ),
    mutant(
        "accepts-tagged-pfc",
        "A19",
        "removes the tag of a PFC frame and pauses",
        |_| {
            Box::new(OnReceive(|_, mut frame: LinkFrame| {
                if frame.bytes.get(16..18) == Some(&[0x88, 0x08]) {
                    frame.bytes.drain(12..16);
                }
                Some(frame)
            }))
        },
    ),
    mutant(
        "needs-source",
        "A20",
        "ignores PFC frames with the source address zero",
        |_| {
            Box::new(OnReceive(|_, frame: LinkFrame| {
                let is_ignored = is_mac_control(&frame) && frame.bytes[6..12] == [0; 6];
                (!is_ignored).then_some(frame)
            }))
        },
    ),
    mutant(
        "loses-back-to-back",
        "A21",
        "loses a PFC frame that arrives when the previous pause ends",
        |link| Box::new(LosesBackToBack(Timers::new(link, |_, new| new))),
    ),
    mutant(
        "coarse-times",
        "A22",
        "takes the times 0x1FFF, 0x3FFF and 0x7FFF for 0x1000, 0x3000 and 0x7000",
        |_| {
            Box::new(OnPfc(|_, pfc: Pfc| {
                let round = |time: u16| {
                    if time < 0x8000 && time & 0x0fff == 0x0fff {
                        time & 0xf000
                    } else {
                        time
                    }
                };
                Some(Pfc {
                    quanta: pfc.quanta.map(round),
                    ..pfc
                })
            }))
        },
    ),
    mutant(
        "loses-at-transition",
        "A23",
        "loses a frame of class 3 at every hundredth XON",
        |_| {
            Box::new(LosesAtTransition {
                xons: 0,
                is_losing: false,
            })
        },
    ),
    mutant(
        "pauses-reception",
        "A24",
        "drops received frames of a paused class",
        |link| Box::new(PausesReception(Timers::new(link, |_, new| new))),
    ),
    mutant(
        "watchdog-reset",
        "A26",
        "resets its port after a storm of 15 of the longest pauses",
        |link| {
            Box::new(WatchdogReset {
                timers: Timers::new(link, |_, new| new),
                paused_since: None,
                resets: 0,
            })
        },
    ),
];

/// Returns whether a frame is an untagged MAC control frame.
fn is_mac_control(frame: &LinkFrame) -> bool {
    frame.bytes.get(12..14) == Some(&[0x88, 0x08])
}

/// Changes all pause times by a factor.
fn scale_times(numerator: u32, denominator: u32) -> impl Mutation {
    let scale = move |time: u16| (u32::from(time) * numerator / denominator).min(u32::from(u16::MAX)) as u16;
    OnPfc(move |_, pfc: Pfc| {
        Some(Pfc {
            quanta: pfc.quanta.map(scale),
            ..pfc
        })
    })
}

/// Replaces bytes of MAC control frames that satisfy a condition, so that the device accepts them.
fn correct_bytes(is_wrong: fn(&[u8]) -> bool, at: usize, bytes: &'static [u8]) -> impl Mutation {
    OnReceive(move |_, mut frame: LinkFrame| {
        if is_mac_control(&frame) && is_wrong(&frame.bytes) {
            frame.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        }
        Some(frame)
    })
}

/// Counts PFC frames as passed to the host.
struct ForwardsPfc(u64);

impl Mutation for ForwardsPfc {
    fn receive(&mut self, _: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        self.0 += u64::from(is_mac_control(&frame));
        Some(frame)
    }

    fn report(&self, counters: &mut Counters) {
        counters.control_frames_to_host += self.0;
    }
}

struct ZeroIsLongest(Timers);

impl Mutation for ZeroIsLongest {
    fn receive(&mut self, now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        with_timers(frame, |mut pfc| {
            for class in (0..PRIORITIES).filter(|class| pfc.enable & (1 << class) != 0) {
                if pfc.quanta[class] == 0 && !self.0.is_paused(class, now) {
                    pfc.quanta[class] = u16::MAX;
                }
            }
            Some(self.0.set(now, pfc))
        })
    }
}

/// Keeps PFC of all classes in effect for some settings.
struct PfcMode {
    is_wrong: fn(u8) -> bool,
}

impl Mutation for PfcMode {
    fn operate(&mut self, _: Picos, operation: Operation) -> Option<Operation> {
        match operation {
            Operation::SetPfc { enabled } if (self.is_wrong)(enabled) => {
                Some(Operation::SetPfc { enabled: 0xff })
            }
            other => Some(other),
        }
    }
}

struct StuckAfterDisable {
    timers: Timers,
    is_stuck: bool,
}

impl Mutation for StuckAfterDisable {
    fn receive(&mut self, now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        with_timers(frame, |pfc| Some(self.timers.set(now, pfc)))
    }

    fn operate(&mut self, now: Picos, operation: Operation) -> Option<Operation> {
        if operation == (Operation::SetPfc { enabled: 0 }) && self.timers.is_paused(3, now) {
            self.is_stuck = true;
        }
        Some(operation)
    }

    fn transmit(&mut self, _: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        let is_class_3 = identify_data_frame(&frame.bytes).is_some_and(|(class, _)| class == 3);
        (!(self.is_stuck && is_class_3)).then_some(frame)
    }
}

struct LosesBackToBack(Timers);

impl Mutation for LosesBackToBack {
    fn receive(&mut self, now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        with_timers(frame, |pfc| {
            let end = self.0.paused_until[3];
            let near = Picos(self.0.quantum.0 * 20);
            let is_lost =
                pfc.enable == BIT_3 && end.since(now) < near && now.since(end) < near && pfc.is_xoff();
            (!is_lost || end == Picos::ZERO).then(|| self.0.set(now, pfc))
        })
    }
}

struct LosesAtTransition {
    xons: u64,
    is_losing: bool,
}

impl Mutation for LosesAtTransition {
    fn receive(&mut self, _: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        if let Ok(MacControl::Pfc(pfc)) = MacControl::parse(&frame.bytes)
            && !pfc.is_xoff()
        {
            self.xons += 1;
            self.is_losing = self.xons.is_multiple_of(100);
        }
        Some(frame)
    }

    fn transmit(&mut self, now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        let is_lost =
            self.is_losing && identify_data_frame(&frame.bytes).is_some_and(|(class, _)| class == 3);
        self.is_losing &= !is_lost;
        OnTransmit(|_, frame| (!is_lost).then_some(frame)).transmit(now, frame)
    }
}

struct PausesReception(Timers);

impl Mutation for PausesReception {
    fn receive(&mut self, now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        if let Some((class, _)) = identify_data_frame(&frame.bytes) {
            return (!self.0.is_paused(class, now)).then_some(frame);
        }
        with_timers(frame, |pfc| Some(self.0.set(now, pfc)))
    }
}

struct WatchdogReset {
    timers: Timers,
    paused_since: Option<Picos>,
    resets: u64,
}

impl Mutation for WatchdogReset {
    fn receive(&mut self, now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        with_timers(frame, |pfc| {
            if !self.timers.is_paused(3, now) {
                self.paused_since = None;
            }
            let since = *self.paused_since.get_or_insert(now);
            let limit = Picos(self.timers.quantum.0 * u64::from(u16::MAX) * 15);
            self.resets += u64::from(now.since(since) > limit);
            Some(self.timers.set(now, pfc))
        })
    }

    fn report(&self, counters: &mut Counters) {
        counters.link_resets += self.resets;
    }
}
