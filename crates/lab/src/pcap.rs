//! Recordings of a lab's switches.

use std::path::PathBuf;

use super::plan::LabPlan;
use xoff_capture::live::{PcapOptions, PcapRequest};
use xoff_telemetry::failure::Failure;

/// What to record, before the lab file is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabPcap {
    /// Files, each with what goes into it: `SWITCH:PORT`, `SWITCH`, or, of the only switch, a port or nothing.
    pub files: Vec<(Option<String>, PathBuf)>,
    /// Octets stored of each frame at most; 0: all.
    pub snaplen: u32,
}

/// The recordings of each switch of a plan.
///
/// # Errors
/// The first place that is no switch and no port with a cable.
pub(super) fn resolve(plan: &LabPlan, pcap: &LabPcap) -> Result<Vec<PcapOptions>, Failure> {
    let mut all = vec![
        PcapOptions {
            requests: Vec::new(),
            snaplen: pcap.snaplen,
        };
        plan.switches.len()
    ];
    for (place, file) in &pcap.files {
        let (switch, port) = find(plan, place.as_deref()).map_err(|failure| {
            let place = place.as_ref().map_or(String::new(), |place| format!("{place}="));
            failure.at(format!("--pcap {place}{}", file.display()))
        })?;
        let absolute = std::path::absolute(file).map_err(|error| {
            Failure::usage("the recording needs a file name")
                .at("--pcap")
                .because(error)
        })?;
        if file.as_os_str() == "-" {
            return Err(Failure::usage("a lab does not record to standard output")
                .at("--pcap -")
                .because("its table is printed there")
                .fix("`mkfifo PIPE`, then `--pcap PIPE`, and in another terminal `tshark -i PIPE`"));
        }
        all[switch].requests.push(PcapRequest { port, file: absolute });
    }
    Ok(all)
}

/// A switch, and one of its ports or all of them.
fn find(plan: &LabPlan, place: Option<&str>) -> Result<(usize, Option<String>), Failure> {
    let Some(place) = place else {
        return only_switch(plan).map(|switch| (switch, None));
    };
    let by_name = |name: &str| plan.switches.iter().position(|switch| switch.name == name);
    let (switch, port) = match place.split_once(':') {
        Some((name, port)) => (by_name(name).ok_or_else(|| unknown(plan, name))?, port),
        None => match by_name(place) {
            Some(switch) => return Ok((switch, None)),
            None if place.starts_with("Ethernet") => (only_switch(plan)?, place),
            None => return Err(unknown(plan, place)),
        },
    };
    let ports: Vec<&str> = plan
        .links
        .iter()
        .filter_map(|link| link.port_at(switch))
        .collect();
    match ports.contains(&port) {
        true => Ok((switch, Some(port.to_owned()))),
        false => Err(Failure::usage(format!(
            "no cable is in {port:?} of {}",
            plan.switches[switch].name
        ))
        .because(format!("its ports with a cable are {}", ports.join(", ")))),
    }
}

fn only_switch(plan: &LabPlan) -> Result<usize, Failure> {
    match plan.switches.len() {
        1 => Ok(0),
        _ => Err(Failure::usage("which switch is to be recorded is not said")
            .because(format!("there are {}", switches(plan)))
            .fix("write SWITCH=FILE or SWITCH:PORT=FILE")),
    }
}

fn unknown(plan: &LabPlan, name: &str) -> Failure {
    let failure = Failure::usage(format!("no switch is called {name:?}"));
    let host = plan.hosts.iter().position(|host| host.name == name);
    let far = host.and_then(|host| {
        let far = super::plan::FarEnd::Host(host);
        plan.links.iter().find(|link| link.far == far)
    });
    match far {
        Some(link) => failure
            .because(format!("{name} is a host, and recordings are of switches"))
            .fix(format!(
                "record the port it is connected to: {}:{}",
                plan.switches[link.switch].name, link.port
            )),
        None => failure.because(format!("there are {}", switches(plan))),
    }
}

fn switches(plan: &LabPlan) -> String {
    let names: Vec<&str> = plan.switches.iter().map(|switch| switch.name.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::plan::TimeMode;
    use super::*;

    fn plan() -> LabPlan {
        let text = "name: x\ntopology:\n  nodes:\n    sw1: {kind: switch}\n    h1: {kind: model}\n  links:\n    - {endpoints:                     [\"h1:eth0\", \"sw1:Ethernet4\"]}\n";
        super::super::parse_lab(text, "x.xoff.yml", Path::new(""), TimeMode::RealTime)
            .expect("the lab file is good")
    }

    #[test]
    fn a_place_is_a_switch_a_port_or_left_out() {
        for (place, port) in [
            (None, None),
            (Some("sw1"), None),
            (Some("sw1:Ethernet4"), Some("Ethernet4")),
            (Some("Ethernet4"), Some("Ethernet4")),
        ] {
            let found = find(&plan(), place).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(found, (0, port.map(str::to_owned)));
        }
    }

    #[test]
    fn a_wrong_place_says_which_would_be_right() {
        for (place, words) in [
            ("h1", "sw1:Ethernet4"),
            ("h1:eth0", "sw1:Ethernet4"),
            ("sw2:Ethernet0", "there are sw1"),
            ("sw1:Ethernet0", "with a cable are Ethernet4"),
        ] {
            let failure = find(&plan(), Some(place)).expect_err(place);
            assert!(failure.to_string().contains(words), "{failure}");
        }
    }
}
