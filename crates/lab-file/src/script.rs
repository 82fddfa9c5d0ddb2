//! The fields of the steps of a script.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{ConfigSource, OneOrMore};

/// One step of a script, as in the lab file. Exactly one of the fields marked `Action` must be set.
/// Otherwise, the resolver reports an error.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFields {
    /// The model time of the step, counted from the start of the workload, such as `10us`. It must not be
    /// before the time of an earlier step. With `None`, the step runs as soon as the previous step is done.
    pub at: Option<Spanned<String>>,
    /// The name of the step in results. `None` means no name.
    pub name: Option<Spanned<String>>,
    /// A condition. The step runs only if the condition holds at the time of the step. With `None`, the step
    /// always runs.
    pub when: Option<Spanned<String>>,
    /// Action: a model host sends frames at a rate.
    pub send: Option<Spanned<SendFields>>,
    /// Action: a model host sends frames that the step gives as bytes.
    pub inject: Option<Spanned<InjectFields>>,
    /// Action: jobs or flows of the workload with these names start. Jobs and flows with a `start` step do
    /// not start automatically.
    pub start: Option<Spanned<OneOrMore>>,
    /// Action: jobs or flows of the workload with these names post no more messages or frames.
    pub stop: Option<Spanned<OneOrMore>>,
    /// Action: a switch port, or one of its egress queues, stops sending.
    pub block: Option<Spanned<BlockFields>>,
    /// Action: ends the block of a port, or of one of its queues. Blocks of the port and of the queue are
    /// independent: a queue sends only if neither is blocked.
    pub unblock: Option<Spanned<BlockFields>>,
    /// Action: a model host sends PFC or 802.3x PAUSE frames.
    pub pause: Option<Spanned<PauseFields>>,
    /// Action: a link goes up or down.
    pub link: Option<Spanned<LinkStateFields>>,
    /// Action: a link loses or damages frames from this step on.
    pub fault: Option<Spanned<FaultFields>>,
    /// Action: all faults of a link, or of one of its directions, are removed. The value is the name of the
    /// link (both directions) or one of its ends, such as `h1:eth0` (the direction in which this end sends).
    pub heal: Option<Spanned<String>>,
    /// Action: a switch gets a further layer of configuration.
    pub configure: Option<Spanned<ConfigureFields>>,
    /// Action: `watermarks` resets the buffer watermarks to the current use, and `counters` sets the counters
    /// to 0. A list of both is possible.
    pub clear: Option<Spanned<OneOrMore>>,
    /// Action: the script waits. Only this action takes model time.
    pub wait: Option<Spanned<WaitFields>>,
    /// Action: the script checks one or more conditions. If a condition does not hold, the script fails.
    pub expect: Option<Spanned<OneOrMore>>,
}

/// The fields of `send`: frames of a host at a rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendFields {
    /// The name in conditions, such as `flow.NAME.lost_frames`. No other `send` step and no flow of the
    /// workload has this name. Default: `send` and the number of the `send` step in the script, counted
    /// from 1.
    pub name: Option<Spanned<String>>,
    /// The name of the sending model host.
    pub from: Spanned<String>,
    /// The name of the receiving model host, which is not the sender.
    pub to: Spanned<String>,
    /// The number of frames, 1 to 2^40. Default 1.
    pub frames: Option<Spanned<u64>>,
    /// The length of each frame in bytes, without FCS, with the range and default
    /// of [`FlowFields::frame`](crate::FlowFields::frame).
    pub size: Option<Spanned<u32>>,
    /// The rate of the sender, with the range and default of [`FlowFields::rate`](crate::FlowFields::rate).
    pub rate: Option<Spanned<String>>,
    /// The DSCP of the frames, 0 to 63. Default 0.
    pub dscp: Option<Spanned<u8>>,
    /// The ECN field of the frames: `not-ect`, `ect0`, `ect1` or `ce`. Default `not-ect`.
    pub ecn: Option<Spanned<String>>,
    /// The transmit queue of the NIC, 0 to 7. Default: `dscp` divided by 8, rounded down.
    pub class: Option<Spanned<u8>>,
    /// The priority (PCP) in the 802.1Q tag of the frames, 0 to 7. Default: 0 with `vlan`. The frames have no
    /// tag if `pcp` and `vlan` are both missing.
    pub pcp: Option<Spanned<u8>>,
    /// The VLAN ID in the 802.1Q tag of the frames, 0 to 4094. Default: 0 with `pcp`. The frames have no tag
    /// if `pcp` and `vlan` are both missing.
    pub vlan: Option<Spanned<u16>>,
    /// The packet sequence number (PSN) of the first frame, 0 to 2^24 - 1. Default 0.
    pub psn: Option<Spanned<u32>>,
    /// The number of the destination queue pair, 0 to 2^24 - 1. Default: a number that belongs to this step.
    pub qp: Option<Spanned<u32>>,
    /// The IP version of the frames, 4 or 6. Default 4.
    pub ip: Option<Spanned<u8>>,
    /// The TTL (IPv4) or hop limit (IPv6) of the frames, 1 to 255. Default 64.
    pub ttl: Option<Spanned<u8>>,
}

/// The fields of `inject`: frames of a host as bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectFields {
    /// The name of the sending model host.
    pub from: Spanned<String>,
    /// The frame in hexadecimal digits, from the destination address on, without FCS. Blanks, `:`, `-` and
    /// `_` are ignored. The parts of a list are joined.
    pub frame: Spanned<OneOrMore>,
    /// The length of the frame in bytes, without FCS, 60 to 9234. Zeros fill the frame up to this length.
    /// Default: the length of `frame`, at least 60.
    pub size: Option<Spanned<u32>>,
    /// The number of copies of the frame, 1 to 2^40. Default 1.
    pub frames: Option<Spanned<u64>>,
    /// The time from the start of a frame to the start of the next frame, in model time. With `None`, the
    /// frames are sent back to back.
    pub every: Option<Spanned<String>>,
}

/// The fields of `block` and `unblock`: a port or one of its egress queues.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockFields {
    /// A switch port with a link, such as `sw1:Ethernet8`.
    pub port: Spanned<String>,
    /// The egress queue, 0 to 7. `None` means the whole port.
    pub queue: Option<Spanned<u8>>,
}

/// The fields of `pause`: PFC or 802.3x PAUSE frames of a host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseFields {
    /// The name of the sending model host.
    pub from: Spanned<String>,
    /// The classes, 0 to 7, that a PFC frame pauses. Required, unless `global` is true. Not together
    /// with `global: true`.
    pub class: Option<Spanned<OneOrMore>>,
    /// Whether the host sends 802.3x PAUSE frames, which pause all classes. Not together with `class`.
    /// Default false.
    pub global: Option<bool>,
    /// The pause time in quanta of 512 bit times, 0 to 65 535. The value 0 ends a pause. Default 65 535.
    pub quanta: Option<Spanned<u32>>,
    /// The interval at which the host repeats the frame, above 0, in model time. With `None`, the host sends
    /// one frame.
    pub every: Option<Spanned<String>>,
    /// The time for which the host repeats the frame, in model time. An error without `every`. With `None`,
    /// the host repeats the frame until the end of the run. The key in the file is `for`.
    #[serde(rename = "for")]
    pub lasting: Option<Spanned<String>>,
}

/// The fields of `link`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkStateFields {
    /// The link: its name, or one of its ends, such as `h1:eth0`. Both select the whole link.
    pub on: Spanned<String>,
    /// Whether the link goes up. With false, the link goes down.
    pub up: bool,
}

/// The fields of `fault`: frames that a link loses or damages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultFields {
    /// The link: its name (both directions) or one of its ends, such as `h1:eth0` (only the frames that this
    /// end sends).
    pub on: Spanned<String>,
    /// The effect: `drop` loses the frame, and `corrupt` gives it a wrong ICRC.
    pub action: Spanned<String>,
    /// Selects every n-th frame, with n at least 1. At most one of `every`, `probability` and `psn` can be
    /// set. Without these three fields, the fault selects all frames.
    pub every: Option<Spanned<u64>>,
    /// Selects each frame with this probability, such as `0.1%`, above 0 %. Values above 100 % mean 100 %.
    /// Not together with `every` or `psn`.
    pub probability: Option<Spanned<String>>,
    /// Selects RoCE packets with this packet sequence number (PSN), 0 to 2^24 - 1. Not together with `every`
    /// or `probability`.
    pub psn: Option<Spanned<u32>>,
    /// With `psn`: selects only packets to this queue pair, 0 to 2^24 - 1. An error without `psn`. `None`
    /// means all queue pairs.
    pub qp: Option<Spanned<u32>>,
    /// The maximum number of affected frames in each direction, at least 1. `None` means no limit.
    pub count: Option<Spanned<u64>>,
    /// Frames up to this length are not affected, in bytes without FCS. Default 0: frames of all lengths
    /// are affected.
    pub spare_up_to: Option<Spanned<u32>>,
}

/// The fields of `configure`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigureFields {
    /// The name of the switch.
    pub switch: Spanned<String>,
    /// The new configuration. It overrides all earlier configuration of the switch, field by field.
    pub config: Spanned<ConfigSource>,
}

/// The value of `wait`: a time, or a condition with a maximum time.
#[derive(Clone, Debug)]
pub enum WaitFields {
    /// The script waits for this model time, such as `1ms`.
    For(String),
    /// The script waits until a condition holds.
    Until(WaitUntilFields),
}

/// The fields of `wait` with a condition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitUntilFields {
    /// The condition that ends the wait.
    pub until: Spanned<String>,
    /// The maximum waiting time in model time, such as `10ms`. If the condition does not hold by then, the
    /// check fails and the next step follows.
    pub at_most: Spanned<String>,
}

impl<'de> Deserialize<'de> for WaitFields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
        struct WaitVisitor;
        impl<'de> Visitor<'de> for WaitVisitor {
            type Value = WaitFields;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a time such as 1ms, or {until: CONDITION, at_most: TIME}")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(WaitFields::For(text.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                WaitUntilFields::deserialize(MapAccessDeserializer::new(map)).map(WaitFields::Until)
            }
        }
        deserializer.deserialize_any(WaitVisitor)
    }
}
