//! `xoff bench ai`: the KPIs of the AI-fabric benchmarking draft over collectives, in virtual time.
//!
//! A [`Subject`] is a lab: one that is given, or a fabric and a collective that are made ([`Setting`]). Each is run once for each seed, and
//! each KPI of its runs ([`kpis`]) is a figure with a sample for each seed.

mod draft;
mod kpi;
mod lab;
mod run;

pub use draft::{CV_MAX_PERCENT, Setup, cv_percent, draft};
pub use kpi::{Kpi, kpis};
pub use lab::{Collective, Fabric, Setting};
pub use run::{Outcome, Subject, result, run};

#[cfg(test)]
mod tests;
