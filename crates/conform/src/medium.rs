//! What carries the frames of a check and executes its operations.

use xoff_units::Picos;

use crate::device::{Counters, Operation, Settings, Unsupported};
use crate::link_frame::Defect;
use crate::observation::Observations;
use crate::step::TimeMeasurement;
use crate::stimulus_port::StimulusPort;
use crate::timing::MediumTiming;

/// The reason why a medium cannot continue a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MediumError {
    /// The check proves nothing.
    Failed(String),
    /// The user has interrupted the run.
    Interrupted,
}

impl From<String> for MediumError {
    fn from(reason: String) -> MediumError {
        MediumError::Failed(reason)
    }
}

/// The answer of a device, or the reason why the medium got none.
pub(crate) type Answer<T> = Result<Result<T, Unsupported>, MediumError>;

/// The link between instrument and device, in virtual time or in real time.
pub(crate) trait Medium {
    /// Returns the time since the start of the check.
    fn now(&self) -> Picos;

    /// Returns how precise the times are.
    fn timing(&self) -> MediumTiming;

    /// Returns the MAC address of the port of the device.
    fn device_mac(&self) -> [u8; 6];

    /// Returns the port of the instrument.
    fn port(&mut self) -> &mut StimulusPort;

    /// Returns the number of the last scheduled frame that left, and its end.
    fn last_sent(&self) -> (u64, Picos);

    /// Processes the events of the next time, or advances to `until` if there are none before. Returns the kinds of
    /// the events as a mask.
    fn step(&mut self, until: Picos, observations: &mut Observations) -> Result<u16, MediumError>;

    /// Changes the device.
    fn operate(&mut self, operation: Operation, observations: &mut Observations) -> Answer<()>;

    /// Reads the counters of the device.
    fn counters(&mut self, observations: &mut Observations) -> Answer<Counters>;

    /// Reads the settings of the device.
    fn settings(&mut self, observations: &mut Observations) -> Answer<Settings>;

    /// Returns whether a frame with a defect can be sent.
    fn carries(&self, defect: Defect) -> bool;

    /// Returns the reason why a failure proves nothing. `None`: nothing disturbed the check. `measurement` is
    /// the measurement of a criterion of time. `None`: the criterion depends on no times.
    fn find_disturbance(
        &mut self,
        measurement: Option<TimeMeasurement>,
        observations: &mut Observations,
    ) -> Result<Option<String>, MediumError>;
}
