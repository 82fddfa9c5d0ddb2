//! Problems of a TLV.

use core::fmt;

/// A field of a TLV that is wrong or that a receiver must ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlvProblem {
    /// Name of the TLV, such as `ETS configuration`, or `LLDP frame` for the Ethernet header.
    pub tlv: &'static str,
    /// Name of the field, such as `TC bandwidth`.
    pub field: &'static str,
    /// Index of the field in its table: the number of the priority, the traffic class or the entry.
    pub index: Option<usize>,
    /// The value found.
    pub value: u32,
    /// Text that describes the valid values, such as `0 to 7`.
    pub expected: &'static str,
    /// The clause of the standard that defines the field.
    pub clause: &'static str,
}

/// The name of a TLV and the clause that defines it. Its methods make problems of the TLV.
#[derive(Clone, Copy, Debug)]
pub(super) struct TlvName {
    pub(super) name: &'static str,
    pub(super) clause: &'static str,
}

impl TlvName {
    pub(super) fn problem(self, field: &'static str, value: usize, expected: &'static str) -> TlvProblem {
        TlvProblem {
            tlv: self.name,
            field,
            index: None,
            value: u32::try_from(value).unwrap_or(u32::MAX),
            expected,
            clause: self.clause,
        }
    }

    pub(super) fn problem_at(
        self,
        field: &'static str,
        index: usize,
        value: usize,
        expected: &'static str,
    ) -> TlvProblem {
        TlvProblem {
            index: Some(index),
            ..self.problem(field, value, expected)
        }
    }
}

impl fmt::Display for TlvProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TlvProblem {
            tlv,
            field,
            index,
            value,
            expected,
            clause,
        } = self;
        write!(f, "{tlv}: {field} ")?;
        if let Some(index) = index {
            write!(f, "{index} ")?;
        }
        write!(f, "is {value}, expected {expected} ({clause})")
    }
}

impl core::error::Error for TlvProblem {}
