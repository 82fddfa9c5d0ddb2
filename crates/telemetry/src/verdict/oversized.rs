//! Frames that a switch dropped because they are longer than an MTU.

use serde::{Deserialize, Serialize};
use xoff_dataplane::DropReason;
use xoff_dataplane::ids::TRAFFIC_CLASSES;

use crate::{SwitchReport, count_noun};

/// The drop reasons of frames that exceed the MTU of a port or of a router interface.
const MTU_REASONS: [DropReason; 3] = [
    DropReason::ExceedsL2Mtu,
    DropReason::ExceedsL3Mtu,
    DropReason::Oversized,
];

/// The frames of one traffic class that a port dropped because they exceed an MTU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OversizedDrops {
    /// Name of the switch.
    pub switch: String,
    /// Name of the port that counted the drops.
    pub port: String,
    /// Name of the drop reason, such as `EXCEEDS_L2_MTU`.
    pub reason: String,
    /// Traffic class of the frames.
    pub class: u8,
    /// Number of dropped frames.
    pub frames: u64,
    /// The owner of the class: a lossless class, a job or an expectation. The drops of such a class fail the
    /// run. `None` (null) for other classes.
    pub protected: Option<String>,
}

/// The traffic classes whose frames must arrive, with the reason. Drops of these classes at an MTU fail a run.
#[derive(Clone, Debug, Default)]
pub struct ProtectedClasses {
    entries: Vec<ProtectedClass>,
}

#[derive(Clone, Debug)]
struct ProtectedClass {
    /// `None` means all switches, or all ports of the switch.
    switch: Option<String>,
    port: Option<String>,
    class: u8,
    owner: String,
}

impl ProtectedClasses {
    /// Protects a class at one port of a switch. `owner` names the traffic, such as `job train`.
    pub fn protect(&mut self, switch: &str, port: &str, class: u8, owner: &str) {
        self.entries.push(ProtectedClass {
            switch: Some(switch.to_owned()),
            port: Some(port.to_owned()),
            class,
            owner: owner.to_owned(),
        });
    }

    /// Protects all classes at all ports.
    pub fn protect_everything(&mut self, owner: &str) {
        self.entries
            .extend((0..TRAFFIC_CLASSES as u8).map(|class| ProtectedClass {
                switch: None,
                port: None,
                class,
                owner: owner.to_owned(),
            }));
    }

    fn owner(&self, switch: &str, port: &str, class: u8) -> Option<&str> {
        let matches =
            |wanted: &Option<String>, actual: &str| wanted.as_deref().is_none_or(|name| name == actual);
        let mut entries = self.entries.iter();
        let found = entries.find(|entry| {
            entry.class == class && matches(&entry.switch, switch) && matches(&entry.port, port)
        });
        found.map(|entry| entry.owner.as_str())
    }
}

/// Returns the drops at an MTU of all switches. A class is protected if it is lossless at a port of the switch
/// ([`PortReport::lossless_classes`](crate::PortReport::lossless_classes)) or listed in `protected`.
pub fn oversized_drops(switches: &[SwitchReport], protected: &ProtectedClasses) -> Vec<OversizedDrops> {
    let mut found = Vec::new();
    for switch in switches {
        for port in &switch.ports {
            for reason in MTU_REASONS.map(DropReason::name) {
                let Some(classes) = port.drops_by_class.get(reason) else {
                    continue;
                };
                let classes = (0_u8..).zip(classes).filter(|(_, frames)| **frames > 0);
                found.extend(classes.map(|(class, frames)| OversizedDrops {
                    switch: switch.name.clone(),
                    port: port.name.clone(),
                    reason: reason.to_owned(),
                    class,
                    frames: *frames,
                    protected: owner_of_class(switch, &port.name, class, protected),
                }));
            }
        }
    }
    found
}

fn owner_of_class(
    switch: &SwitchReport,
    port: &str,
    class: u8,
    protected: &ProtectedClasses,
) -> Option<String> {
    let is_lossless = |port: &crate::PortReport| port.lossless_classes[usize::from(class)];
    let named = protected.owner(&switch.name, port, class).map(str::to_owned);
    // An egress port counts frames of the class of their ingress port, so all ports are checked.
    named.or_else(|| {
        switch
            .ports
            .iter()
            .any(is_lossless)
            .then(|| format!("the lossless class {class}"))
    })
}

impl OversizedDrops {
    /// Describes the drops in a sentence without a full stop.
    pub fn describe(&self) -> String {
        let frames = count_noun(self.frames, "frame");
        let owner = match &self.protected {
            Some(owner) => owner.clone(),
            None => format!("class {}", self.class),
        };
        format!(
            "{} {} dropped {frames} of {owner} longer than the MTU ({})",
            self.switch, self.port, self.reason
        )
    }

    /// Describes drops that fail the run. Returns `None` if the run may lose these frames.
    pub fn failure(&self) -> Option<String> {
        self.protected.is_some().then(|| {
            format!(
                "{}; raise PORT.mtu of the ports on the path, or send shorter frames",
                self.describe()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortReport;

    /// A switch that dropped 5 frames of class 3 at Ethernet0. Class 3 is lossless at Ethernet4 if
    /// `is_lossless`.
    fn switch(reason: &str, is_lossless: bool) -> Vec<SwitchReport> {
        let mut port = PortReport {
            name: "Ethernet0".to_owned(),
            ..PortReport::default()
        };
        let mut classes = [0; TRAFFIC_CLASSES];
        classes[3] = 5;
        port.drops_by_class.insert(reason.to_owned(), classes);
        let mut other = PortReport {
            name: "Ethernet4".to_owned(),
            ..PortReport::default()
        };
        other.lossless_classes[3] = is_lossless;
        vec![SwitchReport {
            name: "sw1".to_owned(),
            ports: vec![port, other],
            ..SwitchReport::default()
        }]
    }

    #[test]
    fn drops_of_a_lossless_class_fail_and_others_are_named() {
        for reason in MTU_REASONS.map(DropReason::name) {
            let none = ProtectedClasses::default();
            let lossy = oversized_drops(&switch(reason, false), &none);
            assert_eq!(lossy.len(), 1);
            assert_eq!(lossy[0].failure(), None);
            assert!(
                lossy[0]
                    .describe()
                    .contains("sw1 Ethernet0 dropped 5 frames of class 3"),
                "{}",
                lossy[0].describe()
            );
            let lossless = oversized_drops(&switch(reason, true), &none);
            let failure = lossless[0].failure().expect("a failure");
            assert!(failure.contains("5 frames of the lossless class 3"), "{failure}");
        }
        assert!(
            oversized_drops(&switch("L2_LOOPBACK_FILTER", true), &ProtectedClasses::default()).is_empty()
        );
    }

    #[test]
    fn drops_of_a_job_or_an_expectation_fail() {
        let switches = switch("EXCEEDS_L2_MTU", false);
        let mut protected = ProtectedClasses::default();
        protected.protect("sw1", "Ethernet4", 3, "job a");
        protected.protect("sw1", "Ethernet0", 2, "job a");
        assert_eq!(oversized_drops(&switches, &protected)[0].failure(), None);
        protected.protect("sw1", "Ethernet0", 3, "job a");
        let failure = oversized_drops(&switches, &protected)[0].failure();
        assert!(failure.is_some_and(|text| text.contains("of job a")));
        let mut everything = ProtectedClasses::default();
        everything.protect_everything("the expectation frames>=1");
        let failure = oversized_drops(&switches, &everything)[0].failure();
        assert!(failure.is_some_and(|text| text.contains("the expectation frames>=1")));
    }
}
