//! The leaf switch that selects an uplink for each queue pair.

use xoff_dataplane::store::VecStore;
use xoff_dataplane::{ForwardingResult, FrameStore, Outputs, Picos, PortId, ReceivedFrame, Switch};
use xoff_wire::parse::parse;

use super::placement_lab::PlacementLab;
use xoff_telemetry::failure::Failure;

/// Model time between two frames, so that each frame arrives at an idle switch.
const FRAME_INTERVAL: Picos = Picos::from_micros(100);

/// A leaf switch whose links are all up. For a frame, the switch returns the uplink through which the
/// frame leaves.
#[derive(Debug)]
pub struct LeafSwitch {
    switch: Switch,
    store: VecStore,
    outputs: Outputs,
    now: Picos,
    hosts: Vec<PortId>,
    /// Uplink number of each port, or `None` for other ports.
    uplinks: Vec<Option<u16>>,
}

impl LeafSwitch {
    /// Creates the leaf switch of a lab, in a run with the seed `seed`.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn new(lab: &PlacementLab, seed: u64) -> Result<LeafSwitch, Failure> {
        let config = lab.leaf_config(seed)?;
        let place = |name: &&str| config.ports.iter().position(|port| port.name == **name);
        let (hosts, uplinks) = lab.leaf_port_names();
        let mut leaf = LeafSwitch {
            switch: Switch::new(&config),
            store: VecStore::new(64),
            outputs: Outputs::default(),
            now: Picos::ZERO,
            hosts: hosts
                .iter()
                .filter_map(place)
                .map(|port| PortId(port as u16))
                .collect(),
            uplinks: vec![None; config.ports.len()],
        };
        for (number, port) in (0..).zip(uplinks.iter().filter_map(place)) {
            leaf.uplinks[port] = Some(number);
        }
        for port in 0..config.ports.len() as u16 {
            let LeafSwitch {
                switch,
                store,
                outputs,
                ..
            } = &mut leaf;
            switch.set_link(Picos::ZERO, PortId(port), true, store, outputs);
            leaf.release_outputs();
        }
        Ok(leaf)
    }

    /// Returns the number of the uplink through which a frame leaves, from 0. `host` is the index of the
    /// sending host at the leaf, and `bytes` is the frame without FCS.
    ///
    /// # Errors
    /// The frame is dropped, leaves through no uplink, or stays in the switch.
    pub fn select_uplink(&mut self, host: usize, bytes: &[u8]) -> Result<u16, Failure> {
        self.now += FRAME_INTERVAL;
        let astray = |what: String| {
            Failure::configuration(what)
                .at("leaf1")
                .fix("check the layer of --config")
        };
        let Some(frame) = self.store.insert(bytes) else {
            return Err(astray(format!(
                "the switch keeps {}",
                xoff_telemetry::count_noun(self.store.in_use() as u64, "frame")
            )));
        };
        let arrival = ReceivedFrame {
            frame,
            frame_len: bytes.len() as u32,
            parsed: parse(bytes),
            received_at: self.now,
        };
        let LeafSwitch {
            switch,
            store,
            outputs,
            ..
        } = self;
        let verdict = switch.receive(self.now, self.hosts[host], &arrival, store, outputs);
        let port = outputs
            .transmits
            .iter()
            .find(|transmit| transmit.frame == frame)
            .map(|transmit| transmit.port);
        self.release_outputs();
        match (verdict, port.and_then(|port| self.uplinks[port.index()])) {
            (ForwardingResult::Forwarded { .. }, Some(uplink)) => Ok(uplink),
            (verdict, _) => Err(astray(format!(
                "a packet of host {} leaves through no uplink: {verdict:?}",
                host + 1
            ))),
        }
    }

    /// Returns the uplink number of each queue pair in the placement of a seed. The queue pairs of the first
    /// host come first, then those of the second host, and so on.
    ///
    /// # Errors
    /// A packet leaves through no uplink.
    pub fn place_queue_pairs(&mut self, lab: &PlacementLab, seed: u64) -> Result<Vec<u16>, Failure> {
        let queue_pairs = usize::from(lab.setting.queue_pairs);
        let all = usize::from(lab.setting.shape.hosts) * queue_pairs;
        (0..all)
            .map(|pair| self.select_uplink(pair / queue_pairs, &lab.first_packet(pair, seed)))
            .collect()
    }

    fn release_outputs(&mut self) {
        for transmit in self.outputs.transmits.drain(..) {
            self.store.release(transmit.frame);
        }
        for punt in self.outputs.punts.drain(..) {
            self.store.release(punt.frame);
        }
        self.outputs.deadlines.clear();
        self.outputs.events.clear();
    }
}
