//! Unit tests of the crate, and their common helpers.

mod ars;
mod asics;
mod balancing;
mod bridging;
mod buffers;
mod device_mtu;
mod dynamic;
mod effects;
mod error_list;
mod flow_control;
mod fuzz;
mod interfaces;
mod lags;
mod layers;
mod lldp;
mod merge_patch;
mod presets;
mod ranges;
mod reading;
mod root_cause;
mod route_count;
mod routes;
mod scheduling;
mod sonic;
mod switch;
mod testbeds;
mod traditional;
mod trimming;
mod watchdog;

use xoff_dataplane::config::SwitchConfig;
use xoff_units::Picos;

use super::{LoadedConfig, Problems, ResolveOptions, load};

/// Options with these ports on the command line and the default reaction budget of 20 ms.
fn resolve_options(ports: &[&str]) -> ResolveOptions {
    ResolveOptions {
        ports: ports.iter().map(|port| (*port).to_owned()).collect(),
        port_source: Some(crate::PORT_OPTION),
        seed: 7,
        reaction_budget: Picos::from_millis(20),
        ..ResolveOptions::default()
    }
}

fn load_text(text: &str, ports: &[&str]) -> Result<LoadedConfig, Problems> {
    load(&[("test.json", text)], &resolve_options(ports))
}

#[track_caller]
fn load_config(text: &str, ports: &[&str]) -> SwitchConfig {
    load_text(text, ports)
        .unwrap_or_else(|problems| panic!("refused:\n{problems}"))
        .resolved
        .config
}

#[track_caller]
fn load_warnings(text: &str, ports: &[&str]) -> Vec<String> {
    load_text(text, ports)
        .unwrap_or_else(|problems| panic!("refused:\n{problems}"))
        .resolved
        .warnings
}

/// Returns the error messages of a configuration, one for each line, without the name of the file.
#[track_caller]
fn load_errors(text: &str, ports: &[&str]) -> Vec<String> {
    match load_text(text, ports) {
        Ok(_) => panic!("accepted: {text}"),
        Err(problems) => {
            let lines = problems.as_slice().iter().map(ToString::to_string);
            lines
                .map(|line| {
                    line.strip_prefix("test.json: ")
                        .expect("the file's name")
                        .to_owned()
                })
                .collect()
        }
    }
}

/// Asserts that each of these texts is refused with exactly this message.
#[track_caller]
fn assert_each_refused(cases: &[(&str, &str)]) {
    for (text, line) in cases {
        assert_eq!(load_errors(text, &["Ethernet0"]), [*line], "{text}");
    }
}
