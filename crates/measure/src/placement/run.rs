//! Many placements.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::figures::{Figures, Outcome, outcome};
use super::lab::{PlacementLab, Setting, Vary};
use super::leaf::Leaf;
use xoff_lab::{PoolResult, run_in_parallel};
use xoff_telemetry::failure::{Exit, Failure};

/// Seeds that one thread takes at a time.
const BATCH: usize = 64;
/// The hash seed's source where seeds change something else.
const FIXED_SEED: u64 = 0;

/// Does something for each seed in all cores, and hands back the results in their order.
pub(super) fn for_each<T: Send + 'static, S>(
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
        PoolResult::Done(done) => Ok(done.into_iter().flatten().collect()),
        PoolResult::Interrupted(_) => Err(Failure::new(Exit::Interrupted, "interrupted")),
    }
}

/// Means over the placements that the switch's hash makes.
///
/// # Errors
/// A configuration that cannot be, or that sends packets elsewhere; an interrupt.
pub fn by_hash(setting: &Setting, seeds: &[u64], stop: &AtomicBool) -> Result<Figures, Failure> {
    let lab = Arc::new(PlacementLab::new(setting, "none")?);
    let fixed = Arc::clone(&lab);
    let begin = move || match fixed.setting.vary {
        Vary::HashSeed => Ok(None),
        Vary::Addresses | Vary::QueuePairs => Leaf::new(&fixed, FIXED_SEED).map(Some),
    };
    let work = move |leaf: &mut Option<Leaf>, seed: u64| {
        let uplinks = match leaf {
            Some(leaf) => leaf.place(&lab, seed),
            None => Leaf::new(&lab, seed)?.place(&lab, seed),
        };
        Ok(outcome(&lab.setting, &uplinks?).1)
    };
    Ok(Figures::mean(&for_each(seeds, BATCH, begin, work, stop)?))
}

/// Means over placements drawn by lot: each queue pair takes any uplink, whatever the others do.
pub fn by_lot(setting: &Setting, trials: usize, seed: u64) -> Figures {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let all = usize::from(setting.shape.hosts) * usize::from(setting.queue_pairs);
    let mut draw = || ((u128::from(random.next_u64()) * u128::from(setting.shape.uplinks)) >> 64) as u16;
    let outcomes: Vec<Outcome> = (0..trials)
        .map(|_| outcome(setting, &(0..all).map(|_| draw()).collect::<Vec<_>>()).1)
        .collect();
    Figures::mean(&outcomes)
}
