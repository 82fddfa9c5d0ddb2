//! Congestion control algorithms by the names that lab files use.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use xoff_units::Picos;

use super::parameters::{ParameterError, ParameterSet, ParameterValue, PresetOverrides};
use super::{
    CongestionControl, CongestionFeedback, ConstantRate, ConstantRateParameters, ControllerContext,
    ControllerFactory, Dcqcn, DcqcnNic, DcqcnNicParameters, DcqcnParameters, Dctcp, DctcpParameters, Hpcc,
    HpccParameters, Swift, SwiftParameters, Timely, TimelyParameters,
};

/// Congestion control algorithm of xoff, with its name in lab files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// `none`: a constant rate without congestion control ([`ConstantRate`]).
    #[default]
    None,
    /// `dcqcn`: DCQCN as published ([`Dcqcn`]).
    Dcqcn,
    /// `dcqcn-nic`: DCQCN as network cards implement it ([`DcqcnNic`]).
    DcqcnNic,
    /// `dctcp`: a window that depends on the share of marked bytes ([`Dctcp`]).
    Dctcp,
    /// `timely`: a rate that depends on the gradient of the round-trip time ([`Timely`]).
    Timely,
    /// `hpcc`: a window that depends on in-band telemetry ([`Hpcc`]).
    Hpcc,
    /// `swift`: a window that keeps the round-trip time at a target ([`Swift`]).
    Swift,
}

impl Algorithm {
    /// All algorithms, in the order in which messages list them.
    pub const ALL: [Algorithm; 7] = [
        Algorithm::None,
        Algorithm::Dcqcn,
        Algorithm::DcqcnNic,
        Algorithm::Dctcp,
        Algorithm::Timely,
        Algorithm::Hpcc,
        Algorithm::Swift,
    ];

    /// Returns the name of the algorithm in lab files, such as `dcqcn-nic`.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::None => ConstantRateParameters::ALGORITHM,
            Algorithm::Dcqcn => DcqcnParameters::ALGORITHM,
            Algorithm::DcqcnNic => DcqcnNicParameters::ALGORITHM,
            Algorithm::Dctcp => DctcpParameters::ALGORITHM,
            Algorithm::Timely => TimelyParameters::ALGORITHM,
            Algorithm::Hpcc => HpccParameters::ALGORITHM,
            Algorithm::Swift => SwiftParameters::ALGORITHM,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = ParameterError;

    fn from_str(name: &str) -> Result<Algorithm, ParameterError> {
        let found = Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name);
        found.ok_or_else(|| ParameterError::UnknownAlgorithm {
            name: name.to_owned(),
            known: Algorithm::ALL.map(Algorithm::name).join(", "),
        })
    }
}

/// A congestion control algorithm and its changed parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CongestionConfig {
    /// The selected algorithm. The default is [`Algorithm::None`].
    pub algorithm: Algorithm,
    /// Changed parameters by name. The entry `preset` selects a named set of parameters. Without this entry,
    /// the first preset of the algorithm is used. Every further entry overrides one parameter of the preset.
    pub parameters: BTreeMap<String, ParameterValue>,
}

impl CongestionConfig {
    /// Creates a configuration with the default parameters of an algorithm.
    pub fn new(algorithm: Algorithm) -> CongestionConfig {
        CongestionConfig {
            algorithm,
            parameters: BTreeMap::new(),
        }
    }

    /// Sets the parameter `name`, or selects a preset if `name` is `preset`.
    /// [`factory`](CongestionConfig::factory) checks the value.
    pub fn with_parameter(mut self, name: &str, value: impl Into<ParameterValue>) -> CongestionConfig {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }

    /// Creates a factory for the controllers of all queue pairs.
    ///
    /// # Errors
    /// Returns the first error in the parameters: an unknown name, a wrong type or a value out of range.
    pub fn factory(&self) -> Result<ControllerFactory, ParameterError> {
        let values = &self.parameters;
        match self.algorithm {
            Algorithm::None => factory(values, |p, context| Box::new(ConstantRate::new(p, context))),
            Algorithm::Dcqcn => factory(values, |p, context| Box::new(Dcqcn::new(p, context))),
            Algorithm::DcqcnNic => factory(values, |p, context| Box::new(DcqcnNic::new(p, context))),
            Algorithm::Dctcp => factory(values, |p, context| Box::new(Dctcp::new(p, context))),
            Algorithm::Timely => factory(values, |p, context| Box::new(Timely::new(p, context))),
            Algorithm::Hpcc => factory(values, |p, context| Box::new(Hpcc::new(p, context))),
            Algorithm::Swift => factory(values, |p, context| Box::new(Swift::new(p, context))),
        }
    }

    /// Returns the feedback for ECN marks that the algorithm uses by default.
    ///
    /// The feedback depends on the algorithm:
    ///
    /// - `dcqcn`: CNPs with at least 50 us between them, as in the paper.
    /// - `dcqcn-nic`: CNPs with at least 4 us between them, as in NVIDIA's firmware
    ///   (`MIN_TIME_BETWEEN_CNPS`). With the presets for ns-3, each acknowledgement reports the mark of its
    ///   packet, because the ns-3 models have no CNPs.
    /// - `dctcp`: each acknowledgement reports the mark of its packet.
    /// - All other algorithms use no feedback for ECN marks.
    pub fn default_feedback(&self) -> CongestionFeedback {
        let models_ns3 = matches!(self.parameters.get("preset"), Some(ParameterValue::Text(preset)) if preset.ends_with("-ns3"));
        match self.algorithm {
            Algorithm::Dcqcn => CongestionFeedback::Cnp {
                interval: Picos::from_micros(50),
            },
            Algorithm::DcqcnNic if models_ns3 => CongestionFeedback::AckEcho,
            Algorithm::DcqcnNic => CongestionFeedback::Cnp {
                interval: Picos::from_micros(4),
            },
            Algorithm::Dctcp => CongestionFeedback::AckEcho,
            Algorithm::None | Algorithm::Timely | Algorithm::Hpcc | Algorithm::Swift => {
                CongestionFeedback::None
            }
        }
    }
}

fn factory<P: ParameterSet>(
    values: &BTreeMap<String, ParameterValue>,
    make: fn(P, &ControllerContext) -> Box<dyn CongestionControl>,
) -> Result<ControllerFactory, ParameterError> {
    let overrides = PresetOverrides::<P>::parse(values)?;
    Ok(ControllerFactory::new(move |context| {
        make(overrides.parameters(context), context)
    }))
}
