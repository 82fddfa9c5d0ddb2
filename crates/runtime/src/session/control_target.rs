//! The answers of a session to the requests of the control API.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use xoff_dataplane::Switch;

use super::flow_moves::describe_scheme_changes;
use super::switch_session::{SwitchSession, config_failure, lock, read, with_next_routes, write};
use super::tables;
use crate::workers::RunningSwitch;
use xoff_config::{diff_configs, parse_asic_part, resolve};
use xoff_control::{
    AddressFamily, ConfigApplyReply, ControlTarget, CurrentConfig, EventLog, Interfaces, MacControlFrame,
    MacEntry, Neighbour, NewConfig, PfcPort, RouteEntry, WatermarkKind, WatermarkPart,
};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{SwitchSnapshot, Taint};

impl ControlTarget for SwitchSession {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn port_names(&self) -> Vec<String> {
        self.ports.clone()
    }

    fn event_log(&self) -> Arc<EventLog> {
        Arc::clone(&self.events)
    }

    fn snapshot(&self) -> Option<SwitchSnapshot> {
        self.watermarks(WatermarkKind::User)
    }

    fn config(&self) -> CurrentConfig {
        let current = self.current();
        CurrentConfig {
            generation: current.number,
            tables: current.complete_db().to_value(),
            written_tables: current.db.to_value(),
        }
    }

    fn config_generation(&self) -> u64 {
        lock(&self.current).number
    }

    fn buffers(&self, running: bool) -> Result<Value, Failure> {
        Ok(self.current().buffer_tables(running))
    }

    fn apply_config(
        &self,
        config: NewConfig,
        dry_run: bool,
        force: bool,
    ) -> Result<ConfigApplyReply, Failure> {
        let (config, is_document) = match config {
            NewConfig::Document(config) => (config, true),
            NewConfig::Written(config) => (config, false),
        };
        let text = config.to_string();
        let asic = self.resolve.asic.as_deref();
        let mut new = parse_asic_part(&text, "the configuration sent", asic).map_err(config_failure)?;
        let _change = lock(&self.changing);
        let current = self.current();
        if is_document {
            // Computed fields that the client sends back unchanged are removed again.
            new.remove_equal_fields(&current.generated);
        }
        let options = self.resolve_options(&current, lock(&self.devices).clone());
        let resolved = resolve(&new, &options).map_err(config_failure)?;
        let changes = diff_configs(&current.db, &new)
            .iter()
            .map(ToString::to_string)
            .collect();
        let config = &resolved.config;
        if !config.ports.iter().map(|port| &port.name).eq(&self.ports) {
            return Err(
                Failure::configuration("ports cannot be added or removed while the switch runs")
                    .because(format!("it has {}", self.ports.join(", ")))
                    .fix("restart the switch with the new ports"),
            );
        }
        let config = with_next_routes(&resolved, &current)?;
        let losses = self.predict_losses(&current.config, &config)?;
        if !losses.is_empty() && !dry_run && !force {
            return Err(
                Failure::configuration("frames would be lost by this change; nothing was changed")
                    .because(losses.join("\n"))
                    .fix("wait until less is in use, give more space, or repeat the command with --force"),
            );
        }
        let moves = describe_scheme_changes(&current.config, &config);
        let mut generation = current.number;
        let warnings = resolved.warnings.clone();
        if !dry_run {
            generation = self.use_config(&current, new, config, resolved)?;
        }
        Ok(ConfigApplyReply {
            changes,
            warnings,
            losses,
            moves,
            generation,
        })
    }

    fn mac_table(&self) -> Result<Vec<MacEntry>, Failure> {
        let current = self.current();
        let entries = self.with_running(|running| running.inspect(Switch::fdb_entries))?;
        Ok(tables::list_mac_entries(&current.config, entries))
    }

    fn neighbours(&self) -> Result<Vec<Neighbour>, Failure> {
        let current = self.current();
        let entries = self.with_running(|running| running.inspect(Switch::neighbour_entries))?;
        Ok(tables::list_neighbours(&current.config, entries))
    }

    fn routes(&self, family: AddressFamily) -> Result<Vec<RouteEntry>, Failure> {
        let current = self.current();
        Ok(tables::list_routes(
            &current,
            &self.link_states(&current)?,
            family,
        ))
    }

    fn interfaces(&self) -> Result<Interfaces, Failure> {
        let current = self.current();
        Ok(tables::list_interfaces(&current, &self.link_states(&current)?))
    }

    fn watermarks(&self, kind: WatermarkKind) -> Option<SwitchSnapshot> {
        let watermarks = read(&self.watermarks);
        let mut snapshot = read(&self.running).as_ref()?.snapshot()?;
        watermarks.apply_to(kind, &mut snapshot.report);
        Some(snapshot)
    }

    fn clear_watermarks(&self, kind: WatermarkKind, part: WatermarkPart) {
        let mut watermarks = write(&self.watermarks);
        if let Some(cleared_snapshot) = read(&self.running)
            .as_ref()
            .and_then(RunningSwitch::read_and_clear_watermarks)
        {
            watermarks.clear(cleared_snapshot.report, kind, part);
        }
    }

    fn clear_watchdog(&self) -> Result<(), Failure> {
        self.with_running(|running| {
            running.clear_watchdog_stats();
            Some(())
        })
    }

    fn pfc_baseline(&self) -> Vec<PfcPort> {
        lock(&self.pfc_baseline).clone()
    }

    fn set_pfc_baseline(&self, base: Vec<PfcPort>) -> Result<(), Failure> {
        *lock(&self.pfc_baseline) = base;
        Ok(())
    }

    fn run_due_tasks(&self) -> Option<Duration> {
        let interval = self.current().watermark_interval();
        let now = Instant::now();
        let mut watermarks = write(&self.watermarks);
        if watermarks.remaining_period(now, interval).is_zero()
            && let Some(cleared_snapshot) = read(&self.running)
                .as_ref()
                .and_then(RunningSwitch::read_and_clear_watermarks)
        {
            watermarks.next_period(cleared_snapshot.report, now);
        }
        // A switch that is stopping has no snapshot. The next attempt follows after a pause.
        Some(
            watermarks
                .remaining_period(now, interval)
                .max(Duration::from_millis(100)),
        )
    }

    fn taints(&self) -> Vec<Taint> {
        self.ledger.taints()
    }

    fn send_mac_control(&self, port: &str, frame: &[u8]) -> Result<(), Failure> {
        let id = self.port_id(port)?;
        if frame.len() < 16 || frame[12..14] != [0x88, 0x08] {
            return Err(Failure::usage("this is not a MAC control frame")
                .because("its ethertype is not 0x8808")
                .fix("give at least addresses, ethertype and opcode: 16 bytes"));
        }
        match self.with_running(|running| Some(running.send_mac_control(id, frame.to_vec())))? {
            true => Ok(()),
            false => Err(Failure::new(Exit::Environment, "the frame was not sent")
                .at(port)
                .because("the port is down, or too many control frames wait for its link")
                .fix("set the port up (`xoff config interface startup`), or send fewer frames")),
        }
    }

    fn mac_control(&self, port: &str) -> Result<Vec<MacControlFrame>, Failure> {
        let id = self.port_id(port)?;
        let records = self.with_running(|running| Some(running.mac_control_records()))?;
        let frame = |record: &xoff_dataplane::ControlRecord| MacControlFrame {
            at_ns: record.at.as_nanos(),
            frame: record.bytes[..record.frame_len.min(record.bytes.len())]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        };
        Ok(records
            .iter()
            .filter(|record| record.port == id)
            .map(frame)
            .collect())
    }
}
