//! The load of `xoff bench core --config`: each port of a configured switch sends to the next port.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use ipnet::IpNet;
use xoff_dataplane::config::{InterfaceAttachment, StaticNeighbour, SwitchConfig};
use xoff_dataplane::store::VecStore;
use xoff_dataplane::{ForwardingResult, FrameHandle, FrameStore, InterfaceId, Picos, PortId, ReceivedFrame};
use xoff_driver::{Step, VirtualSwitch};
use xoff_wire::parse::parse;

use super::{BURST_FRAMES, FrameHeaders, FrameLoad, roce_frame, run_bursts};
use xoff_config::{ResolveOptions, load};
use xoff_telemetry::failure::Failure;

/// Length of a frame in bytes, without FCS.
const FRAME_BYTES: usize = 1_082;

/// A frame and the port that receives it.
#[derive(Clone, Debug)]
struct IngressFrame {
    ingress: PortId,
    frame: Vec<u8>,
}

/// A configured switch that receives bursts of frames. All frames of a burst leave before the next
/// burst arrives.
#[derive(Debug)]
pub struct ConfiguredSwitchLoad {
    switch: VirtualSwitch<VecStore>,
    /// Frames that arrive next. Each entry has the index of the flow and the frame.
    waiting: VecDeque<(usize, FrameHandle)>,
    flows: Vec<IngressFrame>,
    /// For each frame slot: the flow index and the original headers of the frame in the slot, or `None`.
    slot_flows: Vec<Option<(usize, FrameHeaders)>>,
    ports: u16,
}

impl ConfiguredSwitchLoad {
    /// Reads the configuration `path` (`config_db.json`) and builds the switch.
    ///
    /// # Errors
    /// The file is unreadable or invalid, or the switch forwards nothing between its ports.
    pub fn read(path: &Path) -> Result<ConfiguredSwitchLoad, Failure> {
        let location = path.display().to_string();
        let text = xoff_telemetry::read_input_text(path, xoff_telemetry::InputLimit::CONFIGURATION).map_err(
            |error| {
                Failure::configuration("the configuration cannot be read")
                    .at(&location)
                    .because(error)
                    .fix("give a readable config_db.json")
            },
        )?;
        let loaded = load(&[(&location, &text)], &ResolveOptions::default())
            .map_err(|problems| Failure::configuration(problems.to_string()))?;
        ConfiguredSwitchLoad::new(loaded.resolved.config).ok_or_else(|| {
            Failure::configuration("the configuration forwards nothing between its ports")
                .at(location)
                .because("no port can send untagged frames to the next port, by bridging or by IPv4 routing")
                .fix("give a configuration with two ports in one VLAN, or with IPv4 addresses")
        })
    }

    fn new(mut config: SwitchConfig) -> Option<ConfiguredSwitchLoad> {
        let ports = config.ports.len() as u16;
        let subnets: Vec<Option<RoutedSubnet>> =
            (0..ports).map(|port| routed_subnet(&config, port)).collect();
        config
            .routing
            .neighbours
            .extend(subnets.iter().enumerate().filter_map(|(port, subnet)| {
                subnet.as_ref().map(|subnet| StaticNeighbour {
                    interface: subnet.interface,
                    address: IpAddr::V4(subnet.host),
                    mac: host_mac(port as u16),
                })
            }));
        let mut new = ConfiguredSwitchLoad {
            switch: VirtualSwitch::new(&config, VecStore::new(8 * BURST_FRAMES + 4 * usize::from(ports))),
            waiting: VecDeque::with_capacity(2 * BURST_FRAMES),
            flows: Vec::new(),
            slot_flows: Vec::new(),
            ports,
        };
        new.switch.store_punted_frames();
        new.switch.set_links_up();
        new.drain_switch();
        new.learn_hosts();
        for flow in candidate_flows(&config, &subnets) {
            new.add_flow_if_forwarded(flow);
        }
        new.with_waiting_frames()
    }

    /// Sends one broadcast frame from every host, so that the switch learns the addresses of the hosts.
    fn learn_hosts(&mut self) {
        for port in 0..self.ports {
            let mut frame = [0; 60];
            frame[..6].fill(0xff);
            frame[6..12].copy_from_slice(&host_mac(port));
            if let Some(handle) = self.switch.store_mut().insert(&frame) {
                self.receive(PortId(port), handle);
                self.drain_switch();
            }
        }
    }

    /// Sends the frame of a flow once. If exactly one copy leaves the switch, adds the flow.
    fn add_flow_if_forwarded(&mut self, flow: IngressFrame) {
        let Some(handle) = self.switch.store_mut().insert(&flow.frame) else {
            return;
        };
        let before = self.sent_frames();
        let forwarded = self.receive(flow.ingress, handle) == ForwardingResult::Forwarded { copies: 1 };
        self.drain_switch();
        if forwarded && self.sent_frames() > before {
            self.flows.push(flow);
        }
    }

    fn sent_frames(&self) -> u64 {
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

    /// Creates the frames of two bursts. Returns `None` if there is no flow or no frame slot.
    fn with_waiting_frames(mut self) -> Option<ConfiguredSwitchLoad> {
        for n in 0..2 * BURST_FRAMES {
            let index = n % self.flows.len().max(1);
            let flow = self.flows.get(index)?;
            let handle = self.switch.store_mut().insert(&flow.frame)?;
            let header = *flow.frame.first_chunk()?;
            self.slot_flows
                .resize(self.slot_flows.len().max(handle.0 as usize + 1), None);
            self.slot_flows[handle.0 as usize] = Some((index, header));
            self.waiting.push_back((index, handle));
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

    fn run_burst(&mut self) {
        for _ in 0..BURST_FRAMES {
            let Some((flow, handle)) = self.waiting.pop_front() else {
                break;
            };
            self.receive(self.flows[flow].ingress, handle);
        }
        self.collect_departures();
        // All frames leave the switch, except lost ones. Deadlines after the last departure, such as polls,
        // stay pending.
        while self.switch.switch().queued_frames() > 0 && self.switch.step(Picos::NEVER) == Step::Deadline {
            self.collect_departures();
        }
    }

    /// Restores the headers of the frames that have left the switch, so that the frames can arrive again.
    fn collect_departures(&mut self) {
        let (slot_flows, waiting) = (&self.slot_flows, &mut self.waiting);
        self.switch.take_departures(|departure, store| {
            match slot_flows.get(departure.frame.0 as usize).copied().flatten() {
                Some((flow, header)) => {
                    store.prefix_mut(departure.frame)[..header.len()].copy_from_slice(&header);
                    waiting.push_back((flow, departure.frame));
                }
                None => store.release(departure.frame),
            }
        });
        self.switch.take_punts(|punt, store| store.release(punt.frame));
    }

    /// Advances the model time by 1 ms, so that all frames in the switch leave.
    fn drain_switch(&mut self) {
        self.collect_departures();
        let end = self.switch.now().saturating_add(Picos::from_millis(1));
        while self.switch.step(end) == Step::Deadline {
            self.collect_departures();
        }
        self.switch.advance_to(end);
    }
}

impl FrameLoad for ConfiguredSwitchLoad {
    fn run(&mut self, frames: u64) -> u64 {
        run_bursts(frames, || self.run_burst())
    }

    fn check(&self) -> Result<(), String> {
        self.switch.switch().assert_consistent();
        match self.waiting.len() < 2 * BURST_FRAMES {
            true => Err(format!(
                "the buffers of the switch do not hold a burst of {BURST_FRAMES} frames: {} of {} were lost",
                2 * BURST_FRAMES - self.waiting.len(),
                2 * BURST_FRAMES
            )),
            false => Ok(()),
        }
    }
}

/// The router interface of a port, and a host in its subnet.
#[derive(Clone, Debug)]
struct RoutedSubnet {
    interface: InterfaceId,
    router_mac: [u8; 6],
    host: Ipv4Addr,
}

/// Returns the first IPv4 subnet of a routed port, with the first address that the interface does not use as
/// a host. Returns `None` for a port that is not routed or has no such subnet.
fn routed_subnet(config: &SwitchConfig, port: u16) -> Option<RoutedSubnet> {
    let mut interfaces = config.routing.interfaces.iter().enumerate();
    let (index, interface) =
        interfaces.find(|(_, interface)| interface.attachment == InterfaceAttachment::Port(port))?;
    interface.addresses.iter().find_map(|address| match address {
        IpNet::V4(net) => net
            .hosts()
            .find(|host| *host != net.addr())
            .map(|host| RoutedSubnet {
                interface: InterfaceId(index as u16),
                router_mac: interface.mac,
                host,
            }),
        IpNet::V6(_) => None,
    })
}

/// Returns the flows from each port to the next port: one flow with DSCP 0, and one in the first lossless
/// traffic class if there is one.
fn candidate_flows(config: &SwitchConfig, subnets: &[Option<RoutedSubnet>]) -> Vec<IngressFrame> {
    let ports = subnets.len();
    let mut flows = Vec::with_capacity(2 * ports);
    for port in 0..ports {
        let next = (port + 1) % ports;
        let (destination_mac, src, dst) = match (&subnets[port], &subnets[next]) {
            (Some(here), Some(there)) => (here.router_mac, here.host, there.host),
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
                destination_mac,
                src,
                dst,
                dscp,
                port as u32,
            );
            flows.push(IngressFrame {
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
    fn a_bridge_and_a_router_forward_frames_and_a_switch_with_one_port_is_refused() {
        let testbeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbeds");
        // The first file is a bridge of five ports with two classes each. The second file has two routed
        // ports, of which one cannot reach the next port, and two ports in a VLAN.
        for (name, flows_min) in [("incast.config_db.json", 10), ("routed/config_db.json", 3)] {
            let mut load = ConfiguredSwitchLoad::read(&testbeds.join(name))
                .unwrap_or_else(|failure| panic!("{name}: {failure}"));
            assert!(
                load.flows.len() >= flows_min,
                "{name}: {} flows",
                load.flows.len()
            );
            assert_eq!(load.run(10_000), 10_016);
            load.check().unwrap_or_else(|why| panic!("{name}: {why}"));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config_db.json");
        std::fs::write(&path, r#"{"PORT": {"Ethernet0": {"speed": "100000"}}}"#).unwrap();
        assert_eq!(ConfiguredSwitchLoad::read(&path).unwrap_err().exit as u8, 4);
    }
}
