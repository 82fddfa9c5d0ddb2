//! Runs a selection of checks on a network port in real time.

use thiserror::Error;
use xoff_host::{Host, HostConfigError};
use xoff_units::Picos;
use xoff_wire::{MacControl, PRIORITIES, Pfc};

use crate::attempts::Attempts;
use crate::check::{Check, CheckFuture};
use crate::executor::{CheckEnd, CheckLimits, run_future};
use crate::far_host::{FarHostReply, FarHostRequest};
use crate::instrument::Instrument;
use crate::matrix::{Matrix, run_own_checks};
use crate::medium::{Medium, MediumError};
use crate::model::Mutant;
use crate::observation::Observations;
use crate::outcome::{CheckReport, RunReport};
use crate::port_access::PortAccess;
use crate::real_time_link::RealTimeLink;
use crate::session::{CheckRun, RunOptions, run_selected_checks};
use crate::step::Stop;
use crate::timing::MediumTiming;
use crate::traffic::{
    INSTRUMENT_MAC, MODEL_MAC, find_sequence, flow_of_class, identify_data_frame, traffic_host,
};

/// Longest time of a check.
const CHECK_MAX: Picos = Picos::from_millis(10_000);
/// Longest time of a check in its long form: a storm of 60 s, and its preparation.
const LONG_CHECK_MAX: Picos = Picos::from_millis(75_000);
/// Time between the start of the device and the start of a check, in which old frames arrive.
const SETTLING_TIME: Picos = Picos::from_millis(3);

/// Number of frames that a host sends before its first data frame at most.
const FRAMES_BEFORE_DATA_MAX: u64 = 16;

/// The reason why a run on a network port cannot start or continue.
#[derive(Debug, Error)]
pub enum PortRunError {
    /// The speed of the link is not 1 to 1 600 000 Mb/s.
    #[error(transparent)]
    Speed(#[from] HostConfigError),
    /// The port or the far host does not work. The text is the reason.
    #[error("{0}")]
    Environment(String),
    /// The user has interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

/// A device that is ready for a check.
struct StartedDevice {
    name: String,
    mac: [u8; 6],
}

/// Runs checks on a network port. `device_mac` is the MAC address of a device without a far host. `notify` is called
/// with the report of each check. If the preflight fails, no check runs.
///
/// # Errors
/// The speed is not allowed, or the port or the far host does not work.
pub fn run_checks_on_port(
    options: &RunOptions,
    access: &mut dyn PortAccess,
    device_mac: Option<[u8; 6]>,
    notify: impl FnMut(&CheckReport),
) -> Result<RunReport, PortRunError> {
    let mut runner = PortRunner::new(options, access, device_mac)?;
    let name = runner.start_device(options.mutant)?.map(|device| device.name);
    let timing = MediumTiming::real_time(options.link.speed_mbps).class;
    let mut failure = None;
    let run = |_, steps: fn(Instrument) -> CheckFuture| {
        let stop = match failure {
            Some(_) => Stop::Interrupted,
            None => match runner.run(steps, options.mutant) {
                Err(PortRunError::Environment(reason)) => {
                    failure = Some(reason.clone());
                    Stop::Inconclusive(reason)
                }
                result => return result,
            },
        };
        let end = CheckEnd::not_started(stop);
        Ok(CheckRun { end, attempts: 1 })
    };
    let mut report = run_selected_checks(options, name.unwrap_or_default(), timing, run, notify)?;
    match failure {
        Some(reason) if report.checks.is_empty() => return Err(PortRunError::Environment(reason)),
        Some(_) => report.is_interrupted = false,
        None => {}
    }
    report.failure = failure;
    Ok(report)
}

/// Runs all checks on the model device at a network port, and each mutant on its own check. `notify` is called with
/// the name of the device and the report of each check.
///
/// # Errors
/// As [`run_checks_on_port`].
pub fn run_matrix_on_port(
    options: &RunOptions,
    access: &mut dyn PortAccess,
    notify: impl FnMut(&str, &CheckReport),
) -> Result<Matrix, PortRunError> {
    let mut runner = PortRunner::new(options, access, None)?;
    runner.duration_max = LONG_CHECK_MAX;
    let run = |check: &'static Check, mutant| {
        let CheckRun { end, attempts } = runner.run(check.run, mutant)?;
        if end.result == Err(Stop::Interrupted) {
            return Err(PortRunError::Interrupted);
        }
        let report = CheckReport::new(check, end.result, None, end.duration.as_nanos());
        Ok(CheckReport { attempts, ..report })
    };
    run_own_checks(options.link.speed_mbps, &options.checks, run, notify)
}

/// Runs single checks on a network port.
struct PortRunner<'a> {
    options: &'a RunOptions,
    access: &'a mut dyn PortAccess,
    /// MAC address of a device without a far host.
    device_mac: Option<[u8; 6]>,
    /// Longest time of a check.
    duration_max: Picos,
    /// A data frame of each class of the device, in hexadecimal digits.
    frames: Vec<String>,
    /// Offset of the number of a data frame.
    sequence_offset: usize,
}

impl<'a> PortRunner<'a> {
    fn new(
        options: &'a RunOptions,
        access: &'a mut dyn PortAccess,
        device_mac: Option<[u8; 6]>,
    ) -> Result<PortRunner<'a>, PortRunError> {
        let frames = device_frames(options)?;
        let sequence_offset = frames.iter().find_map(|frame| find_sequence(frame));
        let digits = |text: String, byte: &u8| text + &format!("{byte:02x}");
        Ok(PortRunner {
            options,
            access,
            device_mac,
            duration_max: match options.scale.is_long {
                true => LONG_CHECK_MAX,
                false => CHECK_MAX,
            },
            frames: frames
                .iter()
                .map(|frame| frame.iter().fold(String::new(), digits))
                .collect(),
            sequence_offset: sequence_offset.unwrap_or_default(),
        })
    }

    /// Runs a check until its result is certain.
    fn run(
        &mut self,
        steps: fn(Instrument) -> CheckFuture,
        mutant: Option<&Mutant>,
    ) -> Result<CheckRun, PortRunError> {
        let (link, scale) = (self.options.link, self.options.scale);
        let mut attempts = Attempts::new(self.duration_max);
        loop {
            let end = match self.start_device(mutant)? {
                Some(device) => {
                    let mut medium = RealTimeLink::new(link, device.mac, self.access)?;
                    let limits = CheckLimits {
                        scale,
                        duration_max: attempts.remaining(),
                        records_frames: self.options.records_frames,
                    };
                    run_future(steps, link, &mut medium, limits)
                }
                None => CheckEnd::not_started(Stop::Interrupted),
            };
            if let Some(end) = attempts.add(end) {
                let attempts = attempts.count();
                return Ok(CheckRun { end, attempts });
            }
        }
    }

    /// Ends pauses and traffic of the device, and brings it to its initial state. Returns `None` after an
    /// interruption.
    fn start_device(&mut self, mutant: Option<&Mutant>) -> Result<Option<StartedDevice>, PortRunError> {
        let environment = PortRunError::Environment;
        let xon = MacControl::Pfc(Pfc {
            enable: 0xff,
            quanta: [0; PRIORITIES],
        });
        for control in [xon, MacControl::Pause { quanta: 0 }] {
            let frame = control.to_frame(INSTRUMENT_MAC);
            self.access.send(&frame).map_err(environment)?;
        }
        let has_far_host = self.access.has_far_host();
        let mut link = RealTimeLink::new(self.options.link, MODEL_MAC, self.access)?;
        let mut observations = Observations::default();
        let device = if has_far_host {
            let request = FarHostRequest::Start {
                speed_mbps: self.options.link.speed_mbps,
                mutant: mutant.map(|mutant| mutant.name.to_owned()),
                frames: self.frames.clone(),
                sequence_offset: self.sequence_offset,
            };
            match link.call(&request, &mut observations) {
                Ok(Ok(FarHostReply::Started { name, mac })) => StartedDevice { name, mac },
                Ok(Ok(_)) => return Err(environment("the far host gave a wrong answer".to_owned())),
                Ok(Err(unsupported)) => return Err(environment(unsupported.0)),
                Err(MediumError::Interrupted) => return Ok(None),
                Err(MediumError::Failed(reason)) => return Err(environment(reason)),
            }
        } else {
            StartedDevice {
                name: "a device without connection to its host".to_owned(),
                mac: self.device_mac.unwrap_or(MODEL_MAC),
            }
        };
        let end = link.now() + SETTLING_TIME;
        while link.now() < end {
            match link.step(end, &mut observations) {
                Ok(_) => {}
                Err(MediumError::Interrupted) => return Ok(None),
                Err(MediumError::Failed(reason)) => return Err(environment(reason)),
            }
        }
        self.access.count_lost_frames();
        Ok(Some(device))
    }
}

/// Returns a data frame of each class from the device to the instrument.
pub(crate) fn device_frames(options: &RunOptions) -> Result<Vec<Vec<u8>>, HostConfigError> {
    let link = options.link;
    let frame_of = |class: u8| {
        let mut host = Host::new(&traffic_host("device", MODEL_MAC, INSTRUMENT_MAC, link))?;
        let mut buffer = vec![0; host.frame_len_max()];
        let is_started = host.start_flow(Picos::ZERO, flow_of_class(class, false));
        debug_assert!(is_started, "the host has a flow of each class");
        // The host announces its address before its data frames.
        let find_frame = |number: u64| {
            let now = Picos::from_micros(100 * number);
            let frame_len = host.transmit(now, 0, &mut buffer)?;
            identify_data_frame(&buffer[..frame_len]).map(|_| buffer[..frame_len].to_vec())
        };
        Ok((0..FRAMES_BEFORE_DATA_MAX)
            .find_map(find_frame)
            .unwrap_or_default())
    };
    (0..PRIORITIES as u8).map(frame_of).collect()
}

#[cfg(test)]
mod tests {
    use xoff_host::PayloadStamp;
    use xoff_units::LinkTiming;

    use super::*;

    #[test]
    fn the_frames_of_a_far_host_have_their_class_and_their_number() {
        let frames = device_frames(&RunOptions::new(LinkTiming::ethernet(1_000))).expect("frames");
        assert_eq!(frames.len(), PRIORITIES);
        for (class, frame) in frames.into_iter().enumerate() {
            let mut frame = frame;
            let at = find_sequence(&frame).expect("a stamp");
            frame[at..at + 8].copy_from_slice(&7_u64.to_be_bytes());
            assert_eq!(identify_data_frame(&frame), Some((class, 7)));
            let stamp = PayloadStamp::read(&frame[at - 16..]).expect("a stamp");
            assert_eq!(stamp.sequence, 7);
        }
    }
}
