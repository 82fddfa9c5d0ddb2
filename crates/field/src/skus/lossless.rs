//! Finds the lossless ports of a configuration with their speed, cable, traffic class and
//! source of headroom.

use std::collections::BTreeMap;

use serde_json::Value;

/// Pool of the profiles that SONiC's `buffermgrd` creates.
const LOSSLESS_POOL: &str = "ingress_lossless_pool";

/// The lossless ports of a configuration with equal speed, cable length, DSCP and source of the headroom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LosslessPorts {
    pub(super) speed_mbps: u64,
    /// Cable length as in `CABLE_LENGTH`, such as `5m`.
    pub(super) cable: String,
    /// PFC priority. The hosts of the incast send with this priority.
    pub(super) priority: u8,
    /// Lowest DSCP that the switch maps to the priority group of the PFC priority. `None` if there is no
    /// such DSCP.
    pub(super) dscp: Option<u8>,
    pub(super) headroom: HeadroomSource,
    /// Port names in the order of the configuration.
    pub(super) ports: Vec<String>,
}

/// The source of the headroom of a lossless priority group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HeadroomSource {
    /// Row of the lookup file for the speed and the cable.
    Row(ProfileSizes),
    /// Profile that the configuration binds to the priority group.
    Profile(ProfileSizes),
    /// The dynamic buffer model computes the headroom.
    Computed,
    /// The lookup file has no row for the speed and the cable, or there is no lookup file.
    NoRow,
    /// The configuration has no `ingress_lossless_pool`, which SONiC's lossless profiles use.
    NoPool,
    /// The cable is `0m`, or `CABLE_LENGTH` lacks the port.
    NoCable,
}

/// The sizes of a lossless profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProfileSizes {
    /// Headroom, in bytes.
    pub(super) xoff_bytes: u64,
    /// `dynamic_th` or `static_th`, depending on the mode of the pool.
    pub(super) threshold: i64,
    pub(super) pool: String,
}

/// Rows of a lookup file. The key is the speed in Mb/s and the cable length as written in the file. The value
/// is the headroom in bytes and the threshold.
pub(super) type LookupRows = BTreeMap<(u64, String), (u64, i64)>;

/// Reads the rows of a `pg_profile_lookup.ini`. If two rows have the same key, the later row is used. Invalid
/// rows are skipped.
///
/// This code does not use xoff's own reader for this file, so that the expected results do not depend on the
/// program under test.
pub(super) fn parse_lookup_rows(text: &str) -> LookupRows {
    let mut rows = LookupRows::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let [speed, cable, _size, _xon, xoff, threshold, ..] = columns[..] else {
            continue;
        };
        if let (Ok(speed), Ok(xoff), Ok(threshold)) = (speed.parse(), xoff.parse(), threshold.parse()) {
            rows.insert((speed, cable.to_owned()), (xoff, threshold));
        }
    }
    rows
}

/// Returns the length of a cable such as `5m` in metres, or `None` if the text does not have this form.
pub(super) fn cable_metres(cable: &str) -> Option<u64> {
    cable.strip_suffix('m')?.parse().ok()
}

/// Returns the groups of lossless ports of a configuration, fastest first. `rows` are the rows of the lookup
/// file of the configuration, or `None` if there is no such file.
pub(super) fn lossless_ports(config: &Value, rows: Option<&LookupRows>) -> Vec<LosslessPorts> {
    let reader = LosslessPortReader { config, rows };
    let mut groups: Vec<LosslessPorts> = Vec::new();
    let ports = config["PORT"].as_object();
    for (port, fields) in ports.into_iter().flatten() {
        let Some(found) = reader.lossless_port(port, fields) else {
            continue;
        };
        let same = |group: &&mut LosslessPorts| {
            group.speed_mbps == found.speed_mbps
                && group.cable == found.cable
                && group.headroom == found.headroom
                && group.dscp == found.dscp
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.ports.push(port.clone()),
            None => groups.push(found),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.speed_mbps));
    groups
}

struct LosslessPortReader<'a> {
    config: &'a Value,
    rows: Option<&'a LookupRows>,
}

impl LosslessPortReader<'_> {
    fn lossless_port(&self, port: &str, fields: &Value) -> Option<LosslessPorts> {
        // Some ports have no cable: recirculation and inband ports of a chassis, and ports to DPUs.
        if matches!(fields["role"].as_str(), Some("Inb" | "Rec" | "Dpc")) {
            return None;
        }
        let speed_mbps = parse_number(&fields["speed"])?;
        let enabled = non_empty_text(&self.config["PORT_QOS_MAP"][port]["pfc_enable"])?;
        let priorities: Vec<u8> = enabled
            .split(',')
            .filter_map(|priority| priority.trim().parse().ok())
            .collect();
        let with_dscp = priorities
            .iter()
            .find_map(|&priority| Some((priority, Some(self.find_dscp(port, priority)?))));
        let (priority, dscp) = with_dscp.or_else(|| Some((*priorities.first()?, None)))?;
        let cable = self.find_cable(port);
        let headroom = match cable.and_then(cable_metres) {
            None | Some(0) => HeadroomSource::NoCable,
            Some(_) => self.find_headroom(port, priority, speed_mbps, cable.unwrap_or_default()),
        };
        Some(LosslessPorts {
            speed_mbps,
            cable: cable.unwrap_or("none").to_owned(),
            priority,
            dscp,
            headroom,
            ports: vec![port.to_owned()],
        })
    }

    fn find_cable(&self, port: &str) -> Option<&str> {
        let lists = self.config["CABLE_LENGTH"].as_object()?;
        lists.values().find_map(|list| list[port].as_str())
    }

    /// Returns the lowest DSCP that maps to the priority group of a PFC priority.
    fn find_dscp(&self, port: &str, priority: u8) -> Option<u8> {
        let map = |table: &str, field: &str| {
            let qos = &self.config["PORT_QOS_MAP"];
            let name = non_empty_text(&qos[port][field]).or_else(|| non_empty_text(&qos["global"][field]))?;
            self.config[table].get(referenced_name(name))
        };
        let wanted = match map("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", "pfc_to_pg_map") {
            Some(groups) => parse_number(&groups[priority.to_string()])?,
            None => u64::from(priority),
        };
        let classes = map("DSCP_TO_TC_MAP", "dscp_to_tc_map")?;
        let groups = map("TC_TO_PRIORITY_GROUP_MAP", "tc_to_pg_map")?;
        (0..64).find(|dscp: &u8| {
            let class = parse_number(&classes[dscp.to_string()]);
            class.is_some_and(|class| parse_number(&groups[class.to_string()]) == Some(wanted))
        })
    }

    fn find_headroom(&self, port: &str, priority: u8, speed_mbps: u64, cable: &str) -> HeadroomSource {
        let row = self
            .rows
            .and_then(|rows| rows.get(&(speed_mbps, cable.to_owned())));
        let is_dynamic = self.config["DEVICE_METADATA"]["localhost"]["buffer_model"] == "dynamic";
        let bound = self.bound_profile(port, priority);
        if is_dynamic {
            let is_computed = |name: &str| {
                name == "NULL" || self.config["BUFFER_PROFILE"][name]["headroom_type"] == "dynamic"
            };
            return match bound {
                Some(name) if is_computed(name) => HeadroomSource::Computed,
                Some(name) => self.find_profile(name),
                None => HeadroomSource::NoRow,
            };
        }
        let is_replaced = row.is_some() && self.has_generated_key(port);
        match (bound, row) {
            (Some(name), _) if !is_replaced && self.config["BUFFER_PROFILE"].get(name).is_some() => {
                self.find_profile(name)
            }
            _ if self.rows.is_some() && self.config["BUFFER_POOL"].get(LOSSLESS_POOL).is_none() => {
                HeadroomSource::NoPool
            }
            (_, Some(&(xoff_bytes, threshold))) => HeadroomSource::Row(ProfileSizes {
                xoff_bytes,
                threshold,
                pool: LOSSLESS_POOL.to_owned(),
            }),
            (_, None) => HeadroomSource::NoRow,
        }
    }

    /// Returns whether `BUFFER_PG` has the key that SONiC's `buffermgrd` generates for priorities 3 and 4 of
    /// a port. In this case, `buffermgrd` replaces the profile of the key.
    fn has_generated_key(&self, port: &str) -> bool {
        let entries = self.config["BUFFER_PG"].as_object();
        let enabled = non_empty_text(&self.config["PORT_QOS_MAP"][port]["pfc_enable"]);
        let mut keys = entries
            .into_iter()
            .flatten()
            .filter_map(|(key, _)| key.rsplit_once('|'));
        enabled == Some("3,4")
            && keys.any(|(ports, groups)| groups == "3-4" && ports.split(',').any(|name| name == port))
    }

    fn find_profile(&self, name: &str) -> HeadroomSource {
        let fields = &self.config["BUFFER_PROFILE"][name];
        HeadroomSource::Profile(ProfileSizes {
            xoff_bytes: parse_number(&fields["xoff"]).unwrap_or(0),
            threshold: parse_signed(&fields["dynamic_th"])
                .or_else(|| parse_signed(&fields["static_th"]))
                .unwrap_or(0),
            pool: referenced_name(non_empty_text(&fields["pool"]).unwrap_or("")).to_owned(),
        })
    }

    /// Returns the name of the profile that `BUFFER_PG` binds to a priority group of a port. A key of
    /// `BUFFER_PG` may list several ports.
    fn bound_profile(&self, port: &str, group: u8) -> Option<&str> {
        let entries = self.config["BUFFER_PG"].as_object()?;
        entries.iter().find_map(|(key, fields)| {
            let (ports, groups) = key.rsplit_once('|')?;
            let (first, last) = groups.split_once('-').unwrap_or((groups, groups));
            let range = first.parse::<u8>().ok()?..=last.parse::<u8>().ok()?;
            let is_bound = range.contains(&group) && ports.split(',').any(|name| name == port);
            is_bound.then(|| non_empty_text(&fields["profile"]).map(referenced_name))?
        })
    }
}

/// Returns the name in a reference: `NAME`, or `[TABLE|NAME]` of older SONiC versions.
fn referenced_name(text: &str) -> &str {
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    inner.split_once('|').map_or(inner, |(_, name)| name)
}

fn non_empty_text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

pub(super) fn parse_number(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()))
}

fn parse_signed(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LOOKUP: &str = "# speed cable size xon xoff threshold xon_offset\n\
                          100000 5m 1248 2288 72080 -1 2288\n 25000\t5m 1248 2288 30000 0\n25000 5m 1248 2288 32656 0\nbroken\n";

    fn config(more: &Value) -> Value {
        let qos = json!({"pfc_enable": "3,4", "tc_to_pg_map": "M", "pfc_to_pg_map": "[PFC_PRIORITY_TO_PRIORITY_GROUP_MAP|M]"});
        let mut config = json!({
            "PORT": {
                "Ethernet0": {"speed": "25000"}, "Ethernet4": {"speed": "100000"}, "Ethernet8": {"speed": "100000"},
                "Ethernet12": {"speed": "400000"}, "Ethernet-Rec0": {"speed": "100000", "role": "Rec"}
            },
            "CABLE_LENGTH": {"AZURE": {"Ethernet0": "5m", "Ethernet4": "5m", "Ethernet8": "5m", "Ethernet12": "5m", "Ethernet-Rec0": "5m"}},
            "DSCP_TO_TC_MAP": {"D": {"8": "0", "26": "3", "24": "3", "33": "4"}},
            "TC_TO_PRIORITY_GROUP_MAP": {"M": {"0": "0", "3": "6", "4": "4"}},
            "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": {"M": {"3": "6", "4": "4"}},
            "BUFFER_POOL": {"ingress_lossless_pool": {}},
            "PORT_QOS_MAP": {"global": {"dscp_to_tc_map": "D"}, "Ethernet0": qos, "Ethernet4": qos, "Ethernet8": qos, "Ethernet12": qos, "Ethernet-Rec0": qos}
        });
        for (table, entries) in more.as_object().into_iter().flatten() {
            config[table] = entries.clone();
        }
        config
    }

    fn sources(config: &Value) -> Vec<(u64, HeadroomSource)> {
        let found = lossless_ports(config, Some(&parse_lookup_rows(LOOKUP)));
        found
            .into_iter()
            .map(|group| (group.speed_mbps, group.headroom))
            .collect()
    }

    fn row(xoff_bytes: u64, threshold: i64) -> HeadroomSource {
        HeadroomSource::Row(ProfileSizes {
            xoff_bytes,
            threshold,
            pool: "ingress_lossless_pool".to_owned(),
        })
    }

    #[test]
    fn lossless_ports_are_grouped_by_speed_cable_and_row() {
        let found = lossless_ports(&config(&json!({})), Some(&parse_lookup_rows(LOOKUP)));
        let ports: Vec<&[String]> = found.iter().map(|group| group.ports.as_slice()).collect();
        assert_eq!(
            ports,
            [&["Ethernet12"][..], &["Ethernet4", "Ethernet8"], &["Ethernet0"]]
        );
        assert_eq!(found[1].dscp, Some(24), "the lowest DSCP whose class has group 6");
        assert_eq!(
            sources(&config(&json!({}))),
            [
                (400_000, HeadroomSource::NoRow),
                (100_000, row(72_080, -1)),
                (25_000, row(32_656, 0))
            ]
        );
    }

    #[test]
    fn bound_profiles_are_used_unless_their_key_is_generated() {
        let bound = json!({
            "BUFFER_PG": {"Ethernet0,Ethernet4|3": {"profile": "own"}, "Ethernet8|3-4": {"profile": "own"}, "Ethernet12|3-4": {"profile": "own"}},
            "BUFFER_PROFILE": {"own": {"xoff": "4000", "static_th": "5", "pool": "p"}}
        });
        let own = HeadroomSource::Profile(ProfileSizes {
            xoff_bytes: 4000,
            threshold: 5,
            pool: "p".to_owned(),
        });
        assert_eq!(
            sources(&config(&bound)),
            [
                (400_000, own.clone()),
                (100_000, own.clone()),
                (100_000, row(72_080, -1)),
                (25_000, own)
            ]
        );
        let mut dynamic = config(&json!({"BUFFER_PG": {"Ethernet0|3-4": {"profile": "NULL"}}}));
        dynamic["DEVICE_METADATA"] = json!({"localhost": {"buffer_model": "dynamic"}});
        assert_eq!(sources(&dynamic)[2], (25_000, HeadroomSource::Computed));
    }

    #[test]
    fn missing_lossless_pool_means_no_profile() {
        let found = sources(&config(&json!({"BUFFER_POOL": {}})));
        assert!(found.iter().all(|(_, source)| *source == HeadroomSource::NoPool));
    }

    #[test]
    fn port_without_cable_length_has_no_headroom() {
        let none =
            json!({"CABLE_LENGTH": {"AZURE": {"Ethernet4": "0m", "Ethernet8": "5m"}}, "DSCP_TO_TC_MAP": {}});
        let found = lossless_ports(&config(&none), Some(&parse_lookup_rows(LOOKUP)));
        let no_cable = found
            .iter()
            .filter(|group| group.headroom == HeadroomSource::NoCable);
        assert_eq!(no_cable.count(), 3);
        assert!(found.iter().all(|group| group.dscp.is_none()));
        assert_eq!(
            (cable_metres("300m"), cable_metres("5"), cable_metres("m")),
            (Some(300), None, None)
        );
    }
}
