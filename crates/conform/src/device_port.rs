//! The port of a device in virtual time: it sends one frame at a time.

use xoff_units::{LinkTiming, Picos};

use crate::device::{DeviceUnderTest, Operation, Unsupported};
use crate::link_frame::LinkFrame;

/// Time after which a device is called again whose deadline does not advance.
const STUCK_DEVICE_DELAY: Picos = Picos::from_nanos(1_000);

/// A frame in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Time of the first bit of the preamble.
    pub(crate) start: Picos,
    /// Time of the last bit.
    pub(crate) end: Picos,
    pub(crate) frame: LinkFrame,
}

/// A device and its end of the link.
pub(crate) struct DevicePort {
    device: Box<dyn DeviceUnderTest>,
    link: LinkTiming,
    free_at: Picos,
    /// The next call of the device.
    due: Picos,
}

impl DevicePort {
    pub(crate) fn new(device: Box<dyn DeviceUnderTest>, link: LinkTiming) -> DevicePort {
        DevicePort {
            device,
            link,
            free_at: Picos::ZERO,
            due: Picos::ZERO,
        }
    }

    pub(crate) fn device(&self) -> &dyn DeviceUnderTest {
        self.device.as_ref()
    }

    /// Returns the time of the next call of [`DevicePort::transmit`] if no frame arrives.
    pub(crate) fn due(&self) -> Picos {
        self.due
    }

    /// Passes a frame to the device whose last bit arrives at `now`.
    pub(crate) fn receive(&mut self, now: Picos, frame: LinkFrame) {
        self.device.receive(now, frame);
        self.due = now;
    }

    /// Calls `send` with each frame that the device sends at `now`, and sets the time of the next call.
    ///
    /// # Errors
    /// The error of `send`.
    pub(crate) fn transmit<E>(
        &mut self,
        now: Picos,
        mut send: impl FnMut(InFlight) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(frame) = self.device.transmit(now) {
            let start = now.max(self.free_at);
            let end = start + frame.duration(&self.link);
            self.free_at = start + frame.occupied(&self.link);
            send(InFlight { start, end, frame })?;
        }
        let deadline = self.device.next_deadline();
        self.due = match deadline > now {
            true => deadline,
            false => now.saturating_add(STUCK_DEVICE_DELAY),
        };
        Ok(())
    }

    /// Executes an operation of the host of the device.
    pub(crate) fn operate(&mut self, now: Picos, operation: Operation) -> Result<(), Unsupported> {
        let result = self.device.operate(now, operation);
        // The device was changed, so its next deadline must be read again.
        self.due = now;
        result
    }
}
