//! A switch with fixed answers, whose changes a test can hold.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use crate::merge_patch::merge_patch;
use crate::{
    AddressFamily, ConfigApplyReply, ControlTarget, CurrentConfig, EventLog, Interfaces, LagMember,
    LagStatus, MacControlFrame, MacEntry, Neighbour, NewConfig, PfcPort, PortStatus, RouteEntry, RouteHop,
    RouterInterface, WatermarkKind, WatermarkPart,
};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{LoadBalancingReport, SwitchSnapshot, Taint, WatchdogReport};

pub(super) struct FakeSwitch {
    name: String,
    pub(super) config: Mutex<Value>,
    pub(super) generation: AtomicU64,
    pub(super) cleared: AtomicUsize,
    pub(super) events: Arc<EventLog>,
    /// Whether changes wait, and the number of changes that have begun.
    gate: Mutex<(bool, usize)>,
    gate_changed: Condvar,
}

impl FakeSwitch {
    pub(super) fn new(name: &str) -> Arc<FakeSwitch> {
        Arc::new(FakeSwitch {
            name: name.to_owned(),
            config: Mutex::new(json!({"PORT": {"Ethernet0": {"speed": "1000", "mtu": "9100"}}})),
            generation: AtomicU64::new(1),
            cleared: AtomicUsize::new(0),
            events: Arc::default(),
            gate: Mutex::new((false, 0)),
            gate_changed: Condvar::new(),
        })
    }

    /// Makes changes wait, or lets them continue.
    pub(super) fn hold_changes(&self, is_held: bool) {
        self.gate.lock().unwrap().0 = is_held;
        self.gate_changed.notify_all();
    }

    /// Waits until `count` changes have begun.
    pub(super) fn wait_for_changes(&self, count: usize) {
        let gate = self.gate.lock().unwrap();
        let wait = self
            .gate_changed
            .wait_timeout_while(gate, super::TEST_TIMEOUT, |gate| gate.1 < count);
        assert!(!wait.unwrap().1.timed_out(), "the change did not begin");
    }

    fn enter_change(&self) {
        let mut gate = self.gate.lock().unwrap();
        gate.1 += 1;
        self.gate_changed.notify_all();
        drop(self.gate_changed.wait_while(gate, |gate| gate.0).unwrap());
    }
}

/// The computed fields of the configuration.
pub(super) fn computed_fields() -> Value {
    json!({"BUFFER_POOL": {"ingress_lossless_pool": {"size": "1000"}}})
}

impl ControlTarget for FakeSwitch {
    fn name(&self) -> String {
        self.name.clone()
    }
    fn port_names(&self) -> Vec<String> {
        vec!["Ethernet0".to_owned(), "Ethernet4".to_owned()]
    }
    fn event_log(&self) -> Arc<EventLog> {
        Arc::clone(&self.events)
    }
    fn snapshot(&self) -> Option<SwitchSnapshot> {
        let mut snapshot = xoff_telemetry::samples::sample_snapshot();
        snapshot.report.name = self.name.clone();
        snapshot.report.pfc_watchdog = Some(WatchdogReport::default());
        snapshot.report.load_balancing = Some(LoadBalancingReport::default());
        Some(snapshot)
    }
    fn config(&self) -> CurrentConfig {
        let written_tables = self.config.lock().unwrap().clone();
        let mut tables = written_tables.clone();
        merge_patch(&mut tables, computed_fields());
        CurrentConfig {
            generation: self.config_generation(),
            tables,
            written_tables,
        }
    }
    fn config_generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }
    fn apply_config(
        &self,
        config: NewConfig,
        dry_run: bool,
        force: bool,
    ) -> Result<ConfigApplyReply, Failure> {
        let (NewConfig::Document(config) | NewConfig::Written(config)) = config;
        self.enter_change();
        if config["PORT"]["Ethernet0"]["speed"] == "fast" {
            return Err(Failure::configuration("speed out of range")
                .at("PORT|Ethernet0|speed")
                .fix("1 to 1600000"));
        }
        if !dry_run {
            *self.config.lock().unwrap() = config;
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        Ok(ConfigApplyReply {
            changes: vec![format!("dry {dry_run}")],
            losses: if force { vec!["forced".to_owned()] } else { vec![] },
            generation: self.config_generation(),
            ..ConfigApplyReply::default()
        })
    }
    fn buffers(&self, running: bool) -> Result<Value, Failure> {
        Ok(json!({"BUFFER_POOL": {"pool": {"running": running.to_string()}}}))
    }
    fn clear_watermarks(&self, kind: WatermarkKind, part: WatermarkPart) {
        assert_eq!((kind, part), (WatermarkKind::Persistent, WatermarkPart::Queue));
        self.cleared.fetch_add(1, Ordering::Relaxed);
    }
    fn clear_watchdog(&self) -> Result<(), Failure> {
        self.cleared.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn set_pfc_baseline(&self, base: Vec<PfcPort>) -> Result<(), Failure> {
        assert_eq!(base.len(), 2);
        self.cleared.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn taints(&self) -> Vec<Taint> {
        vec![Taint {
            since_ns: 5,
            cause: "stall".to_owned(),
        }]
    }
    fn send_mac_control(&self, port: &str, frame: &[u8]) -> Result<(), Failure> {
        match frame.len() {
            0..16 => Err(Failure::usage("this is not a MAC control frame").at(port)),
            _ => Ok(()),
        }
    }
    fn mac_control(&self, _: &str) -> Result<Vec<MacControlFrame>, Failure> {
        Ok(vec![MacControlFrame {
            at_ns: 7,
            frame: "0180c2000001".to_owned(),
        }])
    }
    fn mac_table(&self) -> Result<Vec<MacEntry>, Failure> {
        Ok(vec![MacEntry {
            vlan: 10,
            mac: "02:00:00:00:00:01".to_owned(),
            port: "Ethernet0".to_owned(),
            kind: "dynamic".to_owned(),
            age_ns: 3,
        }])
    }
    fn neighbours(&self) -> Result<Vec<Neighbour>, Failure> {
        Ok(vec![Neighbour {
            address: [10, 0, 0, 1].into(),
            mac: None,
            interface: "Vlan10".to_owned(),
            vlan: Some(10),
            port: None,
            state: "incomplete".to_owned(),
            age_ns: 0,
            held_frames: 1,
        }])
    }
    fn routes(&self, family: AddressFamily) -> Result<Vec<RouteEntry>, Failure> {
        let hop = RouteHop {
            address: Some([10, 0, 0, 1].into()),
            interface: "Ethernet0".to_owned(),
            weight: 2,
            active: true,
        };
        Ok(match family {
            AddressFamily::Ipv4 => vec![RouteEntry {
                prefix: "0.0.0.0/0".to_owned(),
                protocol: "static".to_owned(),
                distance: 1,
                selected: true,
                blackhole: false,
                next_hops: vec![hop],
                age_s: 12,
            }],
            AddressFamily::Ipv6 => vec![],
        })
    }
    fn interfaces(&self) -> Result<Interfaces, Failure> {
        let port = PortStatus {
            name: "Ethernet0".to_owned(),
            lanes: None,
            alias: Some("eth0".to_owned()),
            speed_mbps: 1_000,
            mtu: 1_500,
            vlan: "trunk".to_owned(),
            admin_up: true,
            oper_up: true,
            pfc_asym: false,
        };
        let lag = LagStatus {
            name: "PortChannel1".to_owned(),
            speed_mbps: 1_000,
            mtu: None,
            vlan: "routed".to_owned(),
            admin_up: true,
            oper_up: false,
            members: vec![LagMember {
                name: "Ethernet4".to_owned(),
                up: false,
            }],
        };
        let router = RouterInterface {
            name: "Vlan10".to_owned(),
            mac: "02:00:00:00:00:02".to_owned(),
            mtu: 1_500,
            addresses: vec!["10.0.0.254/24".to_owned()],
            admin_up: true,
            oper_up: true,
        };
        Ok(Interfaces {
            ports: vec![port],
            lags: vec![lag],
            router_interfaces: vec![router],
        })
    }
}
