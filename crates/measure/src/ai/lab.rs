//! Labs of collectives: generated fabrics and the order of the ranks.

use crate::choice::named_choices;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::str::FromStr;

use xoff_lab::parse_lab;
use xoff_lab::plan::{LabPlan, TimeMode};
use xoff_telemetry::failure::Failure;

/// Largest number of leaves, of spines, of hosts at each leaf, and of ports of a switch of a fat tree.
const SHAPE_NUMBER_MAX: u16 = 1024;
/// Largest number of hosts.
const HOSTS_MAX: u32 = xoff_lab::plan::HOSTS_MAX as u32;

/// The shape of a fabric that the bench generates. Users write `leaf-spine:LEAVESxSPINESxHOSTS`, `fat-tree:PORTS` or
/// `star:HOSTS`. Each number is 1 to 1024, and the fabric has 2 to 65 536 hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricShape {
    /// Number of leaves, number of spines, and number of hosts at each leaf.
    LeafSpine(u16, u16, u16),
    /// Number of ports of each switch, an even number.
    FatTree(u16),
    /// Number of hosts at one non-blocking switch.
    Star(u16),
}

impl fmt::Display for FabricShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FabricShape::LeafSpine(leaves, spines, hosts) => {
                write!(f, "leaf-spine:{leaves}x{spines}x{hosts}")
            }
            FabricShape::FatTree(ports) => write!(f, "fat-tree:{ports}"),
            FabricShape::Star(hosts) => write!(f, "star:{hosts}"),
        }
    }
}

impl FromStr for FabricShape {
    type Err = String;

    fn from_str(text: &str) -> Result<FabricShape, String> {
        let invalid = || {
            format!(
                "'{text}' is not a fabric: write leaf-spine:LEAVESxSPINESxHOSTS, such as leaf-spine:4x4x4 (HOSTS per leaf), \
                 fat-tree:PORTS (an even number of ports per switch) or star:HOSTS; at most {SHAPE_NUMBER_MAX} of each, {HOSTS_MAX} hosts in all"
            )
        };
        let (name, shape) = text.split_once(':').ok_or_else(invalid)?;
        let numbers: Vec<u16> = shape
            .split('x')
            .map(|number| {
                number
                    .parse()
                    .ok()
                    .filter(|number| (1..=SHAPE_NUMBER_MAX).contains(number))
            })
            .collect::<Option<_>>()
            .ok_or_else(invalid)?;
        let fabric = match (name, numbers.as_slice()) {
            ("leaf-spine", &[leaves, spines, hosts]) => FabricShape::LeafSpine(leaves, spines, hosts),
            ("fat-tree", &[ports]) if ports.is_multiple_of(2) => FabricShape::FatTree(ports),
            ("star", &[hosts]) => FabricShape::Star(hosts),
            _ => return Err(invalid()),
        };
        match fabric.host_count() {
            2..=HOSTS_MAX => Ok(fabric),
            _ => Err(invalid()),
        }
    }
}

impl FabricShape {
    /// Returns the number of hosts in the fabric.
    pub fn host_count(self) -> u32 {
        match self {
            FabricShape::LeafSpine(leaves, _, hosts) => u32::from(leaves) * u32::from(hosts),
            FabricShape::FatTree(ports) => u32::from(ports).pow(3) / 4,
            FabricShape::Star(hosts) => u32::from(hosts),
        }
    }

    /// Returns the names of the hosts in the order of their ranks. Hosts with consecutive ranks are at
    /// different leaves, so every step of a ring collective crosses a spine.
    fn hosts_in_rank_order(self) -> Vec<String> {
        let (leaves, hosts) = match self {
            FabricShape::LeafSpine(leaves, _, hosts) => (u32::from(leaves), u32::from(hosts)),
            FabricShape::FatTree(ports) => (u32::from(ports).pow(2) / 2, u32::from(ports) / 2),
            FabricShape::Star(hosts) => (1, u32::from(hosts)),
        };
        let hosts_at_index = |host: u32| (0..leaves).map(move |leaf| format!("h{}", leaf * hosts + host + 1));
        (0..hosts).flat_map(hosts_at_index).collect()
    }
}

named_choices! {
    /// A collective operation that the bench can measure.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Collective {
        Allreduce = "allreduce": "Ring AllReduce",
        TreeAllreduce = "tree-allreduce": "AllReduce over two binary trees",
        Allgather = "allgather": "Ring AllGather",
        ReduceScatter = "reduce-scatter": "Ring ReduceScatter",
        Alltoall = "alltoall": "Every rank to every other",
    }
}

impl Collective {
    /// Returns the `kind` of the job in lab files.
    fn job_kind(self) -> &'static str {
        match self {
            Collective::Allreduce => "ring-allreduce",
            other => other.name(),
        }
    }
}

/// Settings of generated labs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabSettings {
    /// Switches and hosts of the fabric.
    pub fabric: FabricShape,
    /// Speed of all links, in Mb/s.
    pub speed_mbps: u32,
    /// Size of the collective in bytes, as defined by nccl-tests.
    pub bytes: u64,
    /// Number of iterations of the collective, at least 1.
    pub iterations: u32,
    /// Name of the congestion control in lab files, such as `dcqcn` or `none`.
    pub congestion: String,
}

impl LabSettings {
    /// Returns the plan of a lab that runs a collective. `scheme` is the name of a load-balancing scheme.
    /// `None` means static ECMP.
    ///
    /// # Errors
    /// The scheme or the congestion control is unknown.
    pub fn plan_lab(&self, collective: Collective, scheme: Option<&str>) -> Result<LabPlan, Failure> {
        let text = self.lab_file_text(collective, scheme);
        parse_lab(&text, "bench ai", Path::new(""), TimeMode::Virtual)
            .map_err(|problems| problems.into_failure_of_scheme("--lb", scheme.unwrap_or_default()))
    }

    /// Returns the text of a lab file that runs a collective. `scheme` is the name of a load-balancing
    /// scheme. `None` means static ECMP.
    pub fn lab_file_text(&self, collective: Collective, scheme: Option<&str>) -> String {
        let shape = match self.fabric {
            FabricShape::LeafSpine(leaves, spines, hosts) => {
                format!("leaf-spine: {{leaves: {leaves}, spines: {spines}, hosts: {hosts}")
            }
            FabricShape::FatTree(ports) => format!("fat-tree: {{k: {ports}"),
            FabricShape::Star(hosts) => format!("star: {{hosts: {hosts}"),
        };
        let mut text = format!("name: ai-{}\ntopology:\n", collective.name());
        if let Some(scheme) = scheme {
            let _ = writeln!(text, "  defaults: {{load_balancing: {scheme:?}}}");
        }
        let _ = write!(
            text,
            "  fabric:\n    {shape}, speed: {}m, delay: 500ns, config: {{preset: roce-lossless}}}}
transports:
  default: {{mtu: 4096, congestion: {:?}, out_of_order: true, ack_every: 1}}
workload:
  jobs:
    - {{name: {}, kind: {}, hosts: [{}], bytes: {}, iterations: {}}}
",
            self.speed_mbps,
            self.congestion,
            collective.name(),
            collective.job_kind(),
            self.fabric.hosts_in_rank_order().join(", "),
            self.bytes,
            self.iterations,
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fabric_shapes_are_parsed_from_their_display_form() {
        for text in ["leaf-spine:4x4x4", "leaf-spine:1x1x2", "fat-tree:64", "star:8"] {
            assert_eq!(text.parse::<FabricShape>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "leaf-spine",
            "leaf-spine:4x4",
            "star:1",
            "star:0",
            "leaf-spine:1024x1x65",
            "fat-tree:3",
            "fat-tree:66",
            "ring:4",
        ] {
            assert!(text.parse::<FabricShape>().is_err(), "{text}");
        }
    }

    #[test]
    fn neighbouring_ranks_are_at_different_leaves() {
        let fabric = FabricShape::LeafSpine(2, 2, 3);
        assert_eq!(fabric.hosts_in_rank_order(), ["h1", "h4", "h2", "h5", "h3", "h6"]);
        let fabric = FabricShape::FatTree(2);
        assert_eq!(fabric.hosts_in_rank_order(), ["h1", "h2"]);
        let fabric = FabricShape::FatTree(4);
        let hosts = fabric.hosts_in_rank_order();
        assert_eq!(hosts[..3], ["h1", "h3", "h5"]);
        assert_eq!((hosts.len(), hosts[8].as_str()), (16, "h2"));
    }
}
