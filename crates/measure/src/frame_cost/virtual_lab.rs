//! The load of `xoff bench core --lab`: a lab in virtual time. The measured unit is the frame-hop: one frame
//! that arrives over one link.

use std::fmt;
use std::path::Path;

use xoff_units::Picos;

use super::FrameLoad;
use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};
use xoff_telemetry::failure::Failure;

/// A lab file with 16 hosts, 4 leaf switches and 4 spine switches at 100 Gb/s. The traffic is a permutation:
/// each host sends to one host and receives from one host.
///
/// The hosts send RDMA WRITE messages, and the receiver acknowledges each frame. The switches route, with
/// lossless priorities and WRED.
pub const PERMUTATION_LAB: &str = "
name: permutation
topology:
  fabric:
    leaf-spine: {leaves: 4, spines: 4, hosts: 4, speed: 100g, uplink_speed: 100g, delay: 1us, config: {preset: roce-lossless}}
workload:
  jobs:
    - {name: permutation, kind: permutation, hosts: all, bytes: 1G}
";

/// Message of a ring of [`VirtualLabLoad::ring`] in bytes. A ring AllReduce of 1 MiB over 3456 hosts has such messages.
const RING_MESSAGE_BYTES: u32 = 303;

/// Model time between two checks of the number of frame-hops.
const CHECK_INTERVAL: Picos = Picos::from_micros(1);
/// Model time before the measurement, in which the queues fill.
const FILL_TIME: Picos = Picos::from_micros(50);

/// A load that runs a lab in virtual time and counts frame-hops.
pub struct VirtualLabLoad {
    lab: VirtualLab,
    now: Picos,
}

impl VirtualLabLoad {
    /// Starts the lab [`PERMUTATION_LAB`].
    ///
    /// # Errors
    /// No error is expected, because the lab file is constant.
    pub fn permutation() -> Result<VirtualLabLoad, Failure> {
        VirtualLabLoad::start_lab(PERMUTATION_LAB, "permutation.xoff.yml", Path::new(""))
    }

    /// Starts a ring AllReduce over a fat tree of k-port switches at 400 Gb/s, which repeats without end. The
    /// messages have the same length for every `k`, so the cost of a frame-hop can be compared. `k` is even and at
    /// most 64.
    ///
    /// # Errors
    /// `k` is not valid.
    pub fn ring(k: u32) -> Result<VirtualLabLoad, Failure> {
        let hosts = k.saturating_pow(3) / 4;
        let lab = format!(
            "
name: ring
topology:
  fabric:
    fat-tree: {{k: {k}, speed: 400g, delay: 500ns, config: {{preset: roce-lossless}}}}
transports:
  default: {{mtu: 4096, congestion: dcqcn-nic, ack_every: 16}}
workload:
  jobs:
    - {{name: ring, kind: ring-allreduce, hosts: all, bytes: {}, iterations: 1000}}
",
            hosts * RING_MESSAGE_BYTES
        );
        VirtualLabLoad::start_lab(&lab, "ring.xoff.yml", Path::new(""))
    }

    /// Reads a lab file and starts the lab.
    ///
    /// # Errors
    /// The lab file is unreadable or invalid, or the lab cannot run in virtual time.
    pub fn read(path: &Path) -> Result<VirtualLabLoad, Failure> {
        let location = path.display().to_string();
        let text =
            xoff_telemetry::read_input_text(path, xoff_telemetry::InputLimit::LAB).map_err(|error| {
                Failure::configuration("the lab file cannot be read")
                    .at(&location)
                    .because(error)
                    .fix("give a readable lab file (docs/lab.md)")
            })?;
        VirtualLabLoad::start_lab(&text, &location, path.parent().unwrap_or(Path::new("")))
    }

    /// Starts a lab and runs it until the queues are filled. `folder` is the base of relative paths in the
    /// lab file.
    fn start_lab(lab_file: &str, location: &str, folder: &Path) -> Result<VirtualLabLoad, Failure> {
        let plan = parse_lab(lab_file, location, folder, TimeMode::Virtual)
            .map_err(|problems| Failure::configuration(problems.to_string()))?;
        let mut lab = VirtualLab::new(plan, LabOptions::default())?;
        lab.start(&mut ())?;
        lab.run(FILL_TIME, false, &mut ());
        Ok(VirtualLabLoad { lab, now: FILL_TIME })
    }
}

impl FrameLoad for VirtualLabLoad {
    /// Runs the lab until there were at least `frames` frame-hops. Returns the number of frame-hops. It is
    /// below `frames` if the traffic of the lab ends.
    fn run(&mut self, frames: u64) -> u64 {
        let hops = |lab: &VirtualLab| lab.simulation.fabric.frame_hops();
        let before = hops(&self.lab);
        let mut idle = 0;
        while hops(&self.lab) - before < frames && idle < 1_000 {
            let so_far = hops(&self.lab);
            self.now = self.now.saturating_add(CHECK_INTERVAL);
            self.lab.run(self.now, false, &mut ());
            idle = if hops(&self.lab) == so_far { idle + 1 } else { 0 };
        }
        hops(&self.lab) - before
    }

    fn check(&self) -> Result<(), String> {
        match self.lab.simulation.fabric.frame_hops() {
            0 => Err("no frame passed a link".to_owned()),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for VirtualLabLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualLabLoad")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permutation_lab_sends_frames_over_links() {
        let mut fabric = VirtualLabLoad::permutation().unwrap();
        assert!(fabric.run(2_000) >= 2_000);
        fabric.check().unwrap();
    }

    #[test]
    fn a_ring_sends_frames_over_links() {
        let mut ring = VirtualLabLoad::ring(4).unwrap();
        assert!(ring.run(2_000) >= 2_000);
        assert!(VirtualLabLoad::ring(3).is_err());
    }
}
