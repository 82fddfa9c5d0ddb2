//! The option `--pcap` of labs, which selects the switch ports to record.

use std::path::PathBuf;

use super::plan::{FarEnd, LabPlan, LinkPlan};
use xoff_capture::recorder::{PcapOptions, PcapRequest};
use xoff_telemetry::failure::Failure;
use xoff_units::{list_names, suggest};

/// The packet recordings that a command line requests (`--pcap`). They are checked later, with the lab file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabRecordings {
    /// The targets with their recording files. A target is `SWITCH:PORT`, or `SWITCH` for all its ports. In
    /// a lab with one switch, a target can also be a port such as `Ethernet0`, or `None` for all ports. May
    /// be empty.
    pub files: Vec<(Option<String>, PathBuf)>,
    /// Largest number of bytes that are recorded of each frame. The value 0 means whole frames.
    pub snaplen: u32,
}

/// Returns the recordings of each switch, in the order of the plan.
///
/// # Errors
/// Fails if a target is neither a switch nor a port with a link. Also fails if a file is `-`, because a lab
/// cannot record to standard output.
pub(super) fn resolve_recordings(
    plan: &LabPlan,
    recordings: &LabRecordings,
) -> Result<Vec<PcapOptions>, Failure> {
    let mut all = vec![
        PcapOptions {
            requests: Vec::new(),
            snaplen: recordings.snaplen,
            standard_output: None,
        };
        plan.switches.len()
    ];
    for (target, file) in &recordings.files {
        let (switch, port) = find_target(plan, target.as_deref()).map_err(|failure| {
            let target = target
                .as_ref()
                .map_or(String::new(), |target| format!("{target}="));
            failure.at(format!("--pcap {target}{}", file.display()))
        })?;
        let absolute = std::path::absolute(file).map_err(|error| {
            Failure::usage("the recording needs a file name")
                .at("--pcap")
                .because(error)
        })?;
        if file.as_os_str() == "-" {
            return Err(Failure::usage("a lab cannot record to standard output")
                .at("--pcap -")
                .because("its result is printed there")
                .fix("`mkfifo PIPE`, then `--pcap PIPE`, and in another terminal `tshark -i PIPE`"));
        }
        all[switch].requests.push(PcapRequest { port, file: absolute });
    }
    Ok(all)
}

/// Returns the index of the link that a recording in virtual time names: by the name of the link, by one of its ends,
/// such as `h1:eth0` or `sw1:Ethernet4`, or by its host.
///
/// # Errors
/// The lab has no such link. The failure proposes the links with a similar name or with such an end.
pub(super) fn find_link(plan: &LabPlan, target: &str) -> Result<usize, Failure> {
    let has_end = |link: &LinkPlan| {
        let near = names_end(target, &plan.switches[link.switch].name, &link.port);
        near || match &link.far {
            FarEnd::Host(host) => {
                let host = &plan.hosts[*host];
                target == host.name || names_end(target, &host.name, &host.interface)
            }
            FarEnd::Switch { switch, port } => names_end(target, &plan.switches[*switch].name, port),
            FarEnd::External(device) => target == device,
        }
    };
    let by_name = plan.links.iter().position(|link| link.name == target);
    by_name
        .or_else(|| plan.links.iter().position(has_end))
        .ok_or_else(|| {
            let names = plan.links.iter().map(|link| link.name.as_str());
            // The links of a switch or a host are more useful than the first links of the lab.
            let node = target.split(':').next().unwrap_or(target);
            let of_node = names
                .clone()
                .filter(|name| name.split("--").any(|end| end.split(':').next() == Some(node)));
            let links = match of_node.clone().next() {
                Some(_) => format!("the links of {node} are {}", list_names(of_node)),
                None => suggest(target, names, "links"),
            };
            Failure::usage(format!("the lab has no link \"{target}\"")).fix(links)
        })
}

/// Returns whether a text names an end of a link, such as `sw1:Ethernet4`.
fn names_end(text: &str, node: &str, port: &str) -> bool {
    text.split_once(':') == Some((node, port))
}

/// Returns the index of the switch and the port of a target. The port `None` means all ports of the switch.
fn find_target(plan: &LabPlan, target: Option<&str>) -> Result<(usize, Option<String>), Failure> {
    let Some(target) = target else {
        return single_switch_index(plan).map(|switch| (switch, None));
    };
    let by_name = |name: &str| plan.switches.iter().position(|switch| switch.name == name);
    let (switch, port) = match target.split_once(':') {
        Some((name, port)) => (
            by_name(name).ok_or_else(|| unknown_switch_failure(plan, name))?,
            port,
        ),
        None => match by_name(target) {
            Some(switch) => return Ok((switch, None)),
            None if target.starts_with("Ethernet") => (single_switch_index(plan)?, target),
            None => return Err(unknown_switch_failure(plan, target)),
        },
    };
    let ports: Vec<&str> = plan
        .links
        .iter()
        .filter_map(|link| link.port_at_switch(switch))
        .collect();
    match ports.contains(&port) {
        true => Ok((switch, Some(port.to_owned()))),
        false => Err(Failure::usage(format!(
            "no link is at {port:?} of {}",
            plan.switches[switch].name
        ))
        .fix(suggest(port, ports.iter().copied(), "ports with a link"))),
    }
}

fn single_switch_index(plan: &LabPlan) -> Result<usize, Failure> {
    match plan.switches.len() {
        1 => Ok(0),
        _ => Err(Failure::usage("the switch to record is missing")
            .because(format!("the switches are {}", switch_names(plan)))
            .fix("write SWITCH=FILE or SWITCH:PORT=FILE")),
    }
}

fn unknown_switch_failure(plan: &LabPlan, name: &str) -> Failure {
    let failure = Failure::usage(format!("the lab has no switch {name:?}"));
    let host = plan.hosts.iter().position(|host| host.name == name);
    let far = host.and_then(|host| {
        let far = super::plan::FarEnd::Host(host);
        plan.links.iter().find(|link| link.far == far)
    });
    match far {
        Some(link) => failure
            .because(format!("{name} is a host, and only switch ports can be recorded"))
            .fix(format!(
                "record the port it is connected to: {}:{}",
                plan.switches[link.switch].name, link.port
            )),
        None => {
            let names = plan.switches.iter().map(|switch| switch.name.as_str());
            failure.fix(suggest(name, names, "switches"))
        }
    }
}

fn switch_names(plan: &LabPlan) -> String {
    list_names(plan.switches.iter().map(|switch| switch.name.as_str()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::plan::TimeMode;
    use super::*;

    fn sample_plan() -> LabPlan {
        let text = "name: x\ntopology:\n  nodes:\n    sw1: {kind: switch}\n    h1: {kind: model}\n  links:\n    - {endpoints:                     [\"h1:eth0\", \"sw1:Ethernet4\"]}\n";
        super::super::parse_lab(text, "x.xoff.yml", Path::new(""), TimeMode::RealTime)
            .expect("the lab file is good")
    }

    #[test]
    fn a_target_is_a_switch_a_port_or_missing() {
        for (target, port) in [
            (None, None),
            (Some("sw1"), None),
            (Some("sw1:Ethernet4"), Some("Ethernet4")),
            (Some("Ethernet4"), Some("Ethernet4")),
        ] {
            let found = find_target(&sample_plan(), target).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(found, (0, port.map(str::to_owned)));
        }
    }

    #[test]
    fn the_error_for_a_wrong_target_names_valid_targets() {
        for (target, words) in [
            ("h1", "sw1:Ethernet4"),
            ("h1:eth0", "sw1:Ethernet4"),
            ("sw2:Ethernet0", "the switches are sw1"),
            ("sw1:Ethernet0", "with a link are Ethernet4"),
        ] {
            let failure = find_target(&sample_plan(), Some(target)).expect_err(target);
            assert!(failure.to_string().contains(words), "{failure}");
        }
    }

    #[test]
    fn a_link_is_found_by_its_name_or_an_end() {
        let plan = sample_plan();
        for target in ["h1:eth0--sw1:Ethernet4", "h1:eth0", "sw1:Ethernet4", "h1"] {
            assert_eq!(find_link(&plan, target).ok(), Some(0), "{target}");
        }
        for (target, fix) in [
            ("sw1", "the links of sw1 are h1:eth0--sw1:Ethernet4"),
            ("sw1:Ethernet0", "the links of sw1 are"),
            (
                "h1:eth0--sw1:Ethernet5",
                "the links of h1 are h1:eth0--sw1:Ethernet4",
            ),
            ("x1:eth0--sw1:Ethernet4", "did you mean `h1:eth0--sw1:Ethernet4`?"),
        ] {
            let failure = find_link(&plan, target).expect_err(target);
            assert!(failure.to_string().contains(fix), "{failure}");
        }
    }
}
