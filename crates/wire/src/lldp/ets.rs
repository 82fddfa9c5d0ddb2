//! The ETS configuration and ETS recommendation TLVs (IEEE 802.1Q-2018 D.2.8 and D.2.9).

use core::fmt;

use super::problem::{TlvName, TlvProblem};
use crate::PRIORITIES;

pub(super) const CONFIGURATION_SUBTYPE: u8 = 0x09;
pub(super) const RECOMMENDATION_SUBTYPE: u8 = 0x0a;
const WILLING: u8 = 0x80;
const CREDIT_BASED_SHAPER: u8 = 0x40;
const RESERVED: u8 = 0x38;
const CAPABILITY: u8 = 0x07;
/// Number of bytes of both TLVs after the subtype: flags, priority assignment, bandwidth and algorithm tables.
const INFORMATION_LEN: usize = 21;
const CONFIGURATION: TlvName = TlvName {
    name: "ETS configuration",
    clause: "IEEE 802.1Q-2018 D.2.8",
};
const RECOMMENDATION: TlvName = TlvName {
    name: "ETS recommendation",
    clause: "IEEE 802.1Q-2018 D.2.9",
};

/// How a port selects frames of a traffic class for transmission (IEEE 802.1Q-2018 table 8-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectionAlgorithm {
    /// Strict priority, number 0.
    #[default]
    StrictPriority,
    /// Credit-based shaper, number 1.
    CreditBasedShaper,
    /// Enhanced transmission selection, number 2: the class has a share of the bandwidth.
    Ets,
    /// An algorithm of the vendor, number 255.
    VendorSpecific,
}

impl SelectionAlgorithm {
    /// Returns the number of the algorithm in the TLV.
    pub fn number(self) -> u8 {
        match self {
            SelectionAlgorithm::StrictPriority => 0,
            SelectionAlgorithm::CreditBasedShaper => 1,
            SelectionAlgorithm::Ets => 2,
            SelectionAlgorithm::VendorSpecific => 255,
        }
    }

    /// Returns the algorithm with this number. Returns `None` for the reserved numbers 3 to 254.
    pub fn from_number(number: u8) -> Option<SelectionAlgorithm> {
        match number {
            0 => Some(SelectionAlgorithm::StrictPriority),
            1 => Some(SelectionAlgorithm::CreditBasedShaper),
            2 => Some(SelectionAlgorithm::Ets),
            255 => Some(SelectionAlgorithm::VendorSpecific),
            _ => None,
        }
    }
}

impl fmt::Display for SelectionAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SelectionAlgorithm::StrictPriority => "strict priority",
            SelectionAlgorithm::CreditBasedShaper => "credit-based shaper",
            SelectionAlgorithm::Ets => "ETS",
            SelectionAlgorithm::VendorSpecific => "vendor-specific",
        })
    }
}

/// The three tables of both ETS TLVs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtsTables {
    /// Traffic class of each priority, 0 to 7.
    pub traffic_class: [u8; PRIORITIES],
    /// Share of each traffic class in percent. The shares of the ETS classes have the sum 100. Receivers ignore
    /// the shares of other classes.
    pub bandwidth_percent: [u8; PRIORITIES],
    /// Selection algorithm of each traffic class.
    pub algorithm: [SelectionAlgorithm; PRIORITIES],
}

impl Default for EtsTables {
    /// Each priority has its own traffic class with strict priority.
    fn default() -> EtsTables {
        EtsTables {
            traffic_class: [0, 1, 2, 3, 4, 5, 6, 7],
            bandwidth_percent: [0; PRIORITIES],
            algorithm: [SelectionAlgorithm::StrictPriority; PRIORITIES],
        }
    }
}

impl EtsTables {
    /// Returns the number of traffic classes that the assignment needs: the highest class plus one.
    pub fn traffic_classes(&self) -> u8 {
        self.traffic_class.iter().max().map_or(0, |class| class + 1)
    }

    /// Returns whether a traffic class with at least one priority uses the algorithm.
    pub fn uses(&self, algorithm: SelectionAlgorithm) -> bool {
        let mut classes = self.traffic_class.iter();
        classes.any(|&class| self.algorithm.get(usize::from(class)) == Some(&algorithm))
    }

    /// Reads the tables. `bytes` is the value of the TLV after the flags.
    fn parse(
        name: TlvName,
        bytes: &[u8; 20],
        warnings: &mut Vec<TlvProblem>,
    ) -> Result<EtsTables, TlvProblem> {
        let mut tables = EtsTables::default();
        for (priority, class) in tables.traffic_class.iter_mut().enumerate() {
            // The even priority of each byte is in the high four bits.
            *class = bytes[priority / 2] >> (4 - priority % 2 * 4) & 0x0f;
        }
        tables.bandwidth_percent.copy_from_slice(&bytes[4..12]);
        for (class, algorithm) in tables.algorithm.iter_mut().enumerate() {
            let number = bytes[12 + class];
            *algorithm = SelectionAlgorithm::from_number(number).ok_or_else(|| {
                let expected = "0, 1, 2 or 255; 3 to 254 are reserved";
                name.problem_at("algorithm of traffic class", class, usize::from(number), expected)
            })?;
        }
        tables.check(name)?;
        for (class, &percent) in tables.bandwidth_percent.iter().enumerate() {
            if percent != 0 && tables.algorithm[class] != SelectionAlgorithm::Ets {
                let expected = "0, because the algorithm is not ETS";
                warnings.push(name.problem_at(
                    "bandwidth of traffic class",
                    class,
                    usize::from(percent),
                    expected,
                ));
            }
        }
        Ok(tables)
    }

    fn check(&self, name: TlvName) -> Result<(), TlvProblem> {
        for (priority, &class) in self.traffic_class.iter().enumerate() {
            if class > 7 {
                return Err(name.problem_at(
                    "traffic class of priority",
                    priority,
                    usize::from(class),
                    "0 to 7",
                ));
            }
        }
        let is_ets = |class: &usize| self.algorithm[*class] == SelectionAlgorithm::Ets;
        for (class, &percent) in self.bandwidth_percent.iter().enumerate() {
            if percent > 100 {
                let percent = usize::from(percent);
                return Err(name.problem_at(
                    "bandwidth of traffic class",
                    class,
                    percent,
                    "0 to 100 percent",
                ));
            }
        }
        if (0..PRIORITIES).any(|class| is_ets(&class)) {
            let shares = (0..PRIORITIES)
                .filter(is_ets)
                .map(|class| self.bandwidth_percent[class]);
            let sum: usize = shares.map(usize::from).sum();
            if sum != 100 {
                return Err(name.problem("sum of the bandwidth of the ETS classes", sum, "100 percent"));
            }
        }
        Ok(())
    }

    fn to_bytes(self, flags: u8) -> [u8; INFORMATION_LEN] {
        let mut bytes = [0; INFORMATION_LEN];
        bytes[0] = flags;
        for (priority, class) in self.traffic_class.iter().enumerate() {
            bytes[1 + priority / 2] |= (class & 0x0f) << (4 - priority % 2 * 4);
        }
        bytes[5..13].copy_from_slice(&self.bandwidth_percent);
        for (byte, algorithm) in bytes[13..].iter_mut().zip(self.algorithm) {
            *byte = algorithm.number();
        }
        bytes
    }
}

/// The ETS configuration of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtsConfiguration {
    /// Whether the port accepts the recommendation of its peer.
    pub is_willing: bool,
    /// Whether the port supports the credit-based shaper (CBS).
    pub supports_credit_based_shaper: bool,
    /// Largest number of traffic classes that the port supports, 1 to 8. The TLV contains 0 for 8 classes.
    pub capability: u8,
    /// The configuration in operation.
    pub tables: EtsTables,
}

impl EtsConfiguration {
    pub(super) fn parse(
        information: &[u8],
        warnings: &mut Vec<TlvProblem>,
    ) -> Result<EtsConfiguration, TlvProblem> {
        let (flags, tables) = split_information(CONFIGURATION, information)?;
        let mut table_warnings = Vec::new();
        let configuration = EtsConfiguration {
            is_willing: flags & WILLING != 0,
            supports_credit_based_shaper: flags & CREDIT_BASED_SHAPER != 0,
            capability: if flags & CAPABILITY == 0 {
                8
            } else {
                flags & CAPABILITY
            },
            tables: EtsTables::parse(CONFIGURATION, tables, &mut table_warnings)?,
        };
        configuration.check()?;
        if flags & RESERVED != 0 {
            let reserved = usize::from(flags & RESERVED) >> 3;
            warnings.push(CONFIGURATION.problem("value of the reserved bits", reserved, "0"));
        }
        warnings.append(&mut table_warnings);
        Ok(configuration)
    }

    pub(super) fn check(&self) -> Result<(), TlvProblem> {
        if !(1..=8).contains(&self.capability) {
            let capability = usize::from(self.capability);
            return Err(CONFIGURATION.problem("traffic class capability", capability, "1 to 8"));
        }
        self.tables.check(CONFIGURATION)?;
        for (priority, &class) in self.tables.traffic_class.iter().enumerate() {
            if class >= self.capability {
                return Err(CONFIGURATION.problem_at(
                    "traffic class of priority",
                    priority,
                    usize::from(class),
                    "below the traffic class capability of the TLV",
                ));
            }
        }
        if !self.supports_credit_based_shaper && self.tables.uses(SelectionAlgorithm::CreditBasedShaper) {
            let expected = "1, because a traffic class uses the credit-based shaper";
            return Err(CONFIGURATION.problem("CBS bit", 0, expected));
        }
        Ok(())
    }

    pub(super) fn to_bytes(self) -> [u8; INFORMATION_LEN] {
        let mut flags = self.capability & CAPABILITY;
        if self.is_willing {
            flags |= WILLING;
        }
        if self.supports_credit_based_shaper {
            flags |= CREDIT_BASED_SHAPER;
        }
        self.tables.to_bytes(flags)
    }
}

/// The ETS configuration that a port recommends to its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtsRecommendation {
    /// The recommended configuration.
    pub tables: EtsTables,
}

impl EtsRecommendation {
    pub(super) fn parse(
        information: &[u8],
        warnings: &mut Vec<TlvProblem>,
    ) -> Result<EtsRecommendation, TlvProblem> {
        let (reserved, tables) = split_information(RECOMMENDATION, information)?;
        let mut table_warnings = Vec::new();
        let tables = EtsTables::parse(RECOMMENDATION, tables, &mut table_warnings)?;
        if reserved != 0 {
            warnings.push(RECOMMENDATION.problem("value of the reserved byte", usize::from(reserved), "0"));
        }
        warnings.append(&mut table_warnings);
        Ok(EtsRecommendation { tables })
    }

    pub(super) fn check(&self) -> Result<(), TlvProblem> {
        self.tables.check(RECOMMENDATION)
    }

    pub(super) fn to_bytes(self) -> [u8; INFORMATION_LEN] {
        self.tables.to_bytes(0)
    }
}

/// Splits the value of an ETS TLV after OUI and subtype into its first byte and its tables.
fn split_information(name: TlvName, information: &[u8]) -> Result<(u8, &[u8; 20]), TlvProblem> {
    match information.split_first_chunk::<1>() {
        Some((&[flags], tables)) => match tables.try_into() {
            Ok(tables) => Ok((flags, tables)),
            Err(_) => Err(name.problem("length in bytes", information.len() + 4, "25")),
        },
        None => Err(name.problem("length in bytes", 4, "25")),
    }
}
