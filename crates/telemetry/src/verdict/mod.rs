//! The verdict of a run and its exit code.
//!
//! All commands decide their verdict here, from the same facts: the taints and failures of the run, the frames
//! that the run offered and received ([`Traffic`]), the expectations of the user ([`Expectation`]), and the
//! frames that exceeded an MTU ([`OversizedDrops`]). A run that offered or awaited traffic and saw none proves
//! nothing, so it is never clean.

mod expectation;
mod lossless;
mod oversized;

use serde::{Deserialize, Serialize};

use crate::failure::Exit;
use crate::{PortReport, SwitchReport, count_noun};

pub use expectation::{Expectation, ExpectationError, ExpectationResult};
pub use lossless::lossless_drops;
pub use oversized::{OversizedDrops, ProtectedClasses, oversized_drops};

/// The verdict of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing outside the model can have changed the results. If the run offered or awaited traffic, there
    /// was traffic.
    #[default]
    Clean,
    /// The run has at least one failure, and nothing outside the model can have caused it.
    Failed,
    /// The run has at least one [`Taint`](crate::Taint), so its results prove nothing, even if it has failures.
    Tainted,
    /// The run offered or awaited traffic, and there was none. Its results prove nothing.
    NoTraffic,
}

/// The frames that a run offered and received.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Traffic {
    /// Frames that the run offered. `None` (null) if the command has no source of traffic.
    pub offered_frames: Option<u64>,
    /// Frames that arrived at the receivers of the run. `None` (null) if the command awaits no frames.
    pub arrived_frames: Option<u64>,
    /// Reasons for missing traffic, such as the number of excluded frames of a capture. May be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Traffic {
    /// Describes the missing traffic. Returns `None` if the run saw all kinds of traffic that it needs.
    pub fn describe_missing(&self) -> Option<String> {
        let what = match (self.offered_frames, self.arrived_frames) {
            (Some(0), _) => "no frame was offered".to_owned(),
            (Some(offered), Some(0)) => {
                format!("none of {} arrived", count_noun(offered, "offered frame"))
            }
            (None, Some(0)) => "no frame arrived".to_owned(),
            _ => return None,
        };
        let notes: String = self.notes.iter().map(|note| format!("; {note}")).collect();
        Some(format!("no traffic: {what}{notes}"))
    }

    /// Decides the verdict of a run with this traffic. A tainted run proves nothing, even if it has failures.
    /// Without taints, failures count more than missing traffic, because an expected frame that did not arrive is
    /// a result.
    pub fn verdict(&self, is_tainted: bool, has_failures: bool) -> Verdict {
        match () {
            () if is_tainted => Verdict::Tainted,
            () if has_failures => Verdict::Failed,
            () if self.describe_missing().is_some() => Verdict::NoTraffic,
            () => Verdict::Clean,
        }
    }
}

impl Verdict {
    /// Returns the exit code of a command whose run has this verdict.
    pub fn exit(self) -> Exit {
        match self {
            Verdict::Clean => Exit::Ok,
            Verdict::Failed => Exit::CheckFailed,
            Verdict::Tainted | Verdict::NoTraffic => Exit::Inconclusive,
        }
    }
}

/// Describes the traffic of a run without sources and receivers, such as a run of a switch alone: `no traffic`
/// if the switches received nothing but broadcast and multicast frames. Returns `None` if a switch received
/// unicast frames.
pub fn describe_idle_switches(switches: &[SwitchReport]) -> Option<String> {
    let sum = |count: fn(&PortReport) -> u64| -> u64 {
        let ports = switches.iter().flat_map(|switch| &switch.ports);
        ports.map(count).sum()
    };
    let group = sum(|port| port.rx_non_unicast_packets);
    let backend_drops = sum(PortReport::backend_dropped);
    if sum(|port| port.rx_packets) > group || backend_drops > 0 {
        return None;
    }
    Some(match group {
        0 => "no traffic".to_owned(),
        _ => format!(
            "no traffic but {}",
            count_noun(group, "broadcast or multicast frame")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(offered_frames: Option<u64>, arrived_frames: Option<u64>) -> Traffic {
        Traffic {
            offered_frames,
            arrived_frames,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_run_that_needs_traffic_and_saw_none_is_inconclusive() {
        for (offered, arrived, text) in [
            (Some(0), None, "no traffic: no frame was offered"),
            (None, Some(0), "no traffic: no frame arrived"),
            (
                Some(1_000),
                Some(0),
                "no traffic: none of 1,000 offered frames arrived",
            ),
            (Some(0), Some(0), "no traffic: no frame was offered"),
            (Some(0), Some(7), "no traffic: no frame was offered"),
        ] {
            let traffic = traffic(offered, arrived);
            assert_eq!(traffic.describe_missing().as_deref(), Some(text));
            let verdict = traffic.verdict(false, false);
            assert_eq!(verdict, Verdict::NoTraffic);
            assert_eq!(verdict.exit(), Exit::Inconclusive);
            assert_eq!(
                traffic.verdict(false, true),
                Verdict::Failed,
                "an expectation failed"
            );
            assert_eq!(traffic.verdict(true, false), Verdict::Tainted);
        }
    }

    #[test]
    fn a_run_with_traffic_or_without_need_of_traffic_is_clean() {
        for traffic in [
            traffic(None, None),
            traffic(Some(1), Some(1)),
            traffic(Some(5), None),
        ] {
            assert_eq!(traffic.verdict(false, false), Verdict::Clean);
        }
    }

    #[test]
    fn the_verdict_of_failures_and_taints_has_their_exit_code() {
        for (is_tainted, has_failures, verdict, exit) in [
            (false, false, Verdict::Clean, Exit::Ok),
            (false, true, Verdict::Failed, Exit::CheckFailed),
            (true, false, Verdict::Tainted, Exit::Inconclusive),
            (true, true, Verdict::Tainted, Exit::Inconclusive),
        ] {
            let decided = traffic(Some(5), Some(5)).verdict(is_tainted, has_failures);
            assert_eq!((decided, decided.exit()), (verdict, exit));
        }
    }

    #[test]
    fn notes_explain_the_missing_traffic() {
        let traffic = Traffic {
            notes: vec!["3 frames left by their interface".to_owned()],
            ..traffic(Some(0), None)
        };
        assert_eq!(
            traffic.describe_missing().as_deref(),
            Some("no traffic: no frame was offered; 3 frames left by their interface")
        );
    }

    #[test]
    fn only_unicast_frames_and_drops_of_the_backend_are_traffic_of_an_idle_switch() {
        let switch = |rx_packets, rx_non_unicast_packets| {
            let port = PortReport {
                rx_packets,
                rx_non_unicast_packets,
                ..PortReport::default()
            };
            [SwitchReport {
                ports: vec![port],
                ..SwitchReport::default()
            }]
        };
        assert_eq!(
            describe_idle_switches(&switch(0, 0)).as_deref(),
            Some("no traffic")
        );
        assert_eq!(
            describe_idle_switches(&switch(4, 4)).as_deref(),
            Some("no traffic but 4 broadcast or multicast frames")
        );
        assert_eq!(describe_idle_switches(&switch(5, 4)), None);
        let mut dropping = switch(0, 0);
        dropping[0].ports[0].drops.insert("XOFF_OVERSIZED".to_owned(), 1);
        assert_eq!(describe_idle_switches(&dropping), None);
    }

    #[test]
    fn json_names_of_verdicts_are_stable() {
        let verdicts = [
            Verdict::Clean,
            Verdict::Failed,
            Verdict::Tainted,
            Verdict::NoTraffic,
        ];
        let names = verdicts.map(|verdict| serde_json::to_value(verdict).expect("a string"));
        assert_eq!(names, ["clean", "failed", "tainted", "no-traffic"]);
    }
}
