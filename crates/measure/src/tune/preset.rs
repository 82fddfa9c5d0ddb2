//! The switch configuration of a preset, as a lab creates it.

use std::path::Path;

use xoff_dataplane::config::SwitchConfig;
use xoff_units::Picos;

use xoff_lab::plan::TimeMode;
use xoff_lab::{parse_lab, switch_configuration};
use xoff_telemetry::failure::Failure;

/// Returns the configuration of a switch with this preset. The switch has `ports` ports. All ports have the
/// same speed in Mb/s and the same cable delay.
///
/// # Errors
/// There is no such preset.
pub fn preset_switch(
    preset: &str,
    ports: u16,
    speed_mbps: u32,
    delay: Picos,
) -> Result<SwitchConfig, Failure> {
    let text = format!(
        "name: tune-buffers\ntopology:\n  fabric:\n    star: {{hosts: {ports}, speed: {speed_mbps}m, delay: {}ns, config: [{{preset: {preset:?}}}]}}\n",
        delay.0.div_ceil(1_000)
    );
    let plan = parse_lab(&text, "--preset", Path::new(""), TimeMode::Virtual)
        .map_err(|problems| Failure::configuration(problems.to_string()))?;
    switch_configuration(&plan, 0, 0)
}
