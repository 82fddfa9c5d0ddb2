//! Creates the switch configuration of a preset, as a lab would create it.

use std::path::Path;

use xoff_dataplane::config::SwitchConfig;
use xoff_units::Picos;

use xoff_lab::plan::TimeMode;
use xoff_lab::{parse_lab, switch_configuration};
use xoff_telemetry::failure::Failure;

/// Returns the configuration of a switch with the preset `preset` and `ports` ports. All ports have the speed
/// `speed_mbps` in Mb/s and the one-way cable delay `delay`, rounded up to nanoseconds.
///
/// # Errors
/// The preset does not exist, or the number of ports or the speed is not valid.
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
