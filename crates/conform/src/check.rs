//! Checks: description, prerequisites and code.

use std::future::Future;
use std::pin::Pin;

use serde::Serialize;

use crate::instrument::Instrument;
use crate::step::Step;

/// A check in progress. Its result is the evidence: the measured values as text.
pub type CheckFuture = Pin<Box<dyn Future<Output = Step<String>>>>;

/// The group of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckGroup {
    /// The device receives pauses.
    Reception,
    /// The device sends pauses.
    Generation,
    /// Configuration, DCBX and counters.
    Configuration,
}

/// A conformance check.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Check {
    /// Identifier, such as `A5`.
    pub id: &'static str,
    /// The required behaviour in a few words.
    pub title: &'static str,
    /// Frames and operations of the instrument.
    pub stimulus: &'static str,
    /// The measured quantity.
    pub observation: &'static str,
    /// The condition of PASS.
    pub criterion: &'static str,
    /// Clause of the standard, or the source of the check.
    pub clause: &'static str,
    /// True if the check reports a value and cannot fail.
    pub is_informational: bool,
    /// Identifiers of the checks whose behaviour this check needs. If a device lacks such a behaviour, this check may
    /// fail, too.
    pub prerequisites: &'static [&'static str],
    /// Forms of a frame that the check sends one after the other. A failure names each form that fails. Empty: the
    /// check has no forms.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub forms: &'static [&'static str],
    #[serde(skip)]
    pub(crate) run: fn(Instrument) -> CheckFuture,
}

impl Check {
    /// Starts the definition of a check.
    pub(crate) const fn new(
        id: &'static str,
        title: &'static str,
        run: fn(Instrument) -> CheckFuture,
    ) -> Check {
        Check {
            id,
            title,
            stimulus: "",
            observation: "",
            criterion: "",
            clause: "",
            is_informational: false,
            prerequisites: &[],
            forms: &[],
            run,
        }
    }

    pub(crate) const fn stimulus(self, stimulus: &'static str) -> Check {
        Check { stimulus, ..self }
    }

    pub(crate) const fn observation(self, observation: &'static str) -> Check {
        Check { observation, ..self }
    }

    pub(crate) const fn criterion(self, criterion: &'static str) -> Check {
        Check { criterion, ..self }
    }

    pub(crate) const fn clause(self, clause: &'static str) -> Check {
        Check { clause, ..self }
    }

    pub(crate) const fn requires(self, prerequisites: &'static [&'static str]) -> Check {
        Check {
            prerequisites,
            ..self
        }
    }

    pub(crate) const fn forms(self, forms: &'static [&'static str]) -> Check {
        Check { forms, ..self }
    }

    pub(crate) const fn informational(self) -> Check {
        Check {
            is_informational: true,
            ..self
        }
    }

    /// Returns the group, by the letter of the identifier.
    pub fn group(&self) -> CheckGroup {
        match self.id.as_bytes().first() {
            Some(b'A') => CheckGroup::Reception,
            Some(b'B') => CheckGroup::Generation,
            _ => CheckGroup::Configuration,
        }
    }
}
