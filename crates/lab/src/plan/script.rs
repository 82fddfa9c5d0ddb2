//! The plan of a script. In the plan, names are resolved to indices, and quantities are numbers.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{ConfigLayer, FlowPlan};
use crate::expr::Expression;
use xoff_fabric::{Fault, FaultAction, FrameSelector};

/// The steps of a script, after the expansion of `repeat` and `$(...)`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptPlan {
    /// The steps in the order of execution.
    pub steps: Vec<StepPlan>,
}

impl ScriptPlan {
    /// Returns all jobs and flows that a `start` step starts. They do not start automatically.
    pub fn started_targets(&self) -> HashSet<WorkloadTarget> {
        let targets = self.steps.iter().filter_map(|step| match &step.action {
            ActionPlan::Start(targets) => Some(targets),
            _ => None,
        });
        targets.flatten().copied().collect()
    }

    /// Returns the `send` steps in the order of execution. Their flow numbers follow the flow numbers of the
    /// workload: the first `send` step has the number `workload.flows.len()`.
    pub fn send_steps(&self) -> impl Iterator<Item = &SendPlan> {
        self.steps.iter().filter_map(|step| match &step.action {
            ActionPlan::Send(send) => Some(send),
            _ => None,
        })
    }
}

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepPlan {
    /// The start time of the step in nanoseconds of model time, from the start of the workload. `None` means
    /// the end of the previous step. The times of a script never decrease. If the previous step ends later
    /// than this time, the step starts late, and a failed check is reported.
    pub at_ns: Option<u64>,
    /// The name of the step in results. `None` if the lab file names none.
    pub name: Option<String>,
    /// The condition of the step. If the condition is false, the step is skipped. With `None`, the step
    /// always runs.
    pub when: Option<Expression>,
    /// The action of the step. A step of the lab file with several actions (`clear`) has one entry for
    /// each action.
    pub action: ActionPlan,
    /// Where the lab file defines this step, as `FILE:LINE`, for use in messages.
    pub source: String,
}

/// The action of a step. Only `Wait` and `WaitUntil` take model time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ActionPlan {
    /// A host sends frames.
    Send(SendPlan),
    /// A host sends frames whose bytes the lab file contains.
    Inject(InjectPlan),
    /// Jobs and flows start.
    Start(Vec<WorkloadTarget>),
    /// The jobs post no more messages, and the flows send no more frames.
    Stop(Vec<WorkloadTarget>),
    /// The egress of a port or of one of its queues is blocked.
    Block(EgressBlockPlan),
    /// A blocked port or queue sends again.
    Unblock(EgressBlockPlan),
    /// A host sends PFC or 802.3x PAUSE frames.
    Pause(PausePlan),
    /// A link goes up or down.
    Link {
        /// The index of the link in [`super::LabPlan::links`].
        link: usize,
        /// Whether the link goes up.
        up: bool,
    },
    /// A link loses or damages frames from this step on. Faults of earlier steps continue.
    Fault(FaultPlan),
    /// All faults of the given link directions end.
    Heal(LinkDirectionPlan),
    /// A switch gets more configuration layers and applies the new configuration.
    Configure {
        /// The index of the switch in [`super::LabPlan::switches`].
        switch: usize,
        /// The new layers. They override all earlier layers of the switch.
        layers: Vec<ConfigLayer>,
    },
    /// The buffer watermarks (largest uses since the last reset) are reset to the current use.
    ClearWatermarkCommand,
    /// The counters that conditions read are set to zero.
    ClearCounters,
    /// The script waits for a duration.
    Wait {
        /// The duration in nanoseconds of model time.
        ns: u64,
    },
    /// The script waits until a condition is true.
    WaitUntil {
        /// The condition.
        condition: Expression,
        /// The maximum waiting time in nanoseconds of model time. If the condition is not true by then, the
        /// check fails.
        at_most_ns: u64,
    },
    /// The script checks each of these conditions once. At least one.
    Expect(Vec<Expression>),
}

/// Frames that a host sends at a constant rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendPlan {
    /// The sender, the receiver and the header fields of the frames. The conditions of a script refer to the
    /// frames by the name of this flow.
    pub flow: FlowPlan,
    /// The number of frames that the host sends, 1 to 2^40.
    pub frames: u64,
    /// The ECN field of the frames (RFC 3168): 0 is Not-ECT, 1 is ECT(1), 2 is ECT(0) and 3 is CE. This value
    /// overrides [`FlowPlan::ecn_capable`].
    pub ecn: u8,
    /// The PCP (0 to 7) and the VLAN ID (0 to 4094) of the 802.1Q tag. `None` means untagged frames.
    pub tag: Option<(u8, u16)>,
    /// The PSN of the first frame, 24 bits. `None` means 0.
    pub first_psn: Option<u32>,
    /// The number of the destination queue pair, 24 bits. `None` means a number that only this step uses.
    pub dst_qp: Option<u32>,
}

/// Frames that a host sends with given bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectPlan {
    /// The index in [`super::LabPlan::hosts`] of the sending host.
    pub host: usize,
    /// The bytes of the frame from the destination address on, without FCS: 60 to 9234 bytes. Shorter frames
    /// in a lab file are padded with zeros.
    pub frame: Vec<u8>,
    /// The number of copies of the frame that the host sends, 1 to 2^40.
    pub frames: u64,
    /// The interval between the starts of two frames in nanoseconds of model time. `None` means
    /// back-to-back frames.
    pub every_ns: Option<u64>,
}

/// A job or an open-loop flow that a step starts or stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WorkloadTarget {
    /// A job, by its index in the jobs of the workload.
    Job(usize),
    /// An open-loop flow, by its index in [`super::WorkloadPlan::flows`].
    Flow(usize),
}

/// The part of a switch port that a `block` or `unblock` step changes: all egress queues or one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressBlockPlan {
    /// The index of the switch in [`super::LabPlan::switches`].
    pub switch: usize,
    /// The name of a port with a link.
    pub port: String,
    /// The egress queue, 0 to 7. `None` means all queues of the port.
    pub queue: Option<u8>,
}

/// PFC or 802.3x PAUSE frames that a host sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausePlan {
    /// The index in [`super::LabPlan::hosts`] of the sending host.
    pub host: usize,
    /// The paused classes of a PFC frame: bit *n* is class *n*. `None` means that the host sends 802.3x
    /// PAUSE frames.
    pub classes: Option<u8>,
    /// The pause time in quanta of 512 bit times. The value 0 ends a pause.
    pub quanta: u16,
    /// The interval between two frames in nanoseconds of model time, above 0. `None` means a single frame.
    pub every_ns: Option<u64>,
    /// The time during which the host sends pause frames, in nanoseconds of model time. `None` means that the
    /// host repeats the frames until the end of the run. Not used without `every_ns`.
    pub for_ns: Option<u64>,
}

/// One or both directions of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkDirectionPlan {
    /// The index of the link in [`super::LabPlan::links`].
    pub link: usize,
    /// Whether frames from the switch [`super::LinkPlan::switch`] are affected.
    pub from_switch: bool,
    /// Whether frames from the far end ([`super::LinkPlan::far`]) are affected.
    pub from_far: bool,
}

/// A fault of a link, which loses or damages some frames.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultPlan {
    /// The affected directions. Each direction selects its frames separately.
    pub direction: LinkDirectionPlan,
    /// Whether the selected frames arrive with a wrong ICRC. With false, they are lost.
    pub corrupts: bool,
    /// The rule that selects the frames.
    pub selector: FaultSelectorPlan,
    /// The maximum number of affected frames in each direction, at least 1. `u64::MAX` means no limit.
    pub frames_max: u64,
    /// Frames up to this length are not affected, in bytes without FCS. With 0, frames of all lengths
    /// are affected.
    pub spares_up_to_len: u32,
}

/// The rule by which a fault selects frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultSelectorPlan {
    /// All frames.
    All,
    /// Selects every *n*-th frame, with n at least 1.
    EveryNth(u64),
    /// Selects each frame with this probability, in units of 2^-32. The value 2^32 selects all frames.
    Probability(u64),
    /// Selects RoCE packets with this PSN (24 bits). The second value selects one destination queue pair, and
    /// `None` selects all queue pairs.
    Psn(u32, Option<u32>),
}

impl FaultPlan {
    /// Converts the fault for a fabric ([`xoff_fabric`]). The directions of the link are not included.
    pub fn to_fabric_fault(&self) -> Fault {
        Fault {
            action: if self.corrupts {
                FaultAction::Corrupt
            } else {
                FaultAction::Drop
            },
            selector: match self.selector {
                FaultSelectorPlan::All => FrameSelector::All,
                FaultSelectorPlan::EveryNth(n) => FrameSelector::EveryNth(n),
                FaultSelectorPlan::Probability(probability) => FrameSelector::Probability(probability),
                FaultSelectorPlan::Psn(psn, dst_qp) => FrameSelector::Psn { psn, dst_qp },
            },
            frames_max: self.frames_max,
            spares_up_to_len: self.spares_up_to_len,
        }
    }
}
