//! Congestion control by name, as lab files have it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use xoff_units::Picos;

use super::parameters::{Overrides, ParameterError, ParameterSet, Value};
use super::{
    CongestionControl, Constant, ConstantParameters, Context, Dcqcn, DcqcnNic, DcqcnNicParameters,
    DcqcnParameters, Dctcp, DctcpParameters, Factory, Feedback, Hpcc, HpccParameters, Swift, SwiftParameters,
    Timely, TimelyParameters,
};

/// The algorithms that come with xoff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// [`Constant`].
    #[default]
    None,
    /// [`Dcqcn`], as published.
    Dcqcn,
    /// [`DcqcnNic`], as network cards implement it.
    DcqcnNic,
    /// [`Dctcp`].
    Dctcp,
    /// [`Timely`].
    Timely,
    /// [`Hpcc`].
    Hpcc,
    /// [`Swift`].
    Swift,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 7] = [
        Algorithm::None,
        Algorithm::Dcqcn,
        Algorithm::DcqcnNic,
        Algorithm::Dctcp,
        Algorithm::Timely,
        Algorithm::Hpcc,
        Algorithm::Swift,
    ];

    /// Its name in lab files.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::None => ConstantParameters::ALGORITHM,
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

/// An algorithm and what is changed of its parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Which one.
    pub algorithm: Algorithm,
    /// Parameters by name. `preset` names the set that the others change; without it that is the algorithm's first one.
    pub parameters: BTreeMap<String, Value>,
}

impl Choice {
    /// An algorithm with its default parameters.
    pub fn new(algorithm: Algorithm) -> Choice {
        Choice {
            algorithm,
            parameters: BTreeMap::new(),
        }
    }

    /// With a parameter changed, or a preset chosen. Checked by [`factory`](Choice::factory).
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Choice {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }

    /// Makes controllers of this choice, or says what is wrong with its parameters.
    pub fn factory(&self) -> Result<Factory, ParameterError> {
        let values = &self.parameters;
        match self.algorithm {
            Algorithm::None => factory(values, |p, context| Box::new(Constant::new(p, context))),
            Algorithm::Dcqcn => factory(values, |p, context| Box::new(Dcqcn::new(p, context))),
            Algorithm::DcqcnNic => factory(values, |p, context| Box::new(DcqcnNic::new(p, context))),
            Algorithm::Dctcp => factory(values, |p, context| Box::new(Dctcp::new(p, context))),
            Algorithm::Timely => factory(values, |p, context| Box::new(Timely::new(p, context))),
            Algorithm::Hpcc => factory(values, |p, context| Box::new(Hpcc::new(p, context))),
            Algorithm::Swift => factory(values, |p, context| Box::new(Swift::new(p, context))),
        }
    }

    /// What the far end should tell of congestion marks, unless the user says otherwise.
    ///
    /// The distance of 50 us between notifications is the DCQCN paper's, that of 4 us NVIDIA's firmware's
    /// (`MIN_TIME_BETWEEN_CNPS`). The ns-3 models have no notification packets and echo each mark.
    pub fn feedback(&self) -> Feedback {
        let models_ns3 =
            matches!(self.parameters.get("preset"), Some(Value::Text(preset)) if preset.ends_with("-ns3"));
        match self.algorithm {
            Algorithm::Dcqcn => Feedback::Cnp {
                interval: Picos::from_micros(50),
            },
            Algorithm::DcqcnNic if models_ns3 => Feedback::AckEcho,
            Algorithm::DcqcnNic => Feedback::Cnp {
                interval: Picos::from_micros(4),
            },
            Algorithm::Dctcp => Feedback::AckEcho,
            Algorithm::None | Algorithm::Timely | Algorithm::Hpcc | Algorithm::Swift => Feedback::None,
        }
    }
}

fn factory<P: ParameterSet>(
    values: &BTreeMap<String, Value>,
    make: fn(P, &Context) -> Box<dyn CongestionControl>,
) -> Result<Factory, ParameterError> {
    let overrides = Overrides::<P>::parse(values)?;
    Ok(Factory::new(move |context| {
        make(overrides.parameters(context), context)
    }))
}
