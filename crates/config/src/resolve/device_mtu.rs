//! Default MTUs of ports: a port without `PORT.mtu` uses the MTU of its network device.

use std::collections::{BTreeMap, BTreeSet};

use xoff_dataplane::config::PortConfig;

use super::context::{LAG_TABLE, ResolveContext};
use super::{PortAttachment, ResolveOptions};
use crate::db::ConfigDb;
use crate::problem::Problem;

/// Largest MTU of a port, in bytes (`PORT.mtu`).
pub const PORT_MTU_MAX: u32 = 9_216;
/// Range of the MTU of a port, in bytes (`PORT.mtu`).
const PORT_MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=PORT_MTU_MAX;

/// The MTU of a network device when the switch starts, when the device appears, or after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMtu {
    /// The name of the network device.
    pub device: String,
    /// The MTU of the device in bytes. The value can be outside the range of `PORT.mtu`.
    pub mtu: u32,
    /// A written MTU of the port in bytes that is larger than [`DeviceMtu::mtu`], but is only a warning: the device had
    /// a larger MTU when the configuration was applied. `None`: each larger written MTU is an error.
    pub outlived_port_mtu: Option<u32>,
}

impl DeviceMtu {
    /// Creates the MTU of a device. A larger written MTU of the port is an error.
    pub fn new(device: String, mtu: u32) -> DeviceMtu {
        DeviceMtu {
            device,
            mtu,
            outlived_port_mtu: None,
        }
    }
}

/// Defaults of ports that come from their network devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceDefaults {
    /// The MTU of the device of each port, by the name of the port. A port without `PORT.mtu` uses this MTU,
    /// limited to 68 to 9216 bytes. A written MTU above the MTU of the device is an error. A port that is
    /// missing in the map has the default 1500.
    pub mtu_by_port: BTreeMap<String, DeviceMtu>,
    /// The ports whose devices do not exist yet. Such a port has the default 1500, and gets the MTU of its device
    /// when the device appears.
    pub missing: BTreeSet<String>,
}

impl DeviceDefaults {
    /// Returns the default MTU of a port in bytes. Returns `None` if the MTU of its device is unknown.
    pub fn default_mtu(&self, port: &str) -> Option<u32> {
        let mtu = self.mtu_by_port.get(port)?.mtu;
        Some(mtu.clamp(*PORT_MTU_RANGE.start(), *PORT_MTU_RANGE.end()))
    }

    /// Removes the MTU of the ports of a preset that have a device, so that these ports use the MTU of the
    /// device. The device can be missing. Returns a note with the MTUs. Returns `None` if no MTU of an existing
    /// device differs.
    pub fn replace_mtus_of_preset(&self, preset: &mut ConfigDb) -> Option<String> {
        for port in &self.missing {
            preset.remove_field("PORT", port, "mtu");
        }
        let mut changed: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        let mut preset_mtu = String::new();
        for (port, DeviceMtu { device, .. }) in &self.mtu_by_port {
            let (Some(written), Some(mtu)) = (preset.get("PORT", port, "mtu"), self.default_mtu(port)) else {
                continue;
            };
            if written != mtu.to_string() {
                changed.entry(mtu).or_default().push(format!("{port} ({device})"));
                preset_mtu = written;
            }
            preset.remove_field("PORT", port, "mtu");
        }
        let ports: Vec<String> = changed
            .into_iter()
            .map(|(mtu, ports)| format!("{mtu} at {}", ports.join(", ")))
            .collect();
        (!ports.is_empty()).then(|| {
            format!(
                "the ports of the preset use the MTU of their devices instead of {preset_mtu}: {}",
                ports.join("; ")
            )
        })
    }
}

/// Reports an error for each port with a written MTU above the MTU of its device. The device would refuse the
/// longest frames of the port.
pub(super) fn check_mtus(context: &mut ResolveContext<'_>, ports: &[PortConfig]) {
    let devices = &context.options.devices;
    for (port, device_mtu) in &devices.mtu_by_port {
        let DeviceMtu { device, mtu, .. } = device_mtu;
        let resolved = ports.iter().find(|candidate| candidate.name == *port);
        let Some(resolved) = resolved.filter(|resolved| resolved.mtu > *mtu) else {
            continue;
        };
        let port_mtu = resolved.mtu;
        let (table, key) = match (context.text("PORT", port, "mtu"), lag_of(context.db, port)) {
            (Some(_), _) => ("PORT", port.as_str()),
            (None, Some(lag)) => (LAG_TABLE, lag),
            // The MTU of the device is below the smallest MTU of a port. Opening the device reports this.
            (None, None) => continue,
        };
        if device_mtu.outlived_port_mtu == Some(port_mtu) {
            let text = describe_lost_frames(port, device_mtu, port_mtu);
            context.warn_entry(table, key, text);
            continue;
        }
        let why = format!("device '{device}' of {port} has MTU {mtu}, so longer frames would be lost");
        let start = match context.options.attachment {
            PortAttachment::RunningSwitch => "",
            _ => " before the switch starts",
        };
        let fix = format!(
            "run `ip link set dev {device} mtu {port_mtu}` (and on its far end){start}, or remove the field: the \
             port then uses the MTU of the device"
        );
        context.report_entry_contradiction(
            Problem::at_field(table, key, "mtu", why)
                .with_value(port_mtu.to_string())
                .with_fix(fix),
        );
    }
}

/// Describes a device whose MTU is smaller than that of its port, and how to correct this on a running switch.
pub fn describe_lost_frames(port: &str, device: &DeviceMtu, port_mtu: u32) -> String {
    let DeviceMtu { device, mtu, .. } = device;
    format!(
        "device '{device}' has MTU {mtu} now, and {port} has MTU {port_mtu}, so longer frames are lost; run `ip link set \
         dev {device} mtu {port_mtu}` (and on its far end), or remove `mtu` of the port: it then uses the MTU of the device"
    )
}

/// Adds `PORT.mtu` to `generated` for each port whose MTU comes from its device.
pub(super) fn add_default_mtus(
    db: &ConfigDb,
    options: &ResolveOptions,
    ports: &[PortConfig],
    generated: &mut ConfigDb,
) {
    for port in ports {
        let is_default = db.get("PORT", &port.name, "mtu").is_none();
        if is_default && options.devices.default_mtu(&port.name) == Some(port.mtu) {
            generated.insert("PORT", &port.name, "mtu", &port.mtu.to_string());
        }
    }
}

/// Returns the name of the LAG of a port, if the LAG has an MTU.
fn lag_of<'a>(db: &'a ConfigDb, port: &str) -> Option<&'a str> {
    let lags = db.entries("PORTCHANNEL_MEMBER").filter_map(|(key, _)| {
        let (lag, member) = key.split_once('|')?;
        (member == port).then_some(lag)
    });
    lags.into_iter()
        .find(|lag| db.get(LAG_TABLE, lag, "mtu").is_some())
}
