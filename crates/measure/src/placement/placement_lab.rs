//! The lab of a placement. It has two leaf switches, and one spine switch for each uplink of a leaf. Each
//! host of the first leaf sends to one host of the second leaf.

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

/// Largest number of hosts, and largest number of uplinks, of a leaf.
const LEAF_PORTS_MAX: u16 = 128;
/// Speed of the fastest port, in Mb/s.
const SPEED_MAX_MBPS: u64 = 1_600_000;
/// First source address with `--vary addresses`, 10.128.0.0. Labs do not assign addresses
/// in this range.
const VARIED_ADDRESS_BASE: u32 = 0x0a80_0000;

/// The number of hosts and uplinks of a leaf switch, each 1 to 128. Users write `HOSTS/UPLINKS`, such as
/// `8/4`. The total speed of the uplinks equals the total speed of the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafShape {
    /// Number of hosts at the leaf.
    pub hosts: u16,
    /// Number of uplinks of the leaf.
    pub uplinks: u16,
}

impl LeafShape {
    /// Returns the speed of a host link in Mb/s. It is 100 Gb/s, or 10 Gb/s if an uplink would otherwise
    /// exceed 1.6 Tb/s.
    pub fn host_mbps(&self) -> u64 {
        match 100_000 * u64::from(self.hosts) / u64::from(self.uplinks) {
            0..=SPEED_MAX_MBPS => 100_000,
            _ => 10_000,
        }
    }

    /// Returns the speed of an uplink in Mb/s, so that all uplinks together have the speed of all
    /// hosts together.
    pub fn uplink_mbps(&self) -> u64 {
        self.host_mbps() * u64::from(self.hosts) / u64::from(self.uplinks)
    }

    /// Returns the speed of an uplink as a multiple of the speed of a host link.
    pub fn uplink_capacity(&self) -> f64 {
        self.uplink_mbps() as f64 / self.host_mbps() as f64
    }
}

impl fmt::Display for LeafShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.hosts, self.uplinks)
    }
}

impl Serialize for LeafShape {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for LeafShape {
    type Err = String;

    fn from_str(text: &str) -> Result<LeafShape, String> {
        let number = |text: &str| {
            text.parse()
                .ok()
                .filter(|number| (1..=LEAF_PORTS_MAX).contains(number))
        };
        let (hosts, uplinks) = text
            .split_once('/')
            .and_then(|(hosts, uplinks)| Some((number(hosts)?, number(uplinks)?)))
            .ok_or(format!(
                "'{text}' is not a leaf; write hosts and uplinks, such as 8/4, each 1 to {LEAF_PORTS_MAX}"
            ))?;
        Ok(LeafShape { hosts, uplinks })
    }
}

named_choices! {
    /// The input that the seed changes. With another seed, the hash selects other uplinks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum SeedInput {
        #[default]
        HashSeed = "hash-seed": "The seed of the run, from which the switch's hash seed follows",
        Addresses = "addresses": "The source addresses; the hash seed stays",
        QueuePairs = "queue-pairs": "The numbers of the queue pairs; the hash seed stays",
    }
}

named_choices! {
    /// The rule that numbers the queue pairs.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum QueuePairNumbering {
        #[default]
        Lab = "lab": "As in a lab: the ends of a queue pair get two consecutive numbers of the whole fabric",
        Host = "host": "Each host counts from 17, like Linux; all hosts and both ends use the same numbers",
    }
}

/// The parameters of a series of placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementParameters {
    /// Number of hosts and uplinks of the leaf.
    pub shape: LeafShape,
    /// Number of queue pairs of each host, at least 1.
    pub queue_pairs: u16,
    /// The input that the seed of a placement changes.
    pub vary: SeedInput,
    /// Rule that numbers the queue pairs.
    pub numbering: QueuePairNumbering,
    /// UDP source port of all queue pairs. `None` means that the UDP source port of each queue pair is
    /// computed from its queue pair numbers, as in a lab.
    pub source_port: Option<u16>,
    /// Load-balancing scheme of all switches, by its name in a lab file. `None` means ECMP.
    pub load_balancing: Option<String>,
    /// Path of a configuration layer for all switches, or `None` for the preset `roce-lossless` alone.
    pub config: Option<PathBuf>,
}

/// The lab in which the placements of a series run.
#[derive(Clone, Debug)]
pub struct PlacementLab {
    /// The parameters of the placements.
    pub setting: PlacementParameters,
    /// The plan of the lab, without a seed.
    pub plan: LabPlan,
    leaf: usize,
    template: SwitchConfig,
    /// True if the configurations of two runs differ only in values that are derived from the seed of
    /// the run.
    has_only_derived_seeds: bool,
}

impl PlacementLab {
    /// Creates the lab. `congestion` is the name of the congestion control of its queue pairs, such
    /// as `none`.
    ///
    /// # Errors
    /// The configuration is invalid, or it fixes the hash seed that the seeds should change.
    pub fn new(setting: &PlacementParameters, congestion: &str) -> Result<PlacementLab, Failure> {
        let text = lab_file_text(setting, congestion);
        let plan = parse_lab(&text, "placement", Path::new(""), TimeMode::Virtual).map_err(|problems| {
            let scheme = setting.load_balancing.as_deref().unwrap_or_default();
            problems.into_failure_of_scheme("--lb", scheme)
        })?;
        let leaf = plan.switches.iter().position(|switch| switch.name == "leaf1");
        let leaf = leaf.unwrap_or_default();
        let [template, other] = [0, 1].map(|seed| switch_configuration(&plan, leaf, seed));
        let (template, other) = (template?, other?);
        if setting.vary == SeedInput::HashSeed && template.routing.hash_seed == other.routing.hash_seed {
            return Err(Failure::configuration(
                "seeds change nothing, because the configuration sets hash_seed",
            )
            .at("--config")
            .fix("remove hash_seed from XOFF_SWITCH, or vary another input with --vary addresses"));
        }
        let lab = PlacementLab {
            setting: setting.clone(),
            plan,
            leaf,
            template,
            has_only_derived_seeds: true,
        };
        let has_only_derived_seeds = lab.leaf_config(1)? == other && lab.leaf_config(0)? == lab.template;
        Ok(PlacementLab {
            has_only_derived_seeds,
            ..lab
        })
    }

    /// Returns the index of the first leaf in [`LabPlan::switches`].
    pub fn leaf_index(&self) -> usize {
        self.leaf
    }

    /// Returns the configuration of the first leaf in a run with the seed `seed`.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn leaf_config(&self, seed: u64) -> Result<SwitchConfig, Failure> {
        if !self.has_only_derived_seeds {
            return switch_configuration(&self.plan, self.leaf, seed);
        }
        // Resolving the whole configuration takes much longer than the rest of a placement.
        let mut config = self.template.clone();
        config.seed = switch_seed(seed, self.leaf);
        config.routing.hash_seed = hash_seed(config.seed, config.mac);
        Ok(config)
    }

    /// Returns the names of the ports of the first leaf: first the ports to hosts, then the uplinks. Both
    /// lists have the order of the links in the plan.
    pub fn leaf_port_names(&self) -> (Vec<&str>, Vec<&str>) {
        let (mut hosts, mut uplinks) = (Vec::new(), Vec::new());
        for link in &self.plan.links {
            if let Some(port) = link.port_at_switch(self.leaf) {
                match link.far {
                    FarEnd::Host(_) => hosts.push(port),
                    _ => uplinks.push(port),
                }
            }
        }
        (hosts, uplinks)
    }

    /// Returns the queue pair numbers (24 bits, at least 2) of the sender and of the receiver of a queue
    /// pair. With [`QueuePairNumbering::Host`], both numbers are equal.
    ///
    /// `pair` is the index of the queue pair: `host * queue_pairs + n` for queue pair `n` of the host `host`.
    /// `seed` changes the numbers only with [`SeedInput::QueuePairs`].
    pub fn queue_pair_numbers(&self, pair: usize, seed: u64) -> (u32, u32) {
        let queue_pairs = u64::from(self.setting.queue_pairs);
        let all = u64::from(self.setting.shape.hosts) * queue_pairs;
        let pair = pair as u64;
        let round = match self.setting.vary {
            SeedInput::QueuePairs => seed,
            SeedInput::HashSeed | SeedInput::Addresses => 0,
        };
        // Queue pair numbers 0 and 1 are reserved in InfiniBand, so the numbering skips them when
        // it wraps.
        let wrapped = |number: u64| (2 + number % u64::from(MASK_24 - 3)) as u32;
        match self.setting.numbering {
            QueuePairNumbering::Lab => {
                let before = round.wrapping_mul(all).wrapping_add(pair);
                let own = wrapped(u64::from(FIRST_QUEUE_PAIR - 2).wrapping_add(before.wrapping_mul(2)));
                (own, own + 1)
            }
            QueuePairNumbering::Host => {
                let before = round.wrapping_mul(queue_pairs).wrapping_add(pair % queue_pairs);
                let own = wrapped(before.wrapping_add(15));
                (own, own)
            }
        }
    }

    /// Returns the first packet of a queue pair as it leaves its host, without FCS. The packet is an RDMA
    /// WRITE without data. `pair` is an index as in [`PlacementLab::queue_pair_numbers`]. `seed` changes the
    /// packet only with [`SeedInput::QueuePairs`] and [`SeedInput::Addresses`].
    pub fn first_packet(&self, pair: usize, seed: u64) -> Vec<u8> {
        let hosts = usize::from(self.setting.shape.hosts);
        let from = pair / usize::from(self.setting.queue_pairs);
        let (source, sink) = (&self.plan.hosts[from], &self.plan.hosts[hosts + from]);
        let src = match self.setting.vary {
            SeedInput::Addresses => {
                let number = seed.wrapping_mul(hosts as u64).wrapping_add(from as u64);
                // A lab assigns the odd addresses of /31 networks.
                Ipv4Addr::from_bits(VARIED_ADDRESS_BASE | (2 * number as u32 + 1) & 0x7f_ffff)
            }
            SeedInput::HashSeed | SeedInput::QueuePairs => source.ipv4,
        };
        let (own, peer) = self.queue_pair_numbers(pair, seed);
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

fn lab_file_text(setting: &PlacementParameters, congestion: &str) -> String {
    let PlacementParameters {
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
            // The longest possible message lasts longer than any run.
            let _ = writeln!(
                text,
                "        - {{from: h{host}, to: h{}, bytes: 2GiB}}",
                shape.hosts + host
            );
        }
    }
    text
}
