//! Mean utilisation of many placements.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::leaf_switch::LeafSwitch;
use super::placement_lab::{PlacementLab, PlacementParameters, SeedInput};
use super::utilisation::{MeanUtilisation, PlacementUtilisation, compute_rates};
use xoff_lab::{ParallelRunsResult, run_in_parallel};
use xoff_telemetry::failure::{Exit, Failure};

/// Number of seeds that a thread processes at a time.
const SEEDS_PER_BATCH: usize = 64;
/// Seed of the run if the seeds of placements change the addresses or the queue pairs instead of the
/// hash seed.
const FIXED_SEED: u64 = 0;

/// Calls `work` for each seed, on all CPUs, and returns the results in the order of the seeds. A thread
/// processes `batch` seeds at a time and calls `begin` before each batch.
pub(super) fn run_for_each_seed<T: Send + 'static, S>(
    seeds: &[u64],
    batch: usize,
    begin: impl Fn() -> Result<S, Failure> + Send + Sync + 'static,
    work: impl Fn(&mut S, u64) -> Result<T, Failure> + Send + Sync + 'static,
    stop: &AtomicBool,
) -> Result<Vec<T>, Failure> {
    let batches: Arc<Vec<Vec<u64>>> = Arc::new(seeds.chunks(batch.max(1)).map(<[u64]>::to_vec).collect());
    let count = batches.len();
    let one = move |number: usize| {
        let mut state = begin()?;
        batches[number]
            .iter()
            .map(|seed| work(&mut state, *seed))
            .collect::<Result<Vec<T>, Failure>>()
    };
    let threads = available_parallelism().map_or(1, usize::from);
    match run_in_parallel(count, threads, one, stop, |_| ())? {
        ParallelRunsResult::Done(done) => Ok(done.into_iter().flatten().collect()),
        ParallelRunsResult::Interrupted(_) => Err(Failure::new(Exit::Interrupted, "interrupted")),
    }
}

/// Returns the mean utilisation over one placement for each seed. The hash of the switch selects the uplinks.
///
/// # Errors
/// The configuration is invalid, a packet leaves the leaf switch through no uplink, or the run
/// was interrupted.
pub fn mean_utilisation_by_hash(
    setting: &PlacementParameters,
    seeds: &[u64],
    stop: &AtomicBool,
) -> Result<MeanUtilisation, Failure> {
    let lab = Arc::new(PlacementLab::new(setting, "none")?);
    let fixed = Arc::clone(&lab);
    let begin = move || match fixed.setting.vary {
        SeedInput::HashSeed => Ok(None),
        SeedInput::Addresses | SeedInput::QueuePairs => LeafSwitch::new(&fixed, FIXED_SEED).map(Some),
    };
    let work = move |leaf: &mut Option<LeafSwitch>, seed: u64| {
        let uplinks = match leaf {
            Some(leaf) => leaf.place_queue_pairs(&lab, seed),
            None => LeafSwitch::new(&lab, seed)?.place_queue_pairs(&lab, seed),
        };
        Ok(compute_rates(&lab.setting, &uplinks?).1)
    };
    Ok(MeanUtilisation::mean(&run_for_each_seed(
        seeds,
        SEEDS_PER_BATCH,
        begin,
        work,
        stop,
    )?))
}

/// Returns the mean utilisation over `trials` random placements. In a random placement, each queue pair uses
/// an independent random uplink. `seed` is the seed of the random numbers. The result is 0 without trials.
pub fn mean_utilisation_at_random(
    setting: &PlacementParameters,
    trials: usize,
    seed: u64,
) -> MeanUtilisation {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let all = usize::from(setting.shape.hosts) * usize::from(setting.queue_pairs);
    let mut draw = || ((u128::from(random.next_u64()) * u128::from(setting.shape.uplinks)) >> 64) as u16;
    let outcomes: Vec<PlacementUtilisation> = (0..trials)
        .map(|_| compute_rates(setting, &(0..all).map(|_| draw()).collect::<Vec<_>>()).1)
        .collect();
    MeanUtilisation::mean(&outcomes)
}
