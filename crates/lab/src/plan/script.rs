//! The plan of a script: names are resolved to indices, and quantities to numbers.

use serde::{Deserialize, Serialize};

use super::{ConfigLayer, FlowPlan};
use crate::expr::Expression;
use xoff_fabric::{Fault, FaultAction, FrameSelector};

/// The steps of a script.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptPlan {
    /// The steps in the order of execution.
    pub steps: Vec<StepPlan>,
}

impl ScriptPlan {
    /// Returns whether a script step starts this job or flow. If so, the job or flow does
    /// not start automatically.
    pub fn has_start_step(&self, target: WorkloadTarget) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(&step.action, ActionPlan::Start(targets) if targets.contains(&target)))
    }

    /// Returns the `send` steps in order. Their flow numbers start after the last flow number
    /// of the workload.
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
    /// The model time of the step in nanoseconds. `None` means the end of the previous step. No step is
    /// earlier than the step before it.
    pub at_ns: Option<u64>,
    /// The name of the step in results.
    pub name: Option<String>,
    /// The condition of the step. If the condition is false, the step is skipped.
    pub when: Option<Expression>,
    /// The action of the step.
    pub action: ActionPlan,
    /// The position in the lab file for messages, `FILE:LINE`.
    pub source: String,
}

/// The action of a step. Only `Wait` and `WaitUntil` take model time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ActionPlan {
    /// A host sends frames.
    Send(SendPlan),
    /// A host sends frames with the given bytes.
    Inject(InjectPlan),
    /// Jobs and flows start.
    Start(Vec<WorkloadTarget>),
    /// Jobs post no more messages, and flows send no more frames.
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
    /// All faults of a link end.
    Heal(LinkDirectionPlan),
    /// A switch gets more configuration layers.
    Configure {
        /// The index of the switch in [`super::LabPlan::switches`].
        switch: usize,
        /// The new layers. They override all earlier layers of the switch.
        layers: Vec<ConfigLayer>,
    },
    /// The watermarks of buffers are reset to the current use.
    ClearWatermarks,
    /// The counters of the lab are set to zero.
    ClearCounters,
    /// The script waits for a duration.
    Wait {
        /// The duration in nanoseconds of model time.
        ns: u64,
    },
    /// The script waits until a condition holds.
    WaitUntil {
        /// The condition.
        condition: Expression,
        /// The maximum waiting time in nanoseconds. After this time, the check fails.
        at_most_ns: u64,
    },
    /// The script checks each of these conditions.
    Expect(Vec<Expression>),
}

/// Frames of a host at a constant rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendPlan {
    /// The sender, the receiver and the header fields of the frames. Expressions use the name of this flow.
    pub flow: FlowPlan,
    /// The number of frames.
    pub frames: u64,
    /// The ECN field of the frames: 0 is Not-ECT, 1 is ECT(1), 2 is ECT(0) and 3 is CE. This
    /// value overrides [`FlowPlan::ecn_capable`].
    pub ecn: u8,
    /// The PCP and the VLAN ID of the 802.1Q tag. `None` means untagged frames.
    pub tag: Option<(u8, u16)>,
    /// The PSN of the first frame, if set.
    pub first_psn: Option<u32>,
    /// The destination queue pair, if set.
    pub dst_qp: Option<u32>,
}

/// Frames of a host with the given bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectPlan {
    /// The index of the host in [`super::LabPlan::hosts`].
    pub host: usize,
    /// The bytes of the frame from the destination address on, without FCS.
    pub frame: Vec<u8>,
    /// The number of frames.
    pub frames: u64,
    /// The interval between the starts of two frames in nanoseconds. `None` means back-to-back frames.
    pub every_ns: Option<u64>,
}

/// A job or a flow that a step starts or stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkloadTarget {
    /// The index in the jobs of the workload.
    Job(usize),
    /// The index in [`super::WorkloadPlan::flows`].
    Flow(usize),
}

/// The egress of a port, or one egress queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressBlockPlan {
    /// The index of the switch in [`super::LabPlan::switches`].
    pub switch: usize,
    /// The name of the port.
    pub port: String,
    /// The egress queue. `None` means all queues of the port.
    pub queue: Option<u8>,
}

/// PFC or 802.3x PAUSE frames of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausePlan {
    /// The index of the host in [`super::LabPlan::hosts`].
    pub host: usize,
    /// The paused classes of a PFC frame, one bit for each class. `None` means that the host sends 802.3x
    /// PAUSE frames.
    pub classes: Option<u8>,
    /// The pause time in quanta of 512 bit times. 0 ends a pause.
    pub quanta: u16,
    /// The interval of the frames in nanoseconds. `None` means a single frame.
    pub every_ns: Option<u64>,
    /// The time from the first to the last pause frame in nanoseconds. `None` means that the host sends
    /// frames until the end of the run.
    pub for_ns: Option<u64>,
}

/// One or both directions of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkDirectionPlan {
    /// The index of the link in [`super::LabPlan::links`].
    pub link: usize,
    /// Whether the frames of the switch [`super::LinkPlan::switch`] are included.
    pub from_switch: bool,
    /// Whether the frames of the far end are included.
    pub from_far: bool,
}

/// Frames that a link loses or damages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultPlan {
    /// The affected directions. Each direction selects its frames separately.
    pub direction: LinkDirectionPlan,
    /// Whether the frames arrive with a wrong ICRC. Otherwise they are lost.
    pub corrupts: bool,
    /// The selection of frames.
    pub selector: FaultSelectorPlan,
    /// The maximum number of affected frames.
    pub frames_max: u64,
    /// Frames up to this length are not affected, in bytes without FCS.
    pub spares_up_to_len: u32,
}

/// The rule by which a fault selects frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultSelectorPlan {
    /// All frames.
    All,
    /// Every *n*-th frame.
    EveryNth(u64),
    /// Each frame with this probability, in units of 2^-32.
    Probability(u64),
    /// RoCE packets with this PSN, and with this destination queue pair if set.
    Psn(u32, Option<u32>),
}

impl FaultPlan {
    /// Converts the fault for a fabric.
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
