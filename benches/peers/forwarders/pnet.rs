//! The simplest forwarder in Rust: `pnet::datalink`, one frame at a time, in its own process.

use pnet::datalink::{self, Channel, Config, DataLinkReceiver, DataLinkSender};

use super::RunningForwarder;
use crate::Failure;
use crate::bed::{FORWARDER_DEVICES, TestBed};
use crate::child::Program;

/// Size of the buffer for a frame in bytes. `pnet` truncates longer frames.
const BUFFER_BYTES: usize = 16 * 1024;

pub(super) fn start(bed: &TestBed) -> Result<RunningForwarder, Failure> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let output = bed.folder.path().join("pnet.txt");
    let mut program = Program::start(own, |command| _ = command.arg("--pnet-loop"), &output, bed.cores)?;
    program.wait_for("ready")?;
    Ok(RunningForwarder::programs(vec![program]))
}

/// Forwards until the process is ended.
pub(crate) fn forward() -> Result<(), Failure> {
    let [(mut to_first, mut from_first), (mut to_second, mut from_second)] =
        [open(FORWARDER_DEVICES[0])?, open(FORWARDER_DEVICES[1])?];
    println!("ready");
    std::thread::scope(|scope| {
        scope.spawn(move || copy(&mut *from_second, &mut *to_first));
        copy(&mut *from_first, &mut *to_second);
    });
    Ok(())
}

/// Both ends of an open device.
type Ends = (Box<dyn DataLinkSender>, Box<dyn DataLinkReceiver>);

fn open(device: &str) -> Result<Ends, Failure> {
    let interfaces = datalink::interfaces();
    let interface = interfaces.iter().find(|interface| interface.name == device);
    let interface = interface.ok_or_else(|| format!("no interface {device}"))?;
    let config = Config {
        read_buffer_size: BUFFER_BYTES,
        write_buffer_size: BUFFER_BYTES,
        ..Config::default()
    };
    match datalink::channel(interface, config) {
        Ok(Channel::Ethernet(sender, receiver)) => Ok((sender, receiver)),
        Ok(_) => Err(format!("{device} is no Ethernet device")),
        Err(error) => Err(format!("cannot open {device}: {error}")),
    }
}

fn copy(from: &mut dyn DataLinkReceiver, to: &mut dyn DataLinkSender) {
    loop {
        match from.next() {
            // A frame that cannot be sent is lost, as in a switch without a buffer.
            Ok(frame) => drop(to.send_to(frame, None)),
            Err(error) => {
                eprintln!("receiving: {error}");
                return;
            }
        }
    }
}
