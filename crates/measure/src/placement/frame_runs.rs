//! Runs placements with frames in virtual time. A placement is a selection of an uplink for each queue pair.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use xoff_units::Picos;

use super::leaf_switch::LeafSwitch;
use super::mean_runs::run_for_each_seed;
use super::placement_lab::{PlacementLab, PlacementParameters};
use super::utilisation::{PlacementUtilisation, compute_rates};
use xoff_fabric::{FrameView, LinkEnd, Observer};
use xoff_lab::{LabOptions, VirtualLab};
use xoff_telemetry::failure::Failure;

/// The parameters of a run with frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRunParameters {
    /// Name of the congestion control in lab files, such as `dcqcn` or `none`.
    pub congestion: String,
    /// Model time from the start of the run to the start of the measurement.
    pub settle: Picos,
    /// Duration of the measurement in model time.
    pub measure: Picos,
}

/// The calculated and measured results of one placement.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementRunResult {
    /// Calculated utilisation of the uplinks.
    pub expected: PlacementUtilisation,
    /// Measured utilisation of the uplinks.
    pub found: PlacementUtilisation,
    /// Largest relative deviation of a measured rate from the calculated rate, over all queue pairs. 0.01
    /// means 1 %.
    pub deviation: f64,
    /// Number of queue pairs that did not use exactly the uplink that [`LeafSwitch`] has selected. They used
    /// a different uplink, or several uplinks.
    pub astray: usize,
}

/// Observes the frames that leave a leaf switch through its uplinks.
#[derive(Debug)]
struct UplinkObserver {
    leaf: u32,
    /// Uplink number of each port of the leaf, or `None` for other ports.
    uplinks: Vec<Option<u16>>,
    /// For each queue pair: the queue pair number of its remote end, and its index. Sorted by number.
    pairs: Vec<(u32, usize)>,
    /// Number of bits that each queue pair sent through the uplinks, with FCS, preamble and gap.
    bits: Vec<u64>,
    /// First uplink of each queue pair, or `None` if it has sent no frame.
    first_uplinks: Vec<Option<u16>>,
    /// True for each queue pair that used more than one uplink.
    changed_uplink: Vec<bool>,
}

impl Observer for UplinkObserver {
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
            // The preamble, the FCS and the gap take 24 bytes.
            self.bits[pair] += 8 * u64::from(frame.frame_len + 24);
            let before = *self.first_uplinks[pair].get_or_insert(uplink);
            self.changed_uplink[pair] |= before != uplink;
        }
    }
}

/// Runs the placement of each seed with frames. All hosts send at full speed, and PFC is enabled. The result
/// has the order of `seeds`.
///
/// # Errors
/// The configuration is invalid, a packet leaves the leaf switch through no uplink, or the run
/// was interrupted.
pub fn run_placements_with_frames(
    setting: &PlacementParameters,
    seeds: &[u64],
    settings: &FrameRunParameters,
    stop: &AtomicBool,
) -> Result<Vec<PlacementRunResult>, Failure> {
    let lab = Arc::new(PlacementLab::new(setting, &settings.congestion)?);
    let settings = settings.clone();
    let work = move |(): &mut (), seed| run_placement(&lab, seed, &settings);
    run_for_each_seed(seeds, 1, || Ok(()), work, stop)
}

fn run_placement(
    lab: &PlacementLab,
    seed: u64,
    settings: &FrameRunParameters,
) -> Result<PlacementRunResult, Failure> {
    let uplinks = LeafSwitch::new(lab, seed)?.place_queue_pairs(lab, seed)?;
    let (rates, expected) = compute_rates(&lab.setting, &uplinks);
    let options = LabOptions {
        seed,
        ..LabOptions::default()
    };
    let mut running = VirtualLab::new(lab.plan.clone(), options)?;
    let mut seen = uplink_observer(lab, &running, rates.len());
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
    let astray = |(pair, uplink): (usize, &u16)| {
        seen.changed_uplink[pair] || seen.first_uplinks[pair] != Some(*uplink)
    };
    Ok(PlacementRunResult {
        expected,
        found: PlacementUtilisation::of_rates(&found, usize::from(lab.setting.queue_pairs)),
        deviation: found.iter().zip(&rates).map(deviation).fold(0.0, f64::max),
        astray: uplinks.iter().enumerate().filter(|place| astray(*place)).count(),
    })
}

fn uplink_observer(lab: &PlacementLab, running: &VirtualLab, pairs: usize) -> UplinkObserver {
    let ports = &running.fabric_plan.switches[lab.leaf_index()].ports;
    let names = lab.leaf_port_names().1;
    let uplink = |name: &String| {
        names
            .iter()
            .position(|uplink| uplink == name)
            .map(|place| place as u16)
    };
    let mut numbers: Vec<(u32, usize)> = (0..pairs)
        .map(|pair| (lab.queue_pair_numbers(pair, 0).1, pair))
        .collect();
    numbers.sort_unstable();
    UplinkObserver {
        leaf: lab.leaf_index() as u32,
        uplinks: ports.iter().map(|port| uplink(&port.name)).collect(),
        pairs: numbers,
        bits: vec![0; pairs],
        first_uplinks: vec![None; pairs],
        changed_uplink: vec![false; pairs],
    }
}
