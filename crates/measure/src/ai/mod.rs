//! `xoff bench ai`: measures collectives in virtual time. The measured values are the key performance
//! indicators (KPIs) of the IETF draft on AI fabric benchmarking.
//!
//! A [`BenchLab`] is a lab file of the user or a generated lab. [`LabSettings`] select the fabric and the
//! collective of a generated lab. Each lab runs once for each seed. Each KPI ([`kpis_of_run`]) becomes a
//! figure of the result, with one sample for each seed.

mod draft_report;
mod kpi;
mod lab;
mod run;

pub use draft_report::{CV_MAX_PERCENT, ReportSetup, coefficient_of_variation_percent, render_report};
pub use kpi::{Kpi, kpis_of_run};
pub use lab::{Collective, FabricShape, LabSettings};
pub use run::{BenchLab, LabRunResults, bench_result, run_labs};

#[cfg(test)]
mod tests;
