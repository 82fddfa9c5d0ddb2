//! The thresholds of one class of one port, one after the other.

use super::device::{Device, Hold, Seen};
use super::search::{Range, Search, unstable};
use xoff_telemetry::failure::{Exit, Failure};

/// How a class is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The number of frames that is tried first.
    pub first: u32,
    /// The largest number of frames that is tried.
    pub frames_max: u32,
    /// How often each candidate is verified, 1 to 5.
    pub verifications: u32,
}

/// What was found, in frames of one length. `None`: it does not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The frame, counted from 1, that brings XOFF.
    pub xoff: Option<u32>,
    /// Frames that must leave after exactly `xoff` of them before XON comes.
    pub xon: Option<u32>,
    /// The first frame that is dropped.
    pub drop: Option<u32>,
    /// Frames that left although the port was held, in the worst filling. They are not part of what is found.
    pub leaked: u32,
    /// How frames were held.
    pub hold: Option<Hold>,
    /// Fillings it took.
    pub fillings: u32,
}

impl Measured {
    /// Frames that found room between XOFF and the first drop: the headroom that a peer can use.
    pub fn headroom(&self) -> Option<u32> {
        Some(self.drop? - self.xoff? - 1)
    }
}

/// Finds the thresholds of the class whose frames `device` sends.
///
/// # Errors
/// Frames that cannot be held; answers that differ from one filling to the next.
pub fn measure(device: &mut impl Device, options: &Options) -> Result<Measured, Failure> {
    let hold = holding(device)?;
    let mut probe = Probe {
        device,
        hold,
        leaked: 0,
        search: Search {
            first: options.first,
            frames_max: options.frames_max,
            verifications: options.verifications,
            fillings: 0,
        },
    };
    let xoff = probe.xoff()?;
    // XOFF comes before the first drop, if it comes.
    probe.search.first = xoff.unwrap_or(options.first);
    let drop = probe.drop()?;
    let xon = match xoff {
        Some(xoff) if probe.device.egresses() > 1 => probe.xon(xoff)?,
        _ => None,
    };
    Ok(Measured {
        xoff,
        xon,
        drop,
        leaked: probe.leaked,
        hold: Some(hold),
        fillings: probe.search.fillings,
    })
}

/// A way to hold frames of this class: pauses, which need no help, or else the switch's own.
fn holding(device: &mut impl Device) -> Result<Hold, Failure> {
    for how in [Hold::Pause, Hold::Block] {
        device.restart();
        device.look();
        device.hold(0, how, true)?;
        device.send(0, 1)?;
        device.wait()?;
        let held = device.look().arrived.is_empty();
        device.hold(0, how, false)?;
        device.wait()?;
        let came = held && device.look().arrived == [0];
        if came {
            return Ok(how);
        }
    }
    Err(Failure::new(
        Exit::Inconclusive,
        "frames of this class cannot be held in the switch, or do not pass it",
    )
    .because("they left a port that was paused and one that was blocked, or none came out when it was let go")
    .fix("check by hand that a frame of the class goes from the sending port to the receiving one"))
}

struct Probe<'a, D> {
    device: &'a mut D,
    hold: Hold,
    leaked: u32,
    search: Search,
}

impl<D: Device> Probe<'_, D> {
    fn hold_all(&mut self, on: bool) -> Result<(), Failure> {
        (0..self.device.egresses()).try_for_each(|egress| self.device.hold(egress, self.hold, on))
    }

    /// Begins a filling: the switch is empty, every receiving port held.
    fn begin(&mut self) -> Result<(), Failure> {
        self.device.restart();
        self.device.look();
        self.hold_all(true)
    }

    /// Ends it: the switch is drained. What came out since the last look.
    fn end(&mut self) -> Result<Seen, Failure> {
        self.hold_all(false)?;
        self.device.wait()?;
        Ok(self.device.look())
    }

    /// Frames that are in the switch once `frames` have been sent on top of what is there; what it said meanwhile.
    fn fill(&mut self, frames: u32) -> Result<Seen, Failure> {
        self.device.send(0, frames)?;
        self.device.wait()?;
        let seen = self.device.look();
        self.leaked = self.leaked.max(seen.arrived.len() as u32);
        Ok(seen)
    }

    /// Whether XOFF comes with so many frames.
    fn pauses(&mut self, frames: u32) -> Result<bool, Failure> {
        self.begin()?;
        let seen = self.fill(frames)?;
        self.end()?;
        Ok(seen.xoff != 0)
    }

    fn xoff(&mut self) -> Result<Option<u32>, Failure> {
        let mut search = self.search;
        let range = search.range(|frames| self.pauses(frames))?;
        let Some(range) = range else {
            self.search = search;
            return Ok(None);
        };
        let (point, leaked) = self.xoff_point(range)?;
        search.fillings += 1;
        let mut pauses = |frames| self.pauses(frames);
        let sound = search.verified(point, &mut pauses)?
            && (point == 1 || !search.verified(point - 1, &mut pauses)?);
        self.search = search;
        match sound {
            true => Ok(Some(point - leaked)),
            false => Err(unstable(point)),
        }
    }

    /// From the lower end one frame at a time, until XOFF comes: how many frames that took, and how many of them leaked.
    fn xoff_point(&mut self, range: Range) -> Result<(u32, u32), Failure> {
        self.begin()?;
        let mut leaked = match range.lower {
            0 => 0,
            lower => self.fill(lower)?.arrived.len() as u32,
        };
        for frame in range.lower + 1..=range.upper {
            let seen = self.fill(1)?;
            leaked += seen.arrived.len() as u32;
            if seen.xoff != 0 {
                self.end()?;
                return Ok((frame, leaked));
            }
        }
        self.end()?;
        Err(unstable(range.upper))
    }

    /// Fills with so many frames and says which was the first that did not come out again, counted from 1.
    fn first_lost(&mut self, burst: u32, singles: u32) -> Result<Option<u32>, Failure> {
        self.begin()?;
        let mut arrived = self.fill(burst)?.arrived;
        let mut leaked = arrived.len() as u32;
        for _ in 0..singles {
            let seen = self.fill(1)?;
            leaked += seen.arrived.len() as u32;
            arrived.extend(seen.arrived);
        }
        arrived.extend(self.end()?.arrived);
        arrived.sort_unstable();
        let kept = arrived.iter().zip(0..).take_while(|(number, at)| **number == *at);
        let kept = kept.count() as u32;
        Ok((kept < burst + singles).then_some(kept + 1 - leaked.min(kept)))
    }

    fn drop(&mut self) -> Result<Option<u32>, Failure> {
        let mut search = self.search;
        let range = search.range(|frames| Ok(self.first_lost(frames, 0)?.is_some()))?;
        let Some(range) = range else {
            self.search = search;
            return Ok(None);
        };
        let mut point = None;
        for _ in 0..search.verifications.max(1) {
            search.fillings += 1;
            let found = self.first_lost(range.lower, range.upper - range.lower)?;
            if found.is_none() || point.is_some_and(|point| Some(point) != found) {
                return Err(unstable(range.upper));
            }
            point = found;
        }
        self.search = search;
        Ok(point)
    }

    /// Whether XON comes when so many of `xoff` frames leave: those for another port, which alone is let go.
    fn resumes(&mut self, xoff: u32, leaving: u32) -> Result<bool, Failure> {
        self.begin()?;
        if leaving < xoff {
            self.device.send(0, xoff - leaving)?;
        }
        self.device.send(1, leaving)?;
        self.device.wait()?;
        self.device.look();
        self.device.hold(1, self.hold, false)?;
        self.device.wait()?;
        let seen = self.device.look();
        self.end()?;
        Ok(seen.xon != 0)
    }

    fn xon(&mut self, xoff: u32) -> Result<Option<u32>, Failure> {
        let mut search = Search {
            first: 1,
            frames_max: xoff,
            ..self.search
        };
        let range = search.range(|leaving| self.resumes(xoff, leaving))?;
        let point = match range {
            Some(range) => Some(search.narrow(range, |leaving| self.resumes(xoff, leaving))?),
            None => None,
        };
        self.search.fillings = search.fillings;
        Ok(point)
    }
}
