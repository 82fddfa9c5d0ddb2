//! Without congestion control: a constant rate and an optional constant window.

use super::parameters::{FieldRef, ParameterField, ParameterSet, Preset};
use super::rate::RateBounds;
use super::{CongestionControl, CongestionSignal, ControllerContext};

/// Parameters of [`ConstantRate`]. By default, the rate is the line rate and the window is not limited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConstantRateParameters {
    /// Rate in bits per second, 1 Mb/s to 1.6 Tb/s, limited to the line rate. `None`, the default, means the
    /// line rate.
    pub rate_bps: Option<u64>,
    /// Window in payload bytes, 1 to 2^40. `None`, the default, means no limit. A window of
    /// `line rate * round trip` limits a flow to the data that an idle network can hold (the BDP cap of IRN,
    /// SIGCOMM 2018).
    pub window_bytes: Option<u64>,
}

impl ParameterSet for ConstantRateParameters {
    const ALGORITHM: &'static str = "none";
    const FIELDS: &'static [ParameterField<Self>] = &[
        ParameterField::new("rate_bps", 1e6, 1.6e12, |p| FieldRef::Optional(&mut p.rate_bps)),
        ParameterField::new("window_bytes", 1.0, 1_099_511_627_776.0, |p| {
            FieldRef::Optional(&mut p.window_bytes)
        }),
    ];
    const PRESETS: &'static [Preset<Self>] = &[Preset {
        name: "line-rate",
        make: |_| ConstantRateParameters::default(),
    }];
}

/// Controller with a constant rate and an optional constant window.
#[derive(Clone, Debug)]
pub struct ConstantRate {
    rate_bps: u64,
    window_bytes: Option<u64>,
}

impl ConstantRate {
    /// Creates a controller. Parameters outside their ranges are replaced by the nearest limit.
    pub fn new(parameters: ConstantRateParameters, context: &ControllerContext) -> ConstantRate {
        let parameters = parameters.clamped();
        let bounds = RateBounds::new(1, context);
        ConstantRate {
            rate_bps: parameters
                .rate_bps
                .unwrap_or(bounds.line_bps)
                .min(bounds.line_bps),
            window_bytes: parameters.window_bytes,
        }
    }
}

impl CongestionControl for ConstantRate {
    fn name(&self) -> &'static str {
        ConstantRateParameters::ALGORITHM
    }

    fn signals(&self) -> &'static [CongestionSignal] {
        match self.window_bytes {
            Some(_) => &[CongestionSignal::Acknowledgement],
            None => &[],
        }
    }

    fn prefetch(&self) {
        xoff_units::prefetch(self);
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
    fn the_default_rate_is_the_line_rate() {
        let context = context(25_000_000_000);
        let free = ConstantRate::new(ConstantRateParameters::default(), &context);
        assert_eq!((free.rate_bps(), free.window_bytes()), (25_000_000_000, None));
        let limited = ConstantRateParameters {
            rate_bps: Some(1_000_000_000),
            window_bytes: Some(64_000),
        };
        let limited = ConstantRate::new(limited, &context);
        assert_eq!(
            (limited.rate_bps(), limited.window_bytes()),
            (1_000_000_000, Some(64_000))
        );
        let beyond = ConstantRateParameters {
            rate_bps: Some(100_000_000_000),
            window_bytes: None,
        };
        assert_eq!(ConstantRate::new(beyond, &context).rate_bps(), 25_000_000_000);
    }
}
