//! No congestion control: a constant rate, and perhaps a constant window.

use super::parameters::{Field, ParameterSet, Preset, Slot};
use super::rate::Bounds;
use super::{CongestionControl, Context, Signal};

/// Parameters of [`Constant`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConstantParameters {
    /// The rate in bits per second, 1 Mb/s to 1.6 Tb/s; at most the line rate, which is also the default.
    pub rate_bps: Option<u64>,
    /// The window in payload bytes, 1 to 2^40. Default: none. About `line rate * round trip` keeps the flow from having
    /// more under way than an empty network holds (the BDP cap of IRN, SIGCOMM 2018).
    pub window_bytes: Option<u64>,
}

impl ParameterSet for ConstantParameters {
    const ALGORITHM: &'static str = "none";
    const FIELDS: &'static [Field<Self>] = &[
        Field::new("rate_bps", 1e6, 1.6e12, |p| Slot::Optional(&mut p.rate_bps)),
        Field::new("window_bytes", 1.0, 1_099_511_627_776.0, |p| {
            Slot::Optional(&mut p.window_bytes)
        }),
    ];
    const PRESETS: &'static [Preset<Self>] = &[Preset {
        name: "line-rate",
        make: |_| ConstantParameters::default(),
    }];
}

/// Sends at a constant rate, whatever happens.
#[derive(Clone, Debug)]
pub struct Constant {
    rate_bps: u64,
    window_bytes: Option<u64>,
}

impl Constant {
    /// Values out of range are taken at the nearest end of it.
    pub fn new(parameters: ConstantParameters, context: &Context) -> Constant {
        let parameters = parameters.clamped();
        let bounds = Bounds::new(1, context);
        Constant {
            rate_bps: parameters
                .rate_bps
                .unwrap_or(bounds.line_bps)
                .min(bounds.line_bps),
            window_bytes: parameters.window_bytes,
        }
    }
}

impl CongestionControl for Constant {
    fn name(&self) -> &'static str {
        ConstantParameters::ALGORITHM
    }

    fn signals(&self) -> &'static [Signal] {
        match self.window_bytes {
            Some(_) => &[Signal::Acknowledgement],
            None => &[],
        }
    }

    fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    fn window_bytes(&self) -> Option<u64> {
        self.window_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::context;
    use super::*;

    #[test]
    fn the_rate_is_the_lines_unless_told_otherwise() {
        let context = context(25_000_000_000);
        let free = Constant::new(ConstantParameters::default(), &context);
        assert_eq!((free.rate_bps(), free.window_bytes()), (25_000_000_000, None));
        let limited = ConstantParameters {
            rate_bps: Some(1_000_000_000),
            window_bytes: Some(64_000),
        };
        let limited = Constant::new(limited, &context);
        assert_eq!(
            (limited.rate_bps(), limited.window_bytes()),
            (1_000_000_000, Some(64_000))
        );
        let beyond = ConstantParameters {
            rate_bps: Some(100_000_000_000),
            window_bytes: None,
        };
        assert_eq!(Constant::new(beyond, &context).rate_bps(), 25_000_000_000);
    }
}
