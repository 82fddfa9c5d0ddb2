//! What is compared: plans, in the order of the table.

use std::path::Path;

use super::super::plan::{LabPlan, TimeMode};
use super::super::sweep::{Chosen, Setting, changed, combinations, plan_of, put, read_lab};
use super::one_switch::one_switch;
use xoff_telemetry::failure::Failure;

/// The field of a lab file that names the load-balancing scheme of all switches.
pub const LOAD_BALANCING: &str = "topology.defaults.load_balancing";

/// What differs between the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Load-balancing schemes, by name; the field need not be in the lab file.
    LoadBalancing(Vec<String>),
    /// Values of a field that is in the lab file.
    Field(Setting),
}

impl Compared {
    /// The field and its values.
    pub fn setting(&self) -> Setting {
        match self {
            Compared::LoadBalancing(names) => Setting {
                path: LOAD_BALANCING.to_owned(),
                values: names.clone(),
            },
            Compared::Field(setting) => setting.clone(),
        }
    }
}

/// One plan.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// The value of what is compared; `None`: the one switch.
    pub(super) scheme: Option<String>,
    /// Fields with another value than in the file, the compared one included.
    pub(super) chosen: Vec<Chosen>,
    /// The values of `--set`, in their order.
    pub(super) values: Vec<String>,
    pub(super) plan: LabPlan,
    /// Of a one switch that only one of the compared values has: that value.
    pub(super) one_switch_for: Option<String>,
    /// Which subject is its one switch.
    pub(super) one_switch: Option<usize>,
}

/// All subjects, and the text of the lab file.
pub(super) struct Subjects {
    pub(super) text: String,
    pub(super) all: Vec<Subject>,
    /// Why a lab is not compared with one switch.
    pub(super) warnings: Vec<String>,
}

/// Reads and checks everything before anything is run.
///
/// # Errors
/// A lab, a scheme or a value that cannot be.
pub(super) fn subjects(
    file: &Path,
    compared: &Compared,
    settings: &[Setting],
    time: TimeMode,
    seeds: usize,
) -> Result<Subjects, Failure> {
    let text = read_lab(file)?;
    let setting = compared.setting();
    if settings.iter().any(|other| other.path == setting.path) {
        return Err(
            Failure::usage(format!("\"{}\" is what is compared", setting.path))
                .at(format!("--set {}", setting.path))
                .fix("leave that --set out"),
        );
    }
    // The one switch is a row of its own.
    let combinations = combinations(settings, seeds.saturating_mul(setting.values.len() + 1))?;
    let mut made = Subjects {
        text: text.clone(),
        all: Vec::new(),
        warnings: Vec::new(),
    };
    for combination in combinations {
        let text = changed(file, &text, &combination)?;
        // Mistakes of the file are told at its own lines.
        let base = plan_of(file, &text, &combination, time)?;
        add(&mut made, file, &text, &combination, base, compared, time)?;
    }
    Ok(made)
}

/// The rows of one combination: its schemes, then its one switch, or several where that depends on what is compared.
fn add(
    made: &mut Subjects,
    file: &Path,
    text: &str,
    combination: &[Chosen],
    base: LabPlan,
    compared: &Compared,
    time: TimeMode,
) -> Result<(), Failure> {
    let setting = compared.setting();
    let values: Vec<String> = combination.iter().map(|chosen| chosen.value.clone()).collect();
    let first = made.all.len();
    for value in &setting.values {
        let field = Chosen {
            path: setting.path.clone(),
            value: value.clone(),
        };
        let mut chosen = combination.to_vec();
        chosen.push(field.clone());
        let text = match compared {
            Compared::LoadBalancing(_) => put(file, text, &format!("--lb {value}"), &field)?,
            Compared::Field(_) => changed(file, text, std::slice::from_ref(&field))?,
        };
        made.all.push(Subject {
            scheme: Some(value.clone()),
            plan: plan_of(file, &text, &chosen, time)?,
            chosen,
            values: values.clone(),
            one_switch_for: None,
            one_switch: None,
        });
    }
    let end = made.all.len();
    for at in first..end {
        // One switch has nothing to balance; whatever else is compared may matter there.
        let plan = match compared {
            Compared::LoadBalancing(_) => &base,
            Compared::Field(_) => &made.all[at].plan,
        };
        let one = match one_switch(plan) {
            Ok(one) => one,
            Err(failure) => {
                let warning = format!("no percent of one switch: {failure}");
                if !made.warnings.contains(&warning) {
                    made.warnings.push(warning);
                }
                continue;
            }
        };
        let known = made.all[end..].iter().position(|subject| subject.plan == one);
        made.all[at].one_switch = Some(end + known.unwrap_or(made.all.len() - end));
        if let Some(known) = known {
            made.all[end + known].one_switch_for = None;
        } else {
            made.all.push(Subject {
                scheme: None,
                chosen: match compared {
                    Compared::LoadBalancing(_) => combination.to_vec(),
                    Compared::Field(_) => made.all[at].chosen.clone(),
                },
                values: values.clone(),
                one_switch_for: match compared {
                    Compared::LoadBalancing(_) => None,
                    Compared::Field(_) => made.all[at].scheme.clone(),
                },
                plan: one,
                one_switch: Some(made.all.len()),
            });
        }
    }
    Ok(())
}
