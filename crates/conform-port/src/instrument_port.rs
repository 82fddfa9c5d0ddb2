//! The port of the instrument with the far host, as the checks use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xoff_conform::{ArrivedFrame, Defect, FarHostReply, FarHostRequest, PortAccess};
use xoff_units::Picos;

use crate::far_process::FarProcess;
use crate::frame_port::FramePort;

/// The port of the instrument, the far host and the stop flag of a run.
#[derive(Debug)]
pub(crate) struct InstrumentPort {
    port: FramePort,
    far_host: Option<FarProcess>,
    stop: Arc<AtomicBool>,
}

impl InstrumentPort {
    pub(crate) fn new(
        port: FramePort,
        far_host: Option<FarProcess>,
        stop: Arc<AtomicBool>,
    ) -> InstrumentPort {
        InstrumentPort { port, far_host, stop }
    }
}

impl PortAccess for InstrumentPort {
    fn now(&mut self) -> Picos {
        self.port.now()
    }

    fn receive(&mut self, frames: &mut Vec<ArrivedFrame>) -> Result<(), String> {
        self.port.receive(frames)
    }

    fn send(&mut self, frame: &[u8]) -> Result<Picos, String> {
        self.port.send(frame)
    }

    fn wait(&mut self, until: Picos) {
        self.port.wait(until, self.far_host.as_ref().map(FarProcess::fd));
    }

    fn carries(&self, defect: Defect) -> bool {
        match defect {
            // The device or its driver computes the FCS.
            Defect::WrongFcs => false,
            // Only a device without hardware sends a short frame as it is. Drivers of hardware pad it.
            Defect::Runt => self.port.is_software(),
        }
    }

    fn count_lost_frames(&mut self) -> u64 {
        self.port.count_lost_frames()
    }

    fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn has_far_host(&self) -> bool {
        self.far_host.is_some()
    }

    fn send_request(&mut self, request: &FarHostRequest) -> Result<(), String> {
        match &mut self.far_host {
            Some(far_host) => far_host.send_request(request),
            None => Err("there is no far host".to_owned()),
        }
    }

    fn receive_reply(&mut self) -> Result<Option<FarHostReply>, String> {
        match &mut self.far_host {
            Some(far_host) => far_host.receive_reply(),
            None => Err("there is no far host".to_owned()),
        }
    }
}
