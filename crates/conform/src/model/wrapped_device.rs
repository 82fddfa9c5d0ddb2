//! A model device with a defect.

use xoff_host::HostConfigError;
use xoff_units::{LinkTiming, Picos};
use xoff_wire::{MacControl, PRIORITIES};

use super::device::ModelDevice;
use super::mutants::Mutant;
use super::mutation::Mutation;
use crate::device::{Counters, DeviceUnderTest, Operation, Settings, Unsupported};
use crate::link_frame::LinkFrame;

/// The model device with the defect of a mutant.
pub struct MutantDevice {
    model: ModelDevice,
    mutation: Box<dyn Mutation>,
    name: &'static str,
    /// Number of correct PFC frames with enable bit *n* before the defect changed them, by priority *n*.
    pfc_rx: [u64; PRIORITIES],
}

impl MutantDevice {
    /// Creates a mutant on a link.
    ///
    /// # Errors
    /// The speed of the link is not 1 to 1 600 000 Mb/s.
    pub fn new(mutant: &Mutant, link: LinkTiming) -> Result<MutantDevice, HostConfigError> {
        Ok(MutantDevice {
            model: ModelDevice::new(link)?,
            mutation: (mutant.mutation)(&link),
            name: mutant.name,
            pfc_rx: [0; PRIORITIES],
        })
    }
}

impl std::fmt::Debug for MutantDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MutantDevice")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl DeviceUnderTest for MutantDevice {
    fn name(&self) -> String {
        format!("mutant {}", self.name)
    }

    fn mac(&self) -> [u8; 6] {
        self.model.mac()
    }

    fn receive(&mut self, now: Picos, frame: LinkFrame) {
        if let Ok(MacControl::Pfc(pfc)) = MacControl::parse(&frame.bytes)
            && frame.defect.is_none()
        {
            for (class, count) in self.pfc_rx.iter_mut().enumerate() {
                *count += u64::from(pfc.enable >> class & 1);
            }
        }
        if let Some(frame) = self.mutation.receive(now, frame) {
            self.model.receive(now, frame);
        }
    }

    fn transmit(&mut self, now: Picos) -> Option<LinkFrame> {
        if let Some(frame) = self.mutation.additional_frame(now) {
            return Some(frame);
        }
        loop {
            let frame = self.model.transmit(now)?;
            if let Some(frame) = self.mutation.transmit(now, frame) {
                return Some(frame);
            }
        }
    }

    fn next_deadline(&self) -> Picos {
        self.model
            .next_deadline()
            .min(self.mutation.next_additional_frame())
    }

    fn operate(&mut self, now: Picos, operation: Operation) -> Result<(), Unsupported> {
        match self.mutation.operate(now, operation) {
            Some(operation) => self.model.operate(now, operation),
            None => Ok(()),
        }
    }

    fn counters(&self, now: Picos) -> Result<Counters, Unsupported> {
        let mut counters = self.model.counters(now)?;
        counters.pfc_rx = self.pfc_rx;
        self.mutation.report(&mut counters);
        Ok(counters)
    }

    fn settings(&self, now: Picos) -> Result<Settings, Unsupported> {
        self.model.settings(now)
    }
}
