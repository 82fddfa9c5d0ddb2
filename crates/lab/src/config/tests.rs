use std::path::Path;

use super::super::parse_lab;
use super::*;

const BUDGET: Picos = Picos::from_millis(20);

fn parse_and_resolve(config: &str, speed: &str) -> Result<SwitchSetup, Failure> {
    let text = format!(
        "name: x\ntopology:\n  nodes:\n    sw9: {{kind: switch, config: {config}}}\n    h1: {{kind: model}}\n  links:\n    - {{endpoints: [\"h1:eth0\", \"sw9:Ethernet4\"]{speed}}}\n"
    );
    let plan = parse_lab(&text, "x.xoff.yml", Path::new(""), TimeMode::RealTime)
        .map_err(|problems| Failure::configuration(problems.to_string()))?;
    resolve_switch_setup(&plan, 0, 7, BUDGET)
}

/// In SONiC's traditional buffer model, a switch takes its lossless profiles from the lookup
/// file (`pg_profiles`).
#[test]
fn lossless_profiles_are_read_from_the_lookup_file() {
    let lab = |key: &str| {
        let text = format!(
            r#"
name: x
topology:
  nodes:
    sw9:
      kind: switch
      config:
        CABLE_LENGTH: {{AZURE: {{Ethernet4: 5m}}}}
        PORT_QOS_MAP: {{Ethernet4: {{pfc_enable: "3"}}}}
        BUFFER_POOL: {{ingress_lossless_pool: {{type: ingress, mode: dynamic, size: "1048576"}}}}
{key}
    h1: {{kind: model}}
  links:
    - {{endpoints: ["h1:eth0", "sw9:Ethernet4"], speed: 10g}}
"#
        );
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pg_profiles"));
        let plan = parse_lab(&text, "x.xoff.yml", folder, TimeMode::RealTime)?;
        let setup = resolve_switch_setup(&plan, 0, 7, BUDGET).expect("the configuration is good");
        let config = setup.loaded.resolved.config;
        let profile = usize::from(config.ports[0].pgs[3]);
        Ok::<u64, super::super::Problems>(config.profiles[profile].xoff_bytes)
    };
    let xoff_bytes = |key: &str| lab(key).expect("the lab file is good");
    assert_eq!(xoff_bytes("      pg_profiles: pg_profile_lookup.ini"), 33_280);
    assert_eq!(xoff_bytes(""), 0, "without the file there is no headroom");
    let missing = lab("      pg_profiles: none.ini").expect_err("there is no such file");
    assert!(
        missing.to_string().contains("cannot read the lookup file"),
        "{missing}"
    );
}

#[test]
fn lab_sets_port_speeds_and_switch_name() {
    let setup = parse_and_resolve("{preset: roce-lossless}", ", speed: 10g").expect("good");
    let config = &setup.loaded.resolved.config;
    assert_eq!((config.name.as_str(), config.seed), ("sw9", 7));
    assert_eq!(
        config
            .ports
            .iter()
            .map(|port| port.name.as_str())
            .collect::<Vec<_>>(),
        ["Ethernet4"]
    );
    assert_eq!(
        (setup.speeds_mbps[&0], config.ports[0].link.speed_mbps),
        (10_000, 10_000)
    );
    assert!(config.ports[0].admin_up);
}

#[test]
fn configuration_sets_the_speed_if_the_lab_has_none() {
    let setup = parse_and_resolve("{PORT: {Ethernet4: {speed: 25000}}}", "").expect("good");
    assert_eq!(setup.speeds_mbps[&0], 25_000);
}

/// A link creates a port, but a misspelt name must not hide the settings of the port that is meant.
#[test]
fn a_link_with_a_misspelt_port_of_the_configuration_is_an_error() {
    for (config, named) in [
        ("{PORT: {Etherent4: {mtu: 9100}}}", "Etherent4"),
        ("{PORT: {ethernet4: {mtu: 9100}, Ethernet0: {}}}", "ethernet4"),
        (
            "[{preset: roce-lossless}, {PORT: {Ethernt4: {mtu: 9100}}}]",
            "Ethernt4",
        ),
        (
            "[{PORT: {Ethernet: {}}}, {PORT: {Ethernett4: {mtu: 9100}}}]",
            "Ethernett4",
        ),
    ] {
        for speed in ["", ", speed: 10g"] {
            let failure = parse_and_resolve(config, speed).expect_err(config);
            let text = failure.to_string();
            assert_eq!(failure.exit, xoff_telemetry::failure::Exit::Configuration);
            assert!(text.contains(&format!("did you mean {named}?")), "{text}");
            assert!(text.contains("x.xoff.yml:7"), "{text}");
        }
    }
    for config in [
        "{}",
        "{preset: roce-lossless}",
        "{PORT: {Ethernet0: {mtu: 9100}, Ethernet8: {}}}",
        "{PORT: {Ethernet4: {}, Ethernt4: {}}}",
        "[{PORT: {Ethernt4: {}}}, {PORT: {Ethernt4: null}}]",
    ] {
        parse_and_resolve(config, ", speed: 10g").unwrap_or_else(|failure| panic!("{config}: {failure}"));
    }
}

/// Computed routes have entries in `PORT` for all links, and the user has not written them.
#[test]
fn a_misspelt_port_is_found_with_computed_routes() {
    let resolve = |port: &str| {
        let text = format!(
            "name: x\ntopology:\n  fabric:\n    leaf-spine: {{leaves: 2, spines: 1, hosts: 1, speed: 10g}}\n  \
             nodes:\n    leaf2: {{config: {{PORT: {{{port}: {{mtu: 9000}}}}}}}}\n"
        );
        let plan = parse_lab(&text, "x.xoff.yml", Path::new(""), TimeMode::Virtual)
            .unwrap_or_else(|problems| panic!("{problems}"));
        resolve_all_switch_setups(&plan, 7, BUDGET)
    };
    resolve("Ethernet0").unwrap_or_else(|failure| panic!("{failure}"));
    let failure = resolve("Etherent0").expect_err("misspelt").to_string();
    assert!(
        failure.contains("did you mean Etherent0?") && failure.contains("leaf2"),
        "{failure}"
    );
}

/// YAML has three forms of null: `null`, `~` and an empty value. A null value deletes a field or table
/// that a lower layer has set.
#[test]
fn null_removes_fields_and_tables_of_lower_layers() {
    let base = "{PORT: {Ethernet4: {speed: 25000, mtu: 9100}}, VLAN: {Vlan10: {}}}";
    for (layer, mtu, vlan) in [
        ("{}", 9_100, true),
        ("{PORT: {Ethernet4: {mtu: null}}}", 1_500, true),
        ("{PORT: {Ethernet4: {mtu: ~}}, VLAN: {Vlan10: }}", 1_500, false),
        ("{PORT: , VLAN: null}", 1_500, false),
        (
            r#"{PORT: {Ethernet4: null}, VLAN: {Vlan11: null}, QUEUE: null}"#,
            1_500,
            true,
        ),
    ] {
        let setup = parse_and_resolve(&format!("[{base}, {layer}]"), "")
            .unwrap_or_else(|failure| panic!("{layer}: {failure}"));
        let config = &setup.loaded.resolved.config;
        assert_eq!(config.ports[0].mtu, mtu, "{layer}");
        assert_eq!(setup.loaded.db.keys("VLAN").next().is_some(), vlan, "{layer}");
    }
    let failure = parse_and_resolve("[{}, {VLANS: null}]", "").expect_err("no such table");
    assert!(failure.to_string().contains("did you mean VLAN?"), "{failure}");
}

#[test]
fn configuration_errors_name_the_value_and_the_line() {
    for (config, speed, parts) in [
        (
            "{PORT: {Ethernet4: {speed: 25000}}}",
            ", speed: 10g",
            ["25000", "x.xoff.yml:7"],
        ),
        ("{preset: roce-lossles}", "", ["roce-lossles", "x.xoff.yml:4"]),
        (
            "{PORT_QOS_MAP: {Ethernet4: {pfc_enable: 9}}}",
            "",
            ["pfc_enable", "9"],
        ),
    ] {
        let failure = parse_and_resolve(config, speed).expect_err(config);
        let text = failure.to_string();
        assert!(
            parts.iter().all(|part| text.contains(part)),
            "{parts:?} in {text}"
        );
        assert_eq!(
            failure.exit,
            xoff_telemetry::failure::Exit::Configuration,
            "{text}"
        );
    }
}

#[test]
fn lab_files_of_the_repository_are_valid() {
    for (file, enabled) in [("incast", 1 << 3), ("incast-nopfc", 0)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testbeds/{file}.xoff.yml"));
        let plan =
            super::super::load_lab(&path, TimeMode::RealTime).unwrap_or_else(|problems| panic!("{problems}"));
        let setup = resolve_switch_setup(&plan, 0, 1, BUDGET).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(
            setup.speeds_mbps.into_values().collect::<Vec<_>>(),
            [1000; 5],
            "{file}"
        );
        let ports = &setup.loaded.resolved.config.ports;
        assert!(ports.iter().all(|port| port.pfc.enabled == enabled), "{file}");
        assert_eq!(plan.workload.flows.len(), 8, "{file}");
    }
}
