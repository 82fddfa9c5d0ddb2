//! A configuration of the user's: every port sends to the next one, as the configuration bridges or routes.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use ipnet::IpNet;
use xoff_dataplane::config::{InterfaceAttachment, StaticNeighbour, SwitchConfig};
use xoff_dataplane::store::VecStore;
use xoff_dataplane::{ForwardingResult, FrameHandle, FrameStore, InterfaceId, Picos, PortId, ReceivedFrame};
use xoff_driver::{Step, VirtualSwitch};
use xoff_wire::parse::parse;

use super::{BURST, FrameHeaders, Load, roce_frame, run_bursts};
use xoff_config::{ResolveOptions, load};
use xoff_telemetry::failure::Failure;

/// Octets of a frame without FCS.
const FRAME_BYTES: usize = 1_082;

/// A frame's way: it comes in there, and begins so.
#[derive(Clone, Debug)]
struct Flow {
    ingress: PortId,
    frame: Vec<u8>,
}

/// A switch of this configuration. A burst comes in, and all of it leaves.
#[derive(Debug)]
pub struct ConfiguredSwitch {
    switch: VirtualSwitch<VecStore>,
    /// Frames to arrive.
    idle: VecDeque<(usize, FrameHandle)>,
    flows: Vec<Flow>,
    /// The flow of each slot.
    of_slot: Vec<Option<(usize, FrameHeaders)>>,
    ports: u16,
}

impl ConfiguredSwitch {
    /// Reads a `config_db.json`.
    ///
    /// # Errors
    /// It is invalid, or forwards nothing between its ports.
    pub fn read(path: &Path) -> Result<ConfiguredSwitch, Failure> {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::configuration("the configuration cannot be read")
                .at(&place)
                .because(error)
                .fix("give a readable config_db.json")
        })?;
        let loaded = load(&[(&place, &text)], &ResolveOptions::default())
            .map_err(|problems| Failure::configuration(problems.to_string()))?;
        ConfiguredSwitch::new(loaded.resolved.config).ok_or_else(|| {
            Failure::configuration("the configuration forwards nothing between its ports")
                .at(place)
                .because("no port reaches the next one: untagged, by MAC addresses or from one IPv4 subnet to the other")
                .fix("give a configuration with two ports in one VLAN, or with IPv4 addresses")
        })
    }

    fn new(mut config: SwitchConfig) -> Option<ConfiguredSwitch> {
        let ports = config.ports.len() as u16;
        let homes: Vec<Option<Home>> = (0..ports).map(|port| home(&config, port)).collect();
        config
            .routing
            .neighbours
            .extend(homes.iter().enumerate().filter_map(|(port, home)| {
                home.as_ref().map(|home| StaticNeighbour {
                    interface: home.interface,
                    address: IpAddr::V4(home.host),
                    mac: host_mac(port as u16),
                })
            }));
        let mut new = ConfiguredSwitch {
            switch: VirtualSwitch::new(&config, VecStore::new(8 * BURST + 4 * usize::from(ports))),
            idle: VecDeque::with_capacity(2 * BURST),
            flows: Vec::new(),
            of_slot: Vec::new(),
            ports,
        };
        new.switch.keep_punts();
        new.switch.set_links_up();
        new.settle();
        new.learn();
        for flow in candidates(&config, &homes) {
            new.keep_if_forwarded(flow);
        }
        new.fill()
    }

    /// Every host is heard once.
    fn learn(&mut self) {
        for port in 0..self.ports {
            let mut frame = [0; 60];
            frame[..6].fill(0xff);
            frame[6..12].copy_from_slice(&host_mac(port));
            if let Some(handle) = self.switch.store_mut().insert(&frame) {
                self.receive(PortId(port), handle);
                self.settle();
            }
        }
    }

    fn keep_if_forwarded(&mut self, flow: Flow) {
        let Some(handle) = self.switch.store_mut().insert(&flow.frame) else {
            return;
        };
        let before = self.sent();
        let forwarded = self.receive(flow.ingress, handle) == ForwardingResult::Forwarded { copies: 1 };
        self.settle();
        if forwarded && self.sent() > before {
            self.flows.push(flow);
        }
    }

    fn sent(&self) -> u64 {
        let counters = |port| {
            self.switch
                .switch()
                .port_counters(self.switch.now(), PortId(port))
        };
        (0..self.ports)
            .map(|port| {
                counters(port)
                    .queues
                    .iter()
                    .map(|queue| queue.packets)
                    .sum::<u64>()
            })
            .sum()
    }

    fn fill(mut self) -> Option<ConfiguredSwitch> {
        for n in 0..2 * BURST {
            let at = n % self.flows.len().max(1);
            let flow = self.flows.get(at)?;
            let handle = self.switch.store_mut().insert(&flow.frame)?;
            let header = *flow.frame.first_chunk()?;
            self.of_slot
                .resize(self.of_slot.len().max(handle.0 as usize + 1), None);
            self.of_slot[handle.0 as usize] = Some((at, header));
            self.idle.push_back((at, handle));
        }
        Some(self)
    }

    fn receive(&mut self, ingress: PortId, handle: FrameHandle) -> ForwardingResult {
        let bytes = self.switch.store().prefix(handle);
        let arrival = ReceivedFrame {
            frame: handle,
            frame_len: bytes.len() as u32,
            parsed: parse(bytes),
            received_at: self.switch.now(),
        };
        self.switch.receive(ingress, &arrival)
    }

    fn burst(&mut self) {
        for _ in 0..BURST {
            let Some((flow, handle)) = self.idle.pop_front() else {
                break;
            };
            self.receive(self.flows[flow].ingress, handle);
        }
        self.collect();
        // All frames return but those that were lost. Deadlines after the last departure, such as polls, stay pending.
        while self.switch.switch().queued_frames() > 0 && self.switch.step(Picos::NEVER) == Step::Deadline {
            self.collect();
        }
    }

    /// Queues the frames that have left to arrive again.
    fn collect(&mut self) {
        let (of_slot, idle) = (&self.of_slot, &mut self.idle);
        self.switch.take_departures(|departure, store| {
            match of_slot.get(departure.frame.0 as usize).copied().flatten() {
                Some((flow, header)) => {
                    store.prefix_mut(departure.frame)[..header.len()].copy_from_slice(&header);
                    idle.push_back((flow, departure.frame));
                }
                None => store.release(departure.frame),
            }
        });
        self.switch.take_punts(|punt, store| store.release(punt.frame));
    }

    /// Lets all frames in flight leave before the load begins.
    fn settle(&mut self) {
        self.collect();
        let end = self.switch.now().saturating_add(Picos::from_millis(1));
        while self.switch.step(end) == Step::Deadline {
            self.collect();
        }
        self.switch.advance_to(end);
    }
}

impl Load for ConfiguredSwitch {
    fn run(&mut self, frames: u64) -> u64 {
        run_bursts(frames, || self.burst())
    }

    fn check(&self) -> Result<(), String> {
        self.switch.switch().assert_consistent();
        match self.idle.len() < 2 * BURST {
            true => Err(format!(
                "its buffers do not hold a burst of {BURST} frames: {} of {} were lost",
                2 * BURST - self.idle.len(),
                2 * BURST
            )),
            false => Ok(()),
        }
    }
}

/// What is behind a routed port.
#[derive(Clone, Debug)]
struct Home {
    interface: InterfaceId,
    router: [u8; 6],
    host: Ipv4Addr,
}

/// The interface of a port that routes, and the first address of its subnet that is not its own.
fn home(config: &SwitchConfig, port: u16) -> Option<Home> {
    let mut interfaces = config.routing.interfaces.iter().enumerate();
    let (at, interface) =
        interfaces.find(|(_, interface)| interface.attachment == InterfaceAttachment::Port(port))?;
    interface.addresses.iter().find_map(|address| match address {
        IpNet::V4(net) => net.hosts().find(|host| *host != net.addr()).map(|host| Home {
            interface: InterfaceId(at as u16),
            router: interface.mac,
            host,
        }),
        IpNet::V6(_) => None,
    })
}

/// From each port to the next one, a flow for each of two classes.
fn candidates(config: &SwitchConfig, homes: &[Option<Home>]) -> Vec<Flow> {
    let ports = homes.len();
    let mut flows = Vec::with_capacity(2 * ports);
    for port in 0..ports {
        let next = (port + 1) % ports;
        let (to, src, dst) = match (&homes[port], &homes[next]) {
            (Some(here), Some(there)) => (here.router, here.host, there.host),
            _ => (
                host_mac(next as u16),
                Ipv4Addr::new(10, 0, port as u8, 1),
                Ipv4Addr::new(10, 0, next as u8, 1),
            ),
        };
        let classify = &config.ports[port].classify;
        let enabled = config.ports[port].pfc.enabled;
        let lossless = (0..64).find(|dscp| {
            let tc = classify.dscp_to_tc[usize::from(*dscp)];
            tc < 8 && enabled & 1 << tc != 0
        });
        for dscp in [Some(0), lossless].into_iter().flatten() {
            let frame = roce_frame(
                FRAME_BYTES,
                host_mac(port as u16),
                to,
                src,
                dst,
                dscp,
                port as u32,
            );
            flows.push(Flow {
                ingress: PortId(port as u16),
                frame,
            });
        }
    }
    flows
}

fn host_mac(port: u16) -> [u8; 6] {
    let [high, low] = port.to_be_bytes();
    [2, 0, 0, 3, high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_and_a_router_forward_and_a_lone_port_does_not() {
        let testbeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbeds");
        // A bridge of five ports, two classes each; a router of two, of which the second reaches nobody by the next port, with two more in a VLAN.
        for (name, flows) in [("incast.config_db.json", 10), ("routed/config_db.json", 3)] {
            let mut load = ConfiguredSwitch::read(&testbeds.join(name))
                .unwrap_or_else(|failure| panic!("{name}: {failure}"));
            assert!(load.flows.len() >= flows, "{name}: {} flows", load.flows.len());
            assert_eq!(load.run(10_000), 10_016);
            load.check().unwrap_or_else(|why| panic!("{name}: {why}"));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config_db.json");
        std::fs::write(&path, r#"{"PORT": {"Ethernet0": {"speed": "100000"}}}"#).unwrap();
        assert_eq!(ConfiguredSwitch::read(&path).unwrap_err().exit as u8, 4);
    }
}
