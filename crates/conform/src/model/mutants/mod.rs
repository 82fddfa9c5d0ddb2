//! Mutants of the model device. Each is wrong in one behaviour, which one check detects.

mod configuration;
mod generation;
mod reception;
mod timers;

use xoff_units::LinkTiming;

use super::mutation::Mutation;

/// A mutant of the model device.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// Name in reports, and on the command line.
    pub name: &'static str,
    /// Identifier of the check that detects the defect.
    pub check: &'static str,
    /// The defect as a sentence with the mutant as its subject.
    pub defect: &'static str,
    pub(super) mutation: fn(&LinkTiming) -> Box<dyn Mutation>,
}

impl std::fmt::Debug for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mutant")
            .field("name", &self.name)
            .field("check", &self.check)
            .finish_non_exhaustive()
    }
}

/// Defines a mutant.
const fn mutant(
    name: &'static str,
    check: &'static str,
    defect: &'static str,
    mutation: fn(&LinkTiming) -> Box<dyn Mutation>,
) -> Mutant {
    Mutant {
        name,
        check,
        defect,
        mutation,
    }
}

/// Returns all mutants, in the order of the groups of checks.
pub fn all_mutants() -> impl Iterator<Item = &'static Mutant> {
    [reception::MUTANTS, generation::MUTANTS, configuration::MUTANTS]
        .into_iter()
        .flatten()
}
