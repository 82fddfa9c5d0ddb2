//! The matrix of checks and mutants: each check passes on the model device and fails on its mutants, and no other check
//! fails on these mutants unless it declares the behaviour as its prerequisite.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use xoff_host::HostConfigError;
use xoff_units::LinkTiming;

use crate::check::Check;
use crate::checks::CHECKS;
use crate::executor::run_check;
use crate::instrument::CheckScale;
use crate::model::{Mutant, all_mutants};
use crate::outcome::{CheckOutcome, CheckReport};
use crate::session::make_device;

/// The cells of a matrix that are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixScope {
    /// All checks on the model device, and each mutant on its own check.
    OwnChecks,
    /// All checks on the model device and on all mutants.
    Full,
}

/// The results of the checks on one device.
#[derive(Clone, Debug)]
pub struct MatrixRow {
    /// The mutant. `None`: the model device.
    pub mutant: Option<&'static Mutant>,
    /// The reports of the checks that ran, in the order of the checks.
    pub reports: Vec<CheckReport>,
}

/// A matrix of checks and devices.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Speed of the link in Mb/s.
    pub speed_mbps: u32,
    /// The cells that were computed.
    pub scope: MatrixScope,
    /// The model device, then the mutants.
    pub rows: Vec<MatrixRow>,
}

/// Runs all `checks` on the model device, and each mutant on its own check, one after the other. `run` runs one check.
/// `notify` gets the name of the device and the report of each check.
///
/// # Errors
/// Fails with the first error of `run`.
pub(crate) fn run_own_checks<E>(
    speed_mbps: u32,
    checks: &[&'static Check],
    mut run: impl FnMut(&'static Check, Option<&'static Mutant>) -> Result<CheckReport, E>,
    mut notify: impl FnMut(&str, &CheckReport),
) -> Result<Matrix, E> {
    let mut rows = Vec::new();
    for mutant in [None].into_iter().chain(all_mutants().map(Some)) {
        let mut row = MatrixRow {
            mutant,
            reports: Vec::new(),
        };
        let is_wanted = |check: &&Check| mutant.is_none_or(|mutant| mutant.check == check.id);
        for check in checks.iter().copied().filter(is_wanted) {
            let report = run(check, mutant)?;
            notify(row.name(), &report);
            row.reports.push(report);
        }
        rows.push(row);
    }
    rows.retain(|row| !row.reports.is_empty());
    Ok(Matrix {
        speed_mbps,
        scope: MatrixScope::OwnChecks,
        rows,
    })
}

/// Computes a matrix with a number of threads. The result does not depend on this number. If `stop` becomes true, the
/// function returns soon, and cells are missing.
///
/// # Errors
/// The speed of the link is not 1 to 1 600 000 Mb/s.
pub fn run_matrix(
    scope: MatrixScope,
    link: LinkTiming,
    scale: CheckScale,
    threads: usize,
    stop: &AtomicBool,
) -> Result<Matrix, HostConfigError> {
    let devices: Vec<Option<&'static Mutant>> = [None].into_iter().chain(all_mutants().map(Some)).collect();
    let is_wanted = |mutant: Option<&Mutant>, check: &Check| match mutant {
        Some(mutant) => scope == MatrixScope::Full || mutant.check == check.id,
        None => true,
    };
    let cells: Vec<(usize, &'static Check)> = devices
        .iter()
        .enumerate()
        .flat_map(|(row, mutant)| CHECKS.iter().map(move |check| (row, *mutant, *check)))
        .filter(|(_, mutant, check)| is_wanted(*mutant, check))
        .map(|(row, _, check)| (row, check))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, CheckReport)>, HostConfigError> {
        let mut results = Vec::new();
        while let Some((row, check)) = cells.get(next.fetch_add(1, Ordering::Relaxed))
            && !stop.load(Ordering::Relaxed)
        {
            let device = make_device(devices[*row], link)?;
            let end = run_check(check, link, scale, device)?;
            let report = CheckReport::new(check, end.result, None, end.duration.as_nanos());
            results.push((*row, report));
        }
        Ok(results)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("checks do not panic"))
            .collect()
    });
    let mut rows: Vec<MatrixRow> = devices
        .iter()
        .map(|mutant| MatrixRow {
            mutant: *mutant,
            reports: Vec::new(),
        })
        .collect();
    for result in results {
        for (row, report) in result? {
            rows[row].reports.push(report);
        }
    }
    let position = |report: &CheckReport| CHECKS.iter().position(|check| check.id == report.check.id);
    rows.iter_mut().for_each(|row| row.reports.sort_by_key(position));
    Ok(Matrix {
        speed_mbps: link.speed_mbps,
        scope,
        rows,
    })
}

impl MatrixRow {
    /// Returns the name of the device.
    pub fn name(&self) -> &'static str {
        self.mutant.map_or("model host", |mutant| mutant.name)
    }

    /// Returns the identifiers of the checks that failed, without the own check of a mutant.
    pub fn other_failures(&self) -> Vec<&'static str> {
        let own = self.mutant.map(|mutant| mutant.check);
        self.reports
            .iter()
            .filter(|report| report.outcome == CheckOutcome::Fail && Some(report.check.id) != own)
            .map(|report| report.check.id)
            .collect()
    }

    /// Returns the rules that this row breaks. `skipped` are the checks that the medium cannot carry.
    fn problems(&self, skipped: &[&str]) -> Vec<String> {
        let mut problems = Vec::new();
        for report in &self.reports {
            let check = report.check;
            let passes = match report.outcome {
                CheckOutcome::Pass | CheckOutcome::Info => true,
                CheckOutcome::Skip => skipped.contains(&check.id),
                _ => false,
            };
            let problem = match self.mutant {
                Some(mutant) if mutant.check == check.id => match report.outcome {
                    CheckOutcome::Fail => None,
                    CheckOutcome::Skip if passes => None,
                    _ => Some("does not detect its mutant"),
                },
                Some(mutant) if check.prerequisites.contains(&mutant.check) => None,
                Some(_) if !passes => Some("fails without a declared prerequisite"),
                None if !passes => Some("does not pass"),
                _ => None,
            };
            if let Some(problem) = problem {
                let detail = &report.detail;
                let device = self.name();
                problems.push(format!("{} on {device}: {problem} ({detail})", check.id));
            }
        }
        problems
    }
}

impl Matrix {
    /// Returns each prerequisite without which its check passes.
    fn needless_prerequisites(&self) -> Vec<String> {
        let fails_without = |check: &Check, prerequisite: &str| {
            let mut rows = self.rows.iter();
            rows.any(|row| {
                row.mutant.is_some_and(|mutant| mutant.check == prerequisite)
                    && row.other_failures().contains(&check.id)
            })
        };
        let declared = CHECKS.iter().flat_map(|check| {
            check
                .prerequisites
                .iter()
                .map(move |prerequisite| (check, prerequisite))
        });
        declared
            .filter(|(check, prerequisite)| !check.is_informational && !fails_without(check, prerequisite))
            .map(|(check, prerequisite)| {
                format!(
                    "{} passes on all mutants of its prerequisite {prerequisite}",
                    check.id
                )
            })
            .collect()
    }

    /// Returns the checks that the medium of the model device cannot carry. In virtual time, there are none.
    fn skipped_checks(&self) -> Vec<&'static str> {
        let of_model = self.rows.iter().filter(|row| row.mutant.is_none());
        of_model
            .flat_map(|row| &row.reports)
            .filter(|report| report.outcome == CheckOutcome::Skip && self.scope == MatrixScope::OwnChecks)
            .map(|report| report.check.id)
            .collect()
    }

    /// Returns each violation of the rules as a sentence. Empty if the matrix is right.
    pub fn problems(&self) -> Vec<String> {
        let skipped = self.skipped_checks();
        let mut problems: Vec<String> = self.rows.iter().flat_map(|row| row.problems(&skipped)).collect();
        let has_mutant = |check: &Check| {
            self.rows
                .iter()
                .any(|row| row.mutant.is_some_and(|mutant| mutant.check == check.id))
        };
        let has_run = |check: &Check| {
            let mut reports = self.rows.iter().flat_map(|row| &row.reports);
            reports.any(|report| report.check.id == check.id)
        };
        let without = CHECKS
            .iter()
            .filter(|check| has_run(check) && !check.is_informational && !has_mutant(check));
        problems.extend(without.map(|check| format!("{} has no mutant", check.id)));
        if self.scope == MatrixScope::Full {
            problems.extend(self.needless_prerequisites());
        }
        problems
    }
}
