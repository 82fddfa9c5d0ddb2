//! Measures the buffer thresholds of one traffic class at one port.

use super::device::{DeviceOutput, EgressHoldMethod, ProbeDevice};
use super::threshold_search::{FrameRange, ThresholdSearch, inconsistent_measurement_error};
use xoff_telemetry::failure::{Exit, Failure};

/// The parameters of a threshold measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeOptions {
    /// The first number of frames to try, such as the size of the pool. If the number is outside the range 1
    /// to `frames_max`, the nearest limit of the range is used.
    pub first: u32,
    /// The largest number of frames to try, at least 1.
    pub frames_max: u32,
    /// The number of times that each measurement is made, where 0 counts as 1. If the results differ, the
    /// measurement fails with [`Exit::Inconclusive`].
    pub verifications: u32,
}

/// The measured thresholds, as numbers of frames with the same length. A threshold is `None` if its event
/// (XOFF, XON or a drop) did not occur with the largest permitted number of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredThresholds {
    /// Number of the frame that causes XOFF, counted from 1.
    pub xoff: Option<u32>,
    /// Number of frames that must leave before the switch sends XON. The measurement starts with exactly
    /// `xoff` frames in the switch, so that the switch has just sent XOFF. Also `None` if there is only one
    /// receiving port, because the measurement needs two.
    pub xon: Option<u32>,
    /// Number of the first dropped frame, counted from 1.
    pub drop: Option<u32>,
    /// The number of leaked frames. A leaked frame leaves a port although the port is held. If the buffer was
    /// filled several times, this is the largest number of leaked frames in one filling. The thresholds do
    /// not count leaked frames.
    pub leaked: u32,
    /// The method that held the frames in the switch. Always set by [`measure_thresholds`].
    pub hold: Option<EgressHoldMethod>,
    /// Number of times that the buffer was filled for the measurement.
    pub fillings: u32,
}

impl MeasuredThresholds {
    /// Returns the usable headroom: the number of frames that fit in the buffer between XOFF and the first
    /// drop. Returns `None` if `xoff` or `drop` is `None`.
    pub fn headroom(&self) -> Option<u32> {
        Some(self.drop? - self.xoff? - 1)
    }
}

/// Measures the thresholds of one traffic class. `device` sends frames of this class.
///
/// # Errors
/// The frames cannot be held or do not pass the switch, repeated measurements differ, or the device reports
/// an error.
pub fn measure_thresholds(
    device: &mut impl ProbeDevice,
    options: &ProbeOptions,
) -> Result<MeasuredThresholds, Failure> {
    let hold = find_hold_method(device)?;
    let mut probe = ThresholdProbe {
        device,
        hold,
        leaked: 0,
        search: ThresholdSearch {
            first: options.first,
            frames_max: options.frames_max,
            verifications: options.verifications,
            fillings: 0,
        },
    };
    let xoff = probe.find_xoff()?;
    // If XOFF occurs, it occurs before the first drop.
    probe.search.first = xoff.unwrap_or(options.first);
    let drop = probe.find_first_drop()?;
    let xon = match xoff {
        Some(xoff) if probe.device.egress_count() > 1 => probe.find_xon(xoff)?,
        _ => None,
    };
    Ok(MeasuredThresholds {
        xoff,
        xon,
        drop,
        leaked: probe.leaked,
        hold: Some(hold),
        fillings: probe.search.fillings,
    })
}

/// Finds a method that holds frames of this class in the switch. PFC pauses are tried first, because they
/// need no extra function of the switch.
fn find_hold_method(device: &mut impl ProbeDevice) -> Result<EgressHoldMethod, Failure> {
    for how in [EgressHoldMethod::Pause, EgressHoldMethod::Block] {
        device.reset_numbering();
        device.take_output();
        device.set_hold(0, how, true)?;
        device.send_frames(0, 1)?;
        device.wait_until_idle()?;
        let held = device.take_output().arrived.is_empty();
        device.set_hold(0, how, false)?;
        device.wait_until_idle()?;
        let came = held && device.take_output().arrived == [0];
        if came {
            return Ok(how);
        }
    }
    Err(Failure::new(
        Exit::Inconclusive,
        "frames of this class cannot be held in the switch, or do not pass it",
    )
    .because("frames left a paused port and a blocked port, or no frame left after the release")
    .fix("check that a frame of the class passes from the sending port to the receiving port"))
}

struct ThresholdProbe<'a, D> {
    device: &'a mut D,
    hold: EgressHoldMethod,
    leaked: u32,
    search: ThresholdSearch,
}

impl<D: ProbeDevice> ThresholdProbe<'_, D> {
    fn set_hold_all(&mut self, is_held: bool) -> Result<(), Failure> {
        (0..self.device.egress_count())
            .try_for_each(|egress| self.device.set_hold(egress, self.hold, is_held))
    }

    /// Begins to fill the buffer. The switch is empty, and all receiving ports are held.
    fn begin_filling(&mut self) -> Result<(), Failure> {
        self.device.reset_numbering();
        self.device.take_output();
        self.set_hold_all(true)
    }

    /// Ends a filling of the buffer: releases all ports and waits until the switch is empty. Returns the
    /// output of the switch.
    fn end_filling(&mut self) -> Result<DeviceOutput, Failure> {
        self.set_hold_all(false)?;
        self.device.wait_until_idle()?;
        Ok(self.device.take_output())
    }

    /// Sends `frames` more frames, waits until the switch is idle, and returns the output of the switch.
    fn send_and_observe(&mut self, frames: u32) -> Result<DeviceOutput, Failure> {
        self.device.send_frames(0, frames)?;
        self.device.wait_until_idle()?;
        let seen = self.device.take_output();
        self.leaked = self.leaked.max(seen.arrived.len() as u32);
        Ok(seen)
    }

    /// Returns whether `frames` frames cause XOFF.
    fn causes_xoff(&mut self, frames: u32) -> Result<bool, Failure> {
        self.begin_filling()?;
        let seen = self.send_and_observe(frames)?;
        self.end_filling()?;
        Ok(seen.xoff != 0)
    }

    fn find_xoff(&mut self) -> Result<Option<u32>, Failure> {
        let mut search = self.search;
        let range = search.find_range(|frames| self.causes_xoff(frames))?;
        let Some(range) = range else {
            self.search = search;
            return Ok(None);
        };
        let (point, leaked) = self.find_xoff_frame(range)?;
        search.fillings += 1;
        let mut pauses = |frames| self.causes_xoff(frames);
        let sound = search.measure_repeatedly(point, &mut pauses)?
            && (point == 1 || !search.measure_repeatedly(point - 1, &mut pauses)?);
        self.search = search;
        match sound {
            true => Ok(Some(point - leaked)),
            false => Err(inconsistent_measurement_error(point)),
        }
    }

    /// Finds the frame that causes XOFF: sends `range.lower` frames at once, and then single frames until the
    /// switch sends XOFF. Returns the number of sent frames and the number of leaked frames. Leaked frames
    /// leave a port although the port is held.
    fn find_xoff_frame(&mut self, range: FrameRange) -> Result<(u32, u32), Failure> {
        self.begin_filling()?;
        let mut leaked = match range.lower {
            0 => 0,
            lower => self.send_and_observe(lower)?.arrived.len() as u32,
        };
        for frame in range.lower + 1..=range.upper {
            let seen = self.send_and_observe(1)?;
            leaked += seen.arrived.len() as u32;
            if seen.xoff != 0 {
                self.end_filling()?;
                return Ok((frame, leaked));
            }
        }
        self.end_filling()?;
        Err(inconsistent_measurement_error(range.upper))
    }

    /// Fills the switch with a burst and then with single frames. Returns the number of the first lost frame,
    /// counted from 1 and without leaked frames. Returns `None` if no frame was lost.
    fn find_first_lost(&mut self, burst: u32, singles: u32) -> Result<Option<u32>, Failure> {
        self.begin_filling()?;
        let mut arrived = self.send_and_observe(burst)?.arrived;
        let mut leaked = arrived.len() as u32;
        for _ in 0..singles {
            let seen = self.send_and_observe(1)?;
            leaked += seen.arrived.len() as u32;
            arrived.extend(seen.arrived);
        }
        arrived.extend(self.end_filling()?.arrived);
        arrived.sort_unstable();
        let kept = arrived.iter().zip(0..).take_while(|(number, at)| **number == *at);
        let kept = kept.count() as u32;
        Ok((kept < burst + singles).then_some(kept + 1 - leaked.min(kept)))
    }

    fn find_first_drop(&mut self) -> Result<Option<u32>, Failure> {
        let mut search = self.search;
        let range = search.find_range(|frames| Ok(self.find_first_lost(frames, 0)?.is_some()))?;
        let Some(range) = range else {
            self.search = search;
            return Ok(None);
        };
        let mut point = None;
        for _ in 0..search.verifications.max(1) {
            search.fillings += 1;
            let found = self.find_first_lost(range.lower, range.upper - range.lower)?;
            if found.is_none() || point.is_some_and(|point| Some(point) != found) {
                return Err(inconsistent_measurement_error(range.upper));
            }
            point = found;
        }
        self.search = search;
        Ok(point)
    }

    /// Sends `xoff_frames` frames in total to two held receiving ports. The second port gets `leaving` of
    /// these frames, and the first port gets the others. Then releases only the second port, and returns
    /// whether the switch sends XON.
    fn causes_xon(&mut self, xoff_frames: u32, leaving: u32) -> Result<bool, Failure> {
        self.begin_filling()?;
        if leaving < xoff_frames {
            self.device.send_frames(0, xoff_frames - leaving)?;
        }
        self.device.send_frames(1, leaving)?;
        self.device.wait_until_idle()?;
        self.device.take_output();
        self.device.set_hold(1, self.hold, false)?;
        self.device.wait_until_idle()?;
        let seen = self.device.take_output();
        self.end_filling()?;
        Ok(seen.xon != 0)
    }

    fn find_xon(&mut self, xoff_frames: u32) -> Result<Option<u32>, Failure> {
        let mut search = ThresholdSearch {
            first: 1,
            frames_max: xoff_frames,
            ..self.search
        };
        let range = search.find_range(|leaving| self.causes_xon(xoff_frames, leaving))?;
        let point = match range {
            Some(range) => {
                Some(search.bisect_to_threshold(range, |leaving| self.causes_xon(xoff_frames, leaving))?)
            }
            None => None,
        };
        self.search.fillings = search.fillings;
        Ok(point)
    }
}
