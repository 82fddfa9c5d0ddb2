//! Labs of collectives: a leaf-spine fabric, and who takes part in which order.

use crate::choice::named_choices;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::str::FromStr;

use xoff_lab::parse_lab;
use xoff_lab::plan::{LabPlan, TimeMode};
use xoff_telemetry::failure::Failure;

/// Most leaves, spines, and hosts of a leaf.
const SHAPE_MAX: u16 = 128;
/// Most hosts in all: an AllToAll among more has too many queue pairs for a bench.
const HOSTS_MAX: u32 = 1_024;

/// A fabric that is made for the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Leaves, spines, hosts of each leaf.
    LeafSpine(u16, u16, u16),
    /// One switch that blocks nobody, and its hosts.
    Star(u16),
}

impl fmt::Display for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fabric::LeafSpine(leaves, spines, hosts) => write!(f, "leaf-spine:{leaves}x{spines}x{hosts}"),
            Fabric::Star(hosts) => write!(f, "star:{hosts}"),
        }
    }
}

impl FromStr for Fabric {
    type Err = String;

    fn from_str(text: &str) -> Result<Fabric, String> {
        let wrong = || {
            format!(
                "'{text}' is no fabric: write leaf-spine:LEAVESxSPINESxHOSTS, such as leaf-spine:4x4x4 (hosts of each leaf), \
                 or star:HOSTS; at most {SHAPE_MAX} of each, {HOSTS_MAX} hosts in all"
            )
        };
        let (name, shape) = text.split_once(':').ok_or_else(wrong)?;
        let numbers: Vec<u16> = shape
            .split('x')
            .map(|number| {
                number
                    .parse()
                    .ok()
                    .filter(|number| (1..=SHAPE_MAX).contains(number))
            })
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        let fabric = match (name, numbers.as_slice()) {
            ("leaf-spine", &[leaves, spines, hosts]) => Fabric::LeafSpine(leaves, spines, hosts),
            ("star", &[hosts]) => Fabric::Star(hosts),
            _ => return Err(wrong()),
        };
        match fabric.hosts() {
            2..=HOSTS_MAX => Ok(fabric),
            _ => Err(wrong()),
        }
    }
}

impl Fabric {
    /// Hosts in all.
    pub fn hosts(self) -> u32 {
        match self {
            Fabric::LeafSpine(leaves, _, hosts) => u32::from(leaves) * u32::from(hosts),
            Fabric::Star(hosts) => u32::from(hosts),
        }
    }

    /// Hosts in an order in which neighbours are at different leaves: every step of a ring crosses the spines.
    fn ranks(self) -> Vec<String> {
        let (leaves, hosts) = match self {
            Fabric::LeafSpine(leaves, _, hosts) => (leaves, hosts),
            Fabric::Star(hosts) => (1, hosts),
        };
        let of_turn = |host: u16| (0..leaves).map(move |leaf| format!("h{}", leaf * hosts + host + 1));
        (0..hosts).flat_map(of_turn).collect()
    }
}

named_choices! {
    /// A collective.
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
    /// Its kind in lab files.
    fn kind(self) -> &'static str {
        match self {
            Collective::Allreduce => "ring-allreduce",
            other => other.name(),
        }
    }
}

/// What labs are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The fabric.
    pub fabric: Fabric,
    /// Speed of all links in Mb/s.
    pub speed_mbps: u32,
    /// Size of the collective, as nccl-tests means it, in bytes.
    pub bytes: u64,
    /// Measured iterations.
    pub iterations: u32,
    /// Name of the congestion control.
    pub congestion: String,
}

impl Setting {
    /// The lab of a collective, with a load-balancing scheme or the hash.
    ///
    /// # Errors
    /// A scheme or a congestion control that is not there.
    pub fn lab(&self, collective: Collective, scheme: Option<&str>) -> Result<LabPlan, Failure> {
        let text = self.text(collective, scheme);
        parse_lab(&text, "bench ai", Path::new(""), TimeMode::Virtual)
            .map_err(|problems| Failure::configuration(problems.to_string()))
    }

    /// The same as a lab file.
    pub fn text(&self, collective: Collective, scheme: Option<&str>) -> String {
        let shape = match self.fabric {
            Fabric::LeafSpine(leaves, spines, hosts) => {
                format!("leaf-spine: {{leaves: {leaves}, spines: {spines}, hosts: {hosts}")
            }
            Fabric::Star(hosts) => format!("star: {{hosts: {hosts}"),
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
            collective.kind(),
            self.fabric.ranks().join(", "),
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
    fn fabrics_are_read_as_they_are_written() {
        for text in ["leaf-spine:4x4x4", "leaf-spine:1x1x2", "star:8"] {
            assert_eq!(text.parse::<Fabric>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "leaf-spine",
            "leaf-spine:4x4",
            "star:1",
            "star:0",
            "leaf-spine:128x1x128",
            "ring:4",
        ] {
            assert!(text.parse::<Fabric>().is_err(), "{text}");
        }
    }

    #[test]
    fn neighbours_are_at_different_leaves() {
        let fabric = Fabric::LeafSpine(2, 2, 3);
        assert_eq!(fabric.ranks(), ["h1", "h4", "h2", "h5", "h3", "h6"]);
    }
}
