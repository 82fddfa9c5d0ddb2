//! A script, checked: names are indices, quantities numbers.

use serde::{Deserialize, Serialize};

use super::{ConfigLayer, FlowPlan};
use crate::expr::Expression;
use xoff_fabric::{Fault, FaultAction, FrameSelector};

/// A script: its steps, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptPlan {
    /// The steps.
    pub steps: Vec<StepPlan>,
}

impl ScriptPlan {
    /// Whether a step starts this, so that it does not start by itself.
    pub fn starts(&self, target: TargetPlan) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(&step.action, ActionPlan::Start(targets) if targets.contains(&target)))
    }

    /// The sends, in the order of the steps. Their flows are numbered from behind those of the workload on.
    pub fn sends(&self) -> impl Iterator<Item = &SendPlan> {
        self.steps.iter().filter_map(|step| match &step.action {
            ActionPlan::Send(send) => Some(send),
            _ => None,
        })
    }
}

/// A step of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepPlan {
    /// Model time at which it happens; `None`: when the step before is over. Never earlier than that of a step before.
    pub at_ns: Option<u64>,
    /// What it is called in results, if it has a name.
    pub name: Option<String>,
    /// It happens only if this is so, when its turn comes.
    pub when: Option<Expression>,
    /// What happens.
    pub action: ActionPlan,
    /// Where it is in the lab file, `FILE:LINE`, for messages.
    pub source: String,
}

/// What a step does. Only waiting takes time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ActionPlan {
    /// A host sends frames.
    Send(SendPlan),
    /// A host sends frames that are given as bytes.
    Inject(InjectPlan),
    /// A job or flows start.
    Start(Vec<TargetPlan>),
    /// A job posts no more, flows send no more.
    Stop(Vec<TargetPlan>),
    /// The egress of a port or of one of its queues stands still.
    Block(BlockPlan),
    /// It moves again.
    Unblock(BlockPlan),
    /// A host sends pauses.
    Pause(PausePlan),
    /// A link goes up or down.
    Link {
        /// Index in [`super::LabPlan::links`].
        link: usize,
        /// Up, or down.
        up: bool,
    },
    /// A link loses or damages frames from now on, beside what it did before.
    Fault(FaultPlan),
    /// It does so no more.
    Heal(DirectionPlan),
    /// A switch has a further layer of configuration.
    Configure {
        /// Index in [`super::LabPlan::switches`].
        switch: usize,
        /// Layers above all that it has had so far.
        layers: Vec<ConfigLayer>,
    },
    /// Peaks of buffer use begin anew.
    ClearWatermarks,
    /// Counters begin at zero.
    ClearCounters,
    /// Time passes.
    Wait {
        /// How much, in nanoseconds.
        ns: u64,
    },
    /// Time passes until something is so.
    WaitUntil {
        /// What.
        condition: Expression,
        /// So long at most, in nanoseconds; then the step has failed.
        at_most_ns: u64,
    },
    /// These are so, each by itself, or the script has failed.
    Expect(Vec<Expression>),
}

/// Frames at a rate, open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendPlan {
    /// Sender, receiver and what their frames are like. Its name is that of the flow in expressions.
    pub flow: FlowPlan,
    /// How many frames.
    pub frames: u64,
    /// ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE. It rules over [`FlowPlan::ecn_capable`].
    pub ecn: u8,
    /// 802.1Q tag: PCP and VLAN; `None`: untagged.
    pub tag: Option<(u8, u16)>,
    /// First PSN, if it is said.
    pub first_psn: Option<u32>,
    /// Destination queue pair, if it is said.
    pub dst_qp: Option<u32>,
}

/// Frames as bytes, of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectPlan {
    /// Index in [`super::LabPlan::hosts`].
    pub host: usize,
    /// A frame from its destination address on, without FCS.
    pub frame: Vec<u8>,
    /// How many.
    pub frames: u64,
    /// From the beginning of one to the next, in nanoseconds; `None`: as fast as the host's link takes them.
    pub every_ns: Option<u64>,
}

/// What is started or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TargetPlan {
    /// Index in the workload's jobs.
    Job(usize),
    /// Index in [`super::WorkloadPlan::flows`].
    Flow(usize),
}

/// The egress of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockPlan {
    /// Index in [`super::LabPlan::switches`].
    pub switch: usize,
    /// Name of the port.
    pub port: String,
    /// One queue, or all.
    pub queue: Option<u8>,
}

/// Pauses of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausePlan {
    /// Index in [`super::LabPlan::hosts`].
    pub host: usize,
    /// PFC for these classes, one bit each; `None`: 802.3x, for all.
    pub classes: Option<u8>,
    /// How long each pauses, in 512 bit times; 0 ends a pause.
    pub quanta: u16,
    /// From one to the next, in nanoseconds; `None`: there is one.
    pub every_ns: Option<u64>,
    /// From the first one to the last at most, in nanoseconds; `None`: to the end of the run.
    pub for_ns: Option<u64>,
}

/// One way of a link, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionPlan {
    /// Index in [`super::LabPlan::links`].
    pub link: usize,
    /// What the switch of [`super::LinkPlan::switch`] sends.
    pub from_switch: bool,
    /// What the far end sends.
    pub from_far: bool,
}

/// Frames that a link loses or damages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultPlan {
    /// Where; each way by itself.
    pub direction: DirectionPlan,
    /// They arrive with a wrong ICRC, instead of not at all.
    pub corrupts: bool,
    /// Occurrence frames.
    pub selector: SelectorPlan,
    /// How many of them at most.
    pub frames_max: u64,
    /// Frames of up to this length are left alone, in bytes without FCS.
    pub spares_up_to_len: u32,
}

/// Occurrence frames a fault chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelectorPlan {
    /// All.
    All,
    /// Every *n*-th.
    EveryNth(u64),
    /// Each with this probability, in units of 2^-32.
    Probability(u64),
    /// RoCE packets of this PSN, to this queue pair if one is given.
    Psn(u32, Option<u32>),
}

impl FaultPlan {
    /// The same for a fabric.
    pub fn fault(&self) -> Fault {
        Fault {
            action: if self.corrupts {
                FaultAction::Corrupt
            } else {
                FaultAction::Drop
            },
            selector: match self.selector {
                SelectorPlan::All => FrameSelector::All,
                SelectorPlan::EveryNth(n) => FrameSelector::EveryNth(n),
                SelectorPlan::Probability(probability) => FrameSelector::Probability(probability),
                SelectorPlan::Psn(psn, dst_qp) => FrameSelector::Psn { psn, dst_qp },
            },
            frames_max: self.frames_max,
            spares_up_to_len: self.spares_up_to_len,
        }
    }
}
