//! The keeper opens devices that were not there: at the start, or because they vanished. It has a thread of its own,
//! since opening a device takes the kernel milliseconds that a switch does not have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use xoff_dataplane::{Picos, PortId};

use xoff_ports::net::Netns;
use xoff_ports::{Arena, Opened, Port, PortError, PortSpec};

/// How often a missing device is looked for.
const RETRY: Duration = Duration::from_millis(100);

/// How a port is opened, and where.
#[derive(Clone, Debug)]
pub struct AttachedPort {
    /// Which port of the switch.
    pub id: PortId,
    /// Device and backend.
    pub spec: PortSpec,
    /// The network namespace the device is in; `None`: that of the thread that starts the switch.
    pub netns: Option<Arc<Netns>>,
    /// How long a bit is under way on its link, in either direction, in model time.
    pub delay: Picos,
}

impl AttachedPort {
    /// Opens the device.
    pub(crate) fn open(&self) -> Result<Opened, PortError> {
        match &self.netns {
            None => Port::open(&self.spec),
            Some(netns) => netns
                .run(|| Port::open(&self.spec))
                .map_err(|source| PortError::Net {
                    port: self.spec.name.clone(),
                    source,
                })?,
        }
    }
}

/// A port without a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) port: PortId,
}

/// A port whose device is there.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) port: PortId,
    pub(crate) opened: Box<Port>,
}

/// Runs until every [`PortSet`](super::portset::PortSet) is gone. Frames lie in `arena`.
pub(crate) fn run(
    attached: BTreeMap<PortId, AttachedPort>,
    owners: BTreeMap<PortId, Sender<Opening>>,
    lost: Receiver<Lost>,
    arena: &Arc<Arena>,
) {
    let mut missing: Vec<PortId> = Vec::new();
    // What stood in the way of a device the last time, so that it is said once and not ten times a second.
    let mut refused: BTreeMap<PortId, String> = BTreeMap::new();
    loop {
        let report = if missing.is_empty() {
            lost.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            lost.recv_timeout(RETRY)
        };
        match report {
            Ok(Lost { port }) if !missing.contains(&port) => missing.push(port),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => {
                missing.retain(|port| !try_open(&attached, &owners, *port, &mut refused, arena));
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn try_open(
    attached: &BTreeMap<PortId, AttachedPort>,
    owners: &BTreeMap<PortId, Sender<Opening>>,
    port: PortId,
    refused: &mut BTreeMap<PortId, String>,
    arena: &Arc<Arena>,
) -> bool {
    let (Some(how), Some(owner)) = (attached.get(&port), owners.get(&port)) else {
        return true;
    };
    let opened = how.open().and_then(|mut opened| {
        opened.port.attach(arena)?;
        Ok(opened)
    });
    match opened {
        Ok(opened) => {
            refused.remove(&port);
            opened.notes.iter().for_each(|note| eprintln!("note: {note}"));
            let opened = Box::new(opened.port);
            owner.send(Opening { port, opened }).is_ok()
        }
        Err(error) if error.is_absent() => false,
        Err(error) => {
            let why = error.to_string();
            if refused.get(&port) != Some(&why) {
                eprintln!(
                    "warning: the device is back, and {} stays down: {why}",
                    how.spec.name
                );
                refused.insert(port, why);
            }
            false
        }
    }
}
