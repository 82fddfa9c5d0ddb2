//! The program on the far host for the model device.

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;

use xoff_conform::{ArrivedFrame, FarHostReply, FarHostRequest, ServedDevice};
use xoff_ports::Backend;
use xoff_telemetry::failure::Failure;
use xoff_units::Picos;

use crate::frame_port::{FramePort, prepare_thread};
use crate::line_buffer::{LineBuffer, set_nonblocking};

/// Longest wait without an event.
const WAIT_MAX: Picos = Picos::from_millis(200);

/// Runs the model device on a network device until the end of the requests. `requests` and `replies` are the pipes to
/// the instrument.
///
/// # Errors
/// The device cannot be opened or was removed, or the pipes are broken.
pub fn serve_model_device(
    device: &str,
    backend: Backend,
    requests: impl AsFd,
    mut replies: impl Write,
) -> Result<(), Failure> {
    let failure = |reason: String| {
        Failure::environment("the model device has ended")
            .at(format!("--port {device}"))
            .because(reason)
    };
    set_nonblocking(&requests).map_err(|error| failure(error.to_string()))?;
    let mut server = DeviceServer {
        port: FramePort::open("--device model:", device, backend, &AtomicBool::new(false))?,
        device: ServedDevice::default(),
        arrived: Vec::new(),
        expected_at: Picos::ZERO,
    };
    prepare_thread();
    server.expected_at = server.port.now();
    let mut lines = LineBuffer::default();
    loop {
        server.process_frames().map_err(failure)?;
        lines
            .fill(&requests)
            .map_err(|error| failure(error.to_string()))?;
        while let Some(line) = lines.next_line() {
            let reply = server.answer(&line).map_err(failure)?;
            let text = serde_json::to_string(&reply).expect("our types have string keys and finite numbers");
            let written = replies.write_all(format!("{text}\n").as_bytes());
            written.map_err(|error| failure(format!("the instrument cannot be reached: {error}")))?;
        }
        if lines.is_at_end {
            return Ok(());
        }
        server.wait(requests.as_fd());
    }
}

/// The model device with its port.
struct DeviceServer {
    port: FramePort,
    device: ServedDevice,
    arrived: Vec<ArrivedFrame>,
    /// The latest time at which the clock was expected to be read again.
    expected_at: Picos,
}

impl DeviceServer {
    /// Passes received frames to the device, and sends its frames. Returns the time.
    fn process_frames(&mut self) -> Result<Picos, String> {
        let now = self.port.now();
        self.device.note_delay(now, now.since(self.expected_at));
        let mut arrived = std::mem::take(&mut self.arrived);
        self.port.receive(&mut arrived)?;
        let mut sent: Vec<(Picos, Vec<u8>)> = Vec::new();
        let mut send = |at: Picos, bytes: &[u8]| sent.push((at, bytes.to_vec()));
        for frame in arrived.drain(..) {
            self.device.note_delay(now, now.since(frame.at));
            self.device.receive(frame.at, &frame.bytes, &mut send);
        }
        self.device.advance(now, &mut send);
        self.arrived = arrived;
        for (at, bytes) in sent {
            let accepted_at = self.port.send(&bytes)?;
            self.device.note_delay(accepted_at, accepted_at.since(at));
        }
        self.expected_at = self.port.now();
        Ok(now)
    }

    /// Executes a request of the instrument. All frames before the request are processed first.
    fn answer(&mut self, line: &str) -> Result<FarHostReply, String> {
        let request = match serde_json::from_str::<FarHostRequest>(line) {
            Ok(request) => request,
            Err(error) => {
                return Ok(FarHostReply::Unsupported(format!(
                    "the request is not valid: {error}"
                )));
            }
        };
        let now = self.process_frames()?;
        let lost_frames = self.port.count_lost_frames();
        self.device.note_lost_frames(lost_frames);
        let reply = self.device.execute(now, request);
        self.expected_at = self.port.now();
        self.process_frames()?;
        Ok(reply)
    }

    fn wait(&mut self, requests: std::os::fd::BorrowedFd<'_>) {
        let now = self.port.now();
        let until = self
            .device
            .next_deadline()
            .min(now.saturating_add(WAIT_MAX))
            .max(now);
        self.expected_at = until;
        self.port.wait(until, Some(requests));
        let woken_at = self.port.now();
        // A wait that ended early was ended by a frame or a request.
        self.expected_at = self.expected_at.min(woken_at);
        self.device.note_delay(woken_at, woken_at.since(until));
    }
}
