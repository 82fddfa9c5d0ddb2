//! Mutants with wrong settings and counters.

use xoff_wire::lldp::{self, Lldpdu, PfcConfiguration};

use super::{Mutant, mutant};
use crate::device::{Counters, Operation};
use crate::link_frame::LinkFrame;
use crate::model::mutation::{Mutation, OnCounters, OnOperation, OnReceive};
use crate::traffic::{INSTRUMENT_MAC, identify_data_frame};
use xoff_units::Picos;

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "ignores-dcbx",
        "C1",
        "ignores DCBX although it is willing",
        |_| {
            Box::new(OnReceive(|_, frame: LinkFrame| {
                (!is_lldp(&frame)).then_some(frame)
            }))
        },
    ),
    mutant(
        "keeps-expired-dcbx",
        "C1",
        "keeps the settings of its peer after the TTL",
        |_| Box::new(change_lldp(|pdu| pdu.ttl_s = u16::MAX)),
    ),
    mutant(
        "accepts-malformed-dcbx",
        "C2",
        "adopts the settings of a PFC TLV that is too long",
        |_| {
            Box::new(change_lldp(|pdu| {
                pdu.dcbx.pfc = Some(pdu.dcbx.pfc.unwrap_or(PfcConfiguration {
                    is_willing: false,
                    can_bypass_macsec: false,
                    capability: 8,
                    enabled: 8,
                }));
            }))
        },
    ),
    mutant("merges-neighbours", "C2", "treats two neighbours as one", |_| {
        Box::new(change_lldp(|pdu| pdu.port_id = lldp::PortId::local("1")))
    }),
    mutant(
        "loses-at-toggle",
        "C3",
        "loses a frame of another class at every hundredth change of PFC",
        |_| {
            Box::new(LosesAtToggle {
                changes: 0,
                is_losing: false,
            })
        },
    ),
    mutant(
        "counts-sent-twice",
        "C5",
        "counts each sent PFC frame twice",
        |_| {
            Box::new(OnCounters(|counters: &mut Counters| {
                counters.pfc_tx.iter_mut().for_each(|count| *count *= 2);
            }))
        },
    ),
    mutant(
        "short-pause-time",
        "C5",
        "reports 80 % of the paused time",
        |_| {
            Box::new(OnCounters(|counters: &mut Counters| {
                counters
                    .paused_ns
                    .iter_mut()
                    .for_each(|time| *time = *time * 4 / 5);
            }))
        },
    ),
    mutant("ignores-trust", "C6", "always classifies by DSCP", |_| {
        Box::new(OnOperation(|operation| match operation {
            Operation::SetTrust(_) => None,
            other => Some(other),
        }))
    }),
];

fn is_lldp(frame: &LinkFrame) -> bool {
    frame.bytes.get(12..14) == Some(&lldp::ETHERTYPE.to_be_bytes())
}

/// Changes each received LLDP frame. Malformed TLVs are removed.
fn change_lldp(change: fn(&mut Lldpdu)) -> impl Mutation {
    OnReceive(move |_, frame: LinkFrame| {
        let Ok(received) = Lldpdu::parse(&frame.bytes) else {
            return Some(frame);
        };
        let mut pdu = received.pdu;
        change(&mut pdu);
        pdu.to_frame(INSTRUMENT_MAC).ok().map(LinkFrame::new)
    })
}

struct LosesAtToggle {
    changes: u64,
    is_losing: bool,
}

impl Mutation for LosesAtToggle {
    fn operate(&mut self, _: Picos, operation: Operation) -> Option<Operation> {
        if matches!(operation, Operation::SetPfc { .. }) {
            self.changes += 1;
            self.is_losing = self.changes.is_multiple_of(100);
        }
        Some(operation)
    }

    fn transmit(&mut self, _: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        let is_lost =
            self.is_losing && identify_data_frame(&frame.bytes).is_some_and(|(class, _)| class != 3);
        self.is_losing &= !is_lost;
        (!is_lost).then_some(frame)
    }
}
