//! The same placements as frames in virtual time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use xoff_units::Picos;

use super::figures::{Outcome, outcome};
use super::lab::{PlacementLab, Setting};
use super::leaf::Leaf;
use super::run::for_each;
use xoff_fabric::{FrameView, LinkEnd, Observer};
use xoff_lab::{LabOptions, VirtualLab};
use xoff_telemetry::failure::Failure;

/// How frames are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameSettings {
    /// Name of the congestion control.
    pub congestion: String,
    /// What happens before this is not counted.
    pub settle: Picos,
    /// Rates are means over this much time.
    pub measure: Picos,
}

/// A placement, by arithmetic and as frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// By arithmetic.
    pub expected: Outcome,
    /// As frames.
    pub found: Outcome,
    /// Largest deviation of a queue pair's rate from its rate by arithmetic, as a share of that.
    pub deviation: f64,
    /// Queue pairs that took another uplink than the switch alone said, or more than one.
    pub astray: usize,
}

/// What leaves a leaf by its uplinks.
#[derive(Debug)]
struct Uplinks {
    leaf: u32,
    /// By port.
    uplinks: Vec<Option<u16>>,
    /// Numbers of the queue pairs' far ends, in order, and whose they are.
    pairs: Vec<(u32, usize)>,
    /// By queue pair: bits on the wire, and the uplink.
    bits: Vec<u64>,
    taken: Vec<Option<u16>>,
    strayed: Vec<bool>,
}

impl Observer for Uplinks {
    fn frame_departed(&mut self, _: Picos, _: Picos, from: LinkEnd, frame: FrameView<'_>) {
        let LinkEnd::Switch { switch, port } = from else {
            return;
        };
        if switch != self.leaf {
            return;
        }
        let (Some(uplink), Some(bth)) = (self.uplinks[usize::from(port)], frame.bth()) else {
            return;
        };
        if let Ok(place) = self
            .pairs
            .binary_search_by_key(&bth.dest_qp(), |(number, _)| *number)
        {
            let pair = self.pairs[place].1;
            // Preamble, FCS and gap.
            self.bits[pair] += 8 * u64::from(frame.frame_len + 24);
            let before = *self.taken[pair].get_or_insert(uplink);
            self.strayed[pair] |= before != uplink;
        }
    }
}

/// Runs the placement of each seed as frames: all hosts send as fast as they can, PFC is on.
///
/// # Errors
/// A configuration that cannot be, or that sends packets elsewhere; an interrupt.
pub fn run_frames(
    setting: &Setting,
    seeds: &[u64],
    settings: &FrameSettings,
    stop: &AtomicBool,
) -> Result<Vec<Placed>, Failure> {
    let lab = Arc::new(PlacementLab::new(setting, &settings.congestion)?);
    let settings = settings.clone();
    let work = move |(): &mut (), seed| run(&lab, seed, &settings);
    for_each(seeds, 1, || Ok(()), work, stop)
}

fn run(lab: &PlacementLab, seed: u64, settings: &FrameSettings) -> Result<Placed, Failure> {
    let uplinks = Leaf::new(lab, seed)?.place(lab, seed)?;
    let (rates, expected) = outcome(&lab.setting, &uplinks);
    let options = LabOptions {
        seed,
        ..LabOptions::default()
    };
    let mut running = VirtualLab::new(lab.plan.clone(), options)?;
    let mut seen = watch(lab, &running, rates.len());
    running.start(&mut seen)?;
    running.run(settings.settle, false, &mut seen);
    seen.bits.fill(0);
    let begun = running.elapsed();
    running.run(
        Picos(settings.settle.0.saturating_add(settings.measure.0)),
        false,
        &mut seen,
    );
    let seconds = running.elapsed().since(begun).0 as f64 / 1e12;
    let line_rate = lab.setting.shape.host_mbps() as f64 * 1e6;
    let found: Vec<f64> = seen
        .bits
        .iter()
        .map(|bits| *bits as f64 / seconds / line_rate)
        .collect();
    let deviation = |(found, rate): (&f64, &f64)| (found / rate - 1.0).abs();
    let astray = |(pair, uplink): (usize, &u16)| seen.strayed[pair] || seen.taken[pair] != Some(*uplink);
    Ok(Placed {
        expected,
        found: Outcome::of_rates(&found, usize::from(lab.setting.queue_pairs)),
        deviation: found.iter().zip(&rates).map(deviation).fold(0.0, f64::max),
        astray: uplinks.iter().enumerate().filter(|place| astray(*place)).count(),
    })
}

fn watch(lab: &PlacementLab, running: &VirtualLab, pairs: usize) -> Uplinks {
    let ports = &running.fabric_plan.switches[lab.leaf()].ports;
    let names = lab.leaf_ports().1;
    let uplink = |name: &String| {
        names
            .iter()
            .position(|uplink| uplink == name)
            .map(|place| place as u16)
    };
    let mut numbers: Vec<(u32, usize)> = (0..pairs).map(|pair| (lab.numbers(pair, 0).1, pair)).collect();
    numbers.sort_unstable();
    Uplinks {
        leaf: lab.leaf() as u32,
        uplinks: ports.iter().map(|port| uplink(&port.name)).collect(),
        pairs: numbers,
        bits: vec![0; pairs],
        taken: vec![None; pairs],
        strayed: vec![false; pairs],
    }
}
