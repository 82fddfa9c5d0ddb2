//! A load balancing scheme outside xoff: new flows go to the member that has sent the fewest bytes.

use std::collections::BTreeMap;
use std::path::Path;

use xoff_telemetry::failure::Failure;
use xoff_lab::{LabOptions, VirtualLab, load_lab};
use xoff_dataplane::balance::{MemberChoice, MoveReason, Packet, PathChoice, Paths, FlowPlacement, FlowTableUse, GroupKey};
use xoff_dataplane::config::{BalancingConfig, CustomScheme, SchemeConfig, SchemeKind};
use xoff_dataplane::{Picos, PortId};

/// Flows that are remembered; more are hashed.
const FLOWS_MAX: usize = 4_096;

/// The flows of one group, and what each member was sent.
#[derive(Debug, Default)]
struct LeastBytes {
    /// The member of each flow, by its hash; `None`: it was lost, and the flow is placed anew.
    flows: BTreeMap<u32, Option<u16>>,
    bytes: Vec<u64>,
    overflow_packets: u64,
}

impl LeastBytes {
    /// The member for a flow without one.
    fn least(&self, paths: &Paths<'_>) -> u16 {
        let sent = |member: &&u16| self.bytes[usize::from(**member)];
        *paths.usable().iter().min_by_key(sent).expect("there is one while packets come")
    }
}

impl PathChoice for LeastBytes {
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        self.bytes.resize(paths.members().len(), 0);
        let (member, placed) = match self.flows.get(&packet.hash) {
            Some(Some(member)) => (*member, None),
            None if self.flows.len() >= FLOWS_MAX => {
                self.overflow_packets += 1;
                (paths.member_by_hash(packet.hash), None)
            }
            known => {
                let reason = match known {
                    None => MoveReason::New,
                    Some(_) => MoveReason::LinkDown,
                };
                let member = self.least(paths);
                self.flows.insert(packet.hash, Some(member));
                (member, Some(FlowPlacement { reason, from: None }))
            }
        };
        self.bytes[usize::from(member)] += u64::from(packet.mac_len);
        MemberChoice { member, placed }
    }

    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>) {
        let now = |member: u16| {
            let member = renumbered.get(usize::from(member)).copied().flatten();
            member.filter(|member| paths.is_usable(*member))
        };
        for member in self.flows.values_mut() {
            *member = member.and_then(now);
        }
        // Old sums would send everything to a member that is new.
        self.bytes = vec![0; paths.members().len()];
    }

    fn flow_table_use(&self) -> Option<FlowTableUse> {
        Some(FlowTableUse {
            flows: self.flows.len() as u32,
            flows_max: FLOWS_MAX as u32,
            overflow_packets: self.overflow_packets,
        })
    }
}

/// What a switch is told to do with all its groups.
fn balancing() -> BalancingConfig {
    let scheme = CustomScheme::new(|| Box::new(LeastBytes::default()));
    BalancingConfig {
        schemes: vec![SchemeConfig::new("least-bytes", SchemeKind::Own(scheme))],
        default_scheme: Some(0),
        ..BalancingConfig::default()
    }
}

/// How a run went.
#[derive(Debug)]
struct Played {
    took: Picos,
    /// Of each leaf, frames sent by each uplink.
    uplinks: Vec<(String, Vec<u64>)>,
    /// Flows placed, all switches together.
    placed: u64,
}

/// Plays the lab; `balancing` is that of all switches.
fn play(balancing: Option<&BalancingConfig>) -> Result<Played, Failure> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("lab.xoff.yml");
    let plan = load_lab(&file)?;
    let mut lab = VirtualLab::new(plan, LabOptions::default())?;
    if let Some(balancing) = balancing {
        for (index, config) in lab.fabric_plan.switches.clone().into_iter().enumerate() {
            let config = xoff_dataplane::config::SwitchConfig {
                balancing: balancing.clone(),
                ..config
            };
            let fabric = &mut lab.simulation.fabric;
            fabric
                .configure_switch(index, config, &mut ())
                .map_err(|error| Failure::configuration(error.to_string()))?;
        }
    }
    lab.start(&mut ())?;
    lab.run(Picos::from_millis(100), true, &mut ());
    Ok(outcome(&lab))
}

fn outcome(lab: &VirtualLab) -> Played {
    let now = lab.simulation.fabric.now();
    let mut played = Played {
        took: lab.elapsed(),
        uplinks: Vec::new(),
        placed: 0,
    };
    for (index, config) in lab.fabric_plan.switches.iter().enumerate() {
        let switch = lab.simulation.fabric.switch(index);
        for group in switch.balanced_groups(now) {
            assert!(matches!(group.group, GroupKey::NextHops(_)));
            played.placed += group.moves.iter().sum::<u64>();
        }
        if config.name.starts_with("leaf") {
            // The template has the hosts' ports first.
            let uplinks = (4..config.ports.len() as u16).map(PortId);
            let frames = |port| {
                let queues = switch.port_counters(now, port).queues;
                queues.iter().map(|queue| queue.packets).sum()
            };
            played.uplinks.push((config.name.clone(), uplinks.map(frames).collect()));
        }
    }
    played
}

fn main() -> Result<(), Failure> {
    let own = balancing();
    for (name, balancing) in [("ecmp", None), ("least-bytes", Some(&own))] {
        let played = play(balancing)?;
        println!("{name}: all done after {} us", played.took.as_nanos() / 1_000);
        for (leaf, frames) in &played.uplinks {
            println!("  {leaf}: frames by uplink {frames:?}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_uplink_carries_a_flow_and_nothing_waits_for_another() {
        let ecmp = play(None).unwrap();
        let own = play(Some(&balancing())).unwrap();
        assert_eq!(ecmp.placed, 0);
        // Data one way and acknowledgements the other: two flows at each leaf for each of eight connections.
        assert_eq!(own.placed, 16);
        for (leaf, frames) in &own.uplinks {
            let (least, most) = (frames.iter().min(), frames.iter().max());
            assert!(least.unwrap() * 5 > most.unwrap() * 4, "{leaf}: {frames:?}");
        }
        assert!(own.took < ecmp.took, "{own:?} {ecmp:?}");
    }
}
