//! Virtual time: what a frame-hop costs. A frame-hop is one frame that arrives over one link.

use std::fmt;
use std::path::Path;

use xoff_units::Picos;

use super::Load;
use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};
use xoff_telemetry::failure::Failure;

/// A permutation of 16 hosts over 4 leaves and 4 spines at 100 Gb/s, WRITE with one acknowledgement a frame, routed, lossless, with
/// WRED.
pub const PERMUTATION_LAB: &str = "
name: permutation
topology:
  fabric:
    leaf-spine: {leaves: 4, spines: 4, hosts: 4, speed: 100g, uplink_speed: 100g, delay: 1us, config: {preset: roce-lossless}}
workload:
  jobs:
    - {name: permutation, kind: permutation, hosts: all, bytes: 1G}
";

/// Model time between two looks at how many frame-hops there were.
const STEP: Picos = Picos::from_micros(1);
/// Model time until queues have filled: a fabric at rest is not what is measured.
const FILLING: Picos = Picos::from_micros(50);

/// A lab in virtual time.
pub struct VirtualLabLoad {
    lab: VirtualLab,
    now: Picos,
}

impl VirtualLabLoad {
    /// The permutation of 16 hosts.
    ///
    /// # Errors
    /// None are expected: the lab is our own.
    pub fn permutation() -> Result<VirtualLabLoad, Failure> {
        VirtualLabLoad::of_text(PERMUTATION_LAB, "permutation.xoff.yml", Path::new(""))
    }

    /// A lab file.
    ///
    /// # Errors
    /// It cannot be read, or is wrong, or cannot run in virtual time.
    pub fn read(path: &Path) -> Result<VirtualLabLoad, Failure> {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::configuration("the lab file cannot be read")
                .at(&place)
                .because(error)
                .fix("give a readable lab file (docs/lab.md)")
        })?;
        VirtualLabLoad::of_text(&text, &place, path.parent().unwrap_or(Path::new("")))
    }

    fn of_text(text: &str, place: &str, folder: &Path) -> Result<VirtualLabLoad, Failure> {
        let plan = parse_lab(text, place, folder, TimeMode::Virtual)
            .map_err(|problems| Failure::configuration(problems.to_string()))?;
        let mut lab = VirtualLab::new(plan, LabOptions::default())?;
        lab.start(&mut ())?;
        lab.run(FILLING, false, &mut ());
        Ok(VirtualLabLoad { lab, now: FILLING })
    }
}

impl Load for VirtualLabLoad {
    /// Frame-hops; fewer than asked for where the lab's traffic comes to its end.
    fn run(&mut self, frames: u64) -> u64 {
        let hops = |lab: &VirtualLab| lab.simulation.fabric.frame_hops();
        let before = hops(&self.lab);
        let mut idle = 0;
        while hops(&self.lab) - before < frames && idle < 1_000 {
            let so_far = hops(&self.lab);
            self.now = self.now.saturating_add(STEP);
            self.lab.run(self.now, false, &mut ());
            idle = if hops(&self.lab) == so_far { idle + 1 } else { 0 };
        }
        hops(&self.lab) - before
    }

    fn check(&self) -> Result<(), String> {
        match self.lab.simulation.fabric.frame_hops() {
            0 => Err("no frame went over a link".to_owned()),
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
    fn a_fabric_hands_frames_on() {
        let mut fabric = VirtualLabLoad::permutation().unwrap();
        assert!(fabric.run(2_000) >= 2_000);
        fabric.check().unwrap();
    }
}
