//! The lab that placements are made in: two leaves, a spine for each uplink, and a flow from each host of the first leaf to one
//! of the second.

use crate::choice::named_choices;
use std::fmt::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;
use xoff_dataplane::config::SwitchConfig;
use xoff_wire::bth::MASK_24;
use xoff_wire::{Addresses, BthFields, Extension, FlowHeaders, Opcode, Reth, RocePacket};

use xoff_config::hash_seed;
use xoff_fabric::FIRST_QUEUE_PAIR;
use xoff_lab::plan::{FarEnd, LabPlan, TimeMode};
use xoff_lab::{parse_lab, switch_configuration, switch_seed};
use xoff_telemetry::failure::Failure;

/// Most hosts, and most uplinks.
const SHAPE_MAX: u16 = 128;
/// Fastest port there is, in Mb/s.
const SPEED_MAX_MBPS: u64 = 1_600_000;
/// First address of hosts that are somewhere else each time: no lab gives addresses there (10.128.0.0).
const ELSEWHERE: u32 = 0x0a80_0000;

/// A leaf: how many hosts it has and how many uplinks. The uplinks together are as fast as the hosts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Hosts.
    pub hosts: u16,
    /// Uplinks.
    pub uplinks: u16,
}

impl Shape {
    /// Speed of a host's link in Mb/s: 100 Gb/s, or less where an uplink would be too fast.
    pub fn host_mbps(&self) -> u64 {
        match 100_000 * u64::from(self.hosts) / u64::from(self.uplinks) {
            0..=SPEED_MAX_MBPS => 100_000,
            _ => 10_000,
        }
    }

    /// Speed of an uplink in Mb/s.
    pub fn uplink_mbps(&self) -> u64 {
        self.host_mbps() * u64::from(self.hosts) / u64::from(self.uplinks)
    }

    /// Speed of an uplink as a multiple of a host's link.
    pub fn uplink_capacity(&self) -> f64 {
        self.uplink_mbps() as f64 / self.host_mbps() as f64
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.hosts, self.uplinks)
    }
}

impl Serialize for Shape {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let number = |text: &str| {
            text.parse()
                .ok()
                .filter(|number| (1..=SHAPE_MAX).contains(number))
        };
        let (hosts, uplinks) = text
            .split_once('/')
            .and_then(|(hosts, uplinks)| Some((number(hosts)?, number(uplinks)?)))
            .ok_or(format!(
                "'{text}' is no leaf: write its hosts and uplinks as 8/4, each 1 to {SHAPE_MAX}"
            ))?;
        Ok(Shape { hosts, uplinks })
    }
}

named_choices! {
    /// What a seed changes from one placement to the next.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Vary {
        #[default]
        HashSeed = "hash-seed": "The seed of the run, from which the switch's hash seed follows",
        Addresses = "addresses": "Source addresses count on; the hash seed stays",
        QueuePairs = "queue-pairs": "Numbers of queue pairs count on; the hash seed stays",
    }
}

named_choices! {
    /// How queue pairs are numbered.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Numbering {
        #[default]
        Lab = "lab": "As in a lab: both ends of each take the next two numbers of the whole fabric",
        Host = "host": "Each host counts from 17, as Linux does: the same numbers at all hosts, and at both ends",
    }
}

/// What is placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The leaf.
    pub shape: Shape,
    /// Queue pairs of each host, at least 1.
    pub queue_pairs: u16,
    /// What seeds change.
    pub vary: Vary,
    /// Numbers of queue pairs.
    pub numbering: Numbering,
    /// UDP source port of all queue pairs; `None`: each has its own, from its numbers.
    pub source_port: Option<u16>,
    /// Load balancing of all switches, by the name that a lab file would have; `None`: ECMP.
    pub load_balancing: Option<String>,
    /// A layer of configuration above what the lab gives all switches.
    pub config: Option<PathBuf>,
}

/// A setting as a lab.
#[derive(Clone, Debug)]
pub struct PlacementLab {
    /// What it was made from.
    pub setting: Setting,
    /// The lab.
    pub plan: LabPlan,
    leaf: usize,
    template: SwitchConfig,
    /// Only seeds differ from run to run, and they follow from the seed of the run.
    derived: bool,
}

impl PlacementLab {
    /// The lab of a setting. `congestion`: the congestion control of its queue pairs.
    ///
    /// # Errors
    /// A configuration that cannot be.
    pub fn new(setting: &Setting, congestion: &str) -> Result<PlacementLab, Failure> {
        let text = lab_text(setting, congestion);
        let plan = parse_lab(&text, "placement", Path::new(""), TimeMode::Virtual)
            .map_err(|problems| Failure::configuration(problems.to_string()))?;
        let leaf = plan.switches.iter().position(|switch| switch.name == "leaf1");
        let leaf = leaf.unwrap_or_default();
        let [template, other] = [0, 1].map(|seed| switch_configuration(&plan, leaf, seed));
        let (template, other) = (template?, other?);
        if setting.vary == Vary::HashSeed && template.routing.hash_seed == other.routing.hash_seed {
            return Err(Failure::configuration(
                "seeds change nothing: the configuration says which hash_seed the switch has",
            )
            .at("--config")
            .fix("take hash_seed out of XOFF_SWITCH, or let seeds change something else: --vary addresses"));
        }
        let lab = PlacementLab {
            setting: setting.clone(),
            plan,
            leaf,
            template,
            derived: true,
        };
        let derived = lab.leaf_config(1)? == other && lab.leaf_config(0)? == lab.template;
        Ok(PlacementLab { derived, ..lab })
    }

    /// Index of the leaf among the switches.
    pub fn leaf(&self) -> usize {
        self.leaf
    }

    /// The leaf's configuration in a run with this seed.
    ///
    /// # Errors
    /// A configuration that cannot be.
    pub fn leaf_config(&self, seed: u64) -> Result<SwitchConfig, Failure> {
        if !self.derived {
            return switch_configuration(&self.plan, self.leaf, seed);
        }
        // To resolve a whole configuration takes much longer than all else that a placement takes.
        let mut config = self.template.clone();
        config.seed = switch_seed(seed, self.leaf);
        config.routing.hash_seed = hash_seed(config.seed, config.mac);
        Ok(config)
    }

    /// Names of the leaf's ports to hosts, and to spines, each in their order.
    pub fn leaf_ports(&self) -> (Vec<&str>, Vec<&str>) {
        let (mut hosts, mut uplinks) = (Vec::new(), Vec::new());
        for link in &self.plan.links {
            if let Some(port) = link.port_at(self.leaf) {
                match link.far {
                    FarEnd::Host(_) => hosts.push(port),
                    _ => uplinks.push(port),
                }
            }
        }
        (hosts, uplinks)
    }

    /// Numbers of a queue pair at its two ends, in the placement of a seed. `pair` counts all of them, host by host.
    pub fn numbers(&self, pair: usize, seed: u64) -> (u32, u32) {
        let queue_pairs = u64::from(self.setting.queue_pairs);
        let all = u64::from(self.setting.shape.hosts) * queue_pairs;
        let pair = pair as u64;
        let round = match self.setting.vary {
            Vary::QueuePairs => seed,
            Vary::HashSeed | Vary::Addresses => 0,
        };
        // Numbers below 2 are special in InfiniBand: counting on never comes round to them.
        let wrapped = |number: u64| (2 + number % u64::from(MASK_24 - 3)) as u32;
        match self.setting.numbering {
            Numbering::Lab => {
                let before = round.wrapping_mul(all).wrapping_add(pair);
                let own = wrapped(u64::from(FIRST_QUEUE_PAIR - 2).wrapping_add(before.wrapping_mul(2)));
                (own, own + 1)
            }
            Numbering::Host => {
                let before = round.wrapping_mul(queue_pairs).wrapping_add(pair % queue_pairs);
                let own = wrapped(before.wrapping_add(15));
                (own, own)
            }
        }
    }

    /// The first packet of a queue pair, as it leaves its host.
    pub fn first_packet(&self, pair: usize, seed: u64) -> Vec<u8> {
        let hosts = usize::from(self.setting.shape.hosts);
        let from = pair / usize::from(self.setting.queue_pairs);
        let (source, sink) = (&self.plan.hosts[from], &self.plan.hosts[hosts + from]);
        let src = match self.setting.vary {
            Vary::Addresses => {
                let number = seed.wrapping_mul(hosts as u64).wrapping_add(from as u64);
                // The odd addresses of /31 networks, as a lab gives them.
                Ipv4Addr::from_bits(ELSEWHERE | (2 * number as u32 + 1) & 0x7f_ffff)
            }
            Vary::HashSeed | Vary::QueuePairs => source.ipv4,
        };
        let (own, peer) = self.numbers(pair, seed);
        let label = FlowHeaders::flow_label_of_queue_pairs(own, peer);
        let path = FlowHeaders {
            udp_src_port: self
                .setting
                .source_port
                .unwrap_or(FlowHeaders::source_port_of_flow_label(label)),
            ..FlowHeaders::new(
                source.mac,
                source.gateway_mac.unwrap_or_default(),
                Addresses::V4 { src, dst: sink.ipv4 },
            )
        };
        let reth = Reth {
            virtual_address: 0,
            rkey: 0,
            dma_len: 0,
        };
        let packet = RocePacket {
            headers: &path,
            bth: BthFields::new(Opcode::RcWriteOnly, peer, 0),
            extensions: &[Extension::Reth(reth)],
        };
        let mut frame = vec![0; packet.frame_len(0)];
        packet
            .emit(&mut frame, 0, |_| ())
            .expect("the buffer is as long as the packet");
        frame
    }
}

fn lab_text(setting: &Setting, congestion: &str) -> String {
    let Setting {
        shape,
        queue_pairs,
        config,
        ..
    } = setting;
    let layer = config.as_ref().map_or(String::new(), |path| {
        format!(", {:?}", path.display().to_string())
    });
    let balancing = setting.load_balancing.as_ref().map_or(String::new(), |name| {
        format!("  defaults: {{load_balancing: {name:?}}}\n")
    });
    let source_port = setting
        .source_port
        .map_or(String::new(), |port| format!(", source_port: {port}"));
    let mut text = format!(
        "name: placement
topology:
{balancing}  fabric:
    leaf-spine: {{leaves: 2, spines: {}, hosts: {}, speed: {}m, uplink_speed: {}m, delay: 500ns, config: [{{preset: roce-lossless}}{layer}]}}
transports:
  default: {{mtu: 4096, congestion: {congestion}{source_port}}}
workload:
  jobs:
    - name: placement
      kind: flows
      qps: {queue_pairs}
      flows:
",
        shape.uplinks,
        shape.hosts,
        shape.host_mbps(),
        shape.uplink_mbps(),
    );
    for host in 1..=shape.hosts {
        for _ in 0..*queue_pairs {
            // The longest message there is, longer than any run.
            let _ = writeln!(
                text,
                "        - {{from: h{host}, to: h{}, bytes: 2GiB}}",
                shape.hosts + host
            );
        }
    }
    text
}
