//! A load balancer of your own: new flows go to the uplink that has sent the fewest bytes.
//!
//!     cargo run --example load_balancer
//!
//! Eight hosts on two leaves send 1 MiB each to the other leaf, over four spines. With a hash, flows
//! collide on some uplinks.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its results"
)]

use std::collections::BTreeMap;
use std::path::Path;

use xoff_dataplane::balance::{FlowPlacement, MemberChoice, MoveReason, Packet, PathChoice, Paths};
use xoff_dataplane::config::{BalancingConfig, CustomScheme, SchemeConfig, SchemeKind, SwitchConfig};
use xoff_dataplane::{Picos, PortId};
use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};

const LAB: &str = "
name: load-balancer
topology:
  fabric:
    leaf-spine: {leaves: 2, spines: 4, hosts: 4, speed: 100g, uplink_speed: 100g, delay: 500ns, config: {preset: roce-lossless}}
workload:
  jobs:
    - {name: shuffle, kind: flows, flows: [
        {from: h1, to: h5, bytes: 1M}, {from: h2, to: h6, bytes: 1M}, {from: h3, to: h7, bytes: 1M}, {from: h4, to: h8, bytes: 1M},
        {from: h5, to: h1, bytes: 1M}, {from: h6, to: h2, bytes: 1M}, {from: h7, to: h3, bytes: 1M}, {from: h8, to: h4, bytes: 1M}]}
";

/// Flows in the table. Further flows use the hash.
const FLOWS_MAX: usize = 4_096;

/// The flows of one group of next hops, and the bytes that each member has sent.
#[derive(Debug, Default)]
struct LeastBytes {
    /// Member of each flow, by the hash of the flow. `None` means that the member is gone and the flow
    /// needs another one.
    flows: BTreeMap<u32, Option<u16>>,
    sent_bytes: Vec<u64>,
}

impl PathChoice for LeastBytes {
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        self.sent_bytes.resize(paths.members().len(), 0);
        let known = self.flows.get(&packet.hash).copied();
        let (member, placed) = match known {
            Some(Some(member)) => (member, None),
            None if self.flows.len() >= FLOWS_MAX => (paths.member_by_hash(packet.hash), None),
            _ => {
                let sent_bytes = |member: &&u16| self.sent_bytes[usize::from(**member)];
                let least = paths.usable().iter().min_by_key(sent_bytes);
                let member = *least.expect("a group that forwards has a usable member");
                self.flows.insert(packet.hash, Some(member));
                let reason = match known {
                    None => MoveReason::New,
                    Some(_) => MoveReason::LinkDown,
                };
                (member, Some(FlowPlacement { reason, from: None }))
            }
        };
        self.sent_bytes[usize::from(member)] += u64::from(packet.mac_len);
        MemberChoice { member, placed }
    }

    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>) {
        for member in self.flows.values_mut() {
            let new_number = member.and_then(|old| renumbered.get(usize::from(old)).copied().flatten());
            *member = new_number.filter(|new| paths.is_usable(*new));
        }
        // With the old sums, a new member would receive all flows.
        self.sent_bytes = vec![0; paths.members().len()];
    }
}

/// Runs the lab and returns its duration and the frames that each uplink of the first leaf has sent.
fn run(balancing: Option<&BalancingConfig>) -> Result<(Picos, Vec<u64>), Box<dyn std::error::Error>> {
    let plan = parse_lab(LAB, "load-balancer.xoff.yml", Path::new(""), TimeMode::Virtual)?;
    let mut lab = VirtualLab::new(plan, LabOptions::default())?;
    if let Some(balancing) = balancing {
        for (index, config) in lab.fabric_plan.switches.iter().enumerate() {
            let config = SwitchConfig {
                balancing: balancing.clone(),
                ..SwitchConfig::clone(config)
            };
            lab.simulation
                .fabric
                .configure_switch(index, config.into(), &mut ())?;
        }
    }
    lab.start(&mut ())?;
    lab.run(Picos::from_millis(100), true, &mut ());

    let fabric = &lab.simulation.fabric;
    let leaf = lab
        .fabric_plan
        .switches
        .iter()
        .position(|config| config.name.starts_with("leaf"));
    let leaf = leaf.expect("the template has leaves");
    // The first four ports of a leaf connect hosts, the others are uplinks.
    let uplinks = 4..lab.fabric_plan.switches[leaf].ports.len() as u16;
    let sent_frames = uplinks.map(|port| {
        let counters = fabric.switch(leaf).port_counters(fabric.now(), PortId(port));
        counters.queues.iter().map(|queue| queue.packets).sum()
    });
    Ok((lab.elapsed(), sent_frames.collect()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scheme = CustomScheme::new(|| Box::new(LeastBytes::default()));
    let balancing = BalancingConfig {
        schemes: vec![SchemeConfig::new("least-bytes", SchemeKind::Custom(scheme))],
        default_scheme: Some(0),
        ..BalancingConfig::default()
    };
    let (hash_time, hash_frames) = run(None)?;
    let (own_time, own_frames) = run(Some(&balancing))?;
    println!(
        "hash:        {:>4} us, frames by uplink {hash_frames:?}",
        hash_time.as_nanos() / 1_000
    );
    println!(
        "least bytes: {:>4} us, frames by uplink {own_frames:?}",
        own_time.as_nanos() / 1_000
    );
    assert!(own_time < hash_time, "every flow has an uplink of its own");
    let (least, most) = (own_frames.iter().min(), own_frames.iter().max());
    assert!(
        least.zip(most).is_some_and(|(least, most)| least * 5 > most * 4),
        "{own_frames:?}"
    );
    Ok(())
}
