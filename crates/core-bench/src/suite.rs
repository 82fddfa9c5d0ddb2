//! The built-in workloads by name.

use std::ffi::OsString;

use xoff_measure::frame_cost::{FrameLoad, VirtualLabLoad, Workload};
use xoff_telemetry::failure::Failure;
use xoff_units::nearest_name;

use crate::balanced_load::{BalancedLoad, balancing_cases};
use crate::many_to_one_load::{ForwardingMode, ManyToOneLoad};
use crate::mesh_load::{FEATURE_VARIANTS, MeshForwarding, MeshLoad, MeshTraffic, SwitchFeatures};
use crate::stages::STAGE_WORKLOADS;

/// Rings over fat trees of different sizes: the name of the workload, and the number of ports of a switch. A frame-hop
/// has the same cost in all of them.
pub const RINGS: [(&str, u32); 3] = [("fabric-k6", 6), ("fabric-k12", 12), ("fabric-k24", 24)];

/// A built-in workload of core-bench.
#[derive(Clone, Debug)]
pub struct BuiltInWorkload {
    /// The workload with its name, its unit and the function that builds it.
    pub workload: Workload,
    /// Whether the workload belongs to the set `default`. Only workloads with a long set-up do not belong to
    /// this set.
    pub is_default: bool,
}

impl BuiltInWorkload {
    fn new(
        name: &str,
        summary: &str,
        build: impl Fn() -> Result<Box<dyn FrameLoad>, Failure> + Send + Sync + 'static,
    ) -> BuiltInWorkload {
        let arguments = ["run", "--workload", name].map(OsString::from).to_vec();
        BuiltInWorkload {
            workload: Workload::new(name, summary, arguments, build),
            is_default: true,
        }
    }
}

/// Returns all built-in workloads, in the order of the table of `core-bench list`.
pub fn built_in_workloads() -> Vec<BuiltInWorkload> {
    let mut all = mesh_workloads();
    for (name, summary, forwarding) in [
        ("many-to-one", "4 ports to 1, bridged", ForwardingMode::Bridged),
        (
            "many-to-one-1k",
            "as many-to-one, routed with 1000 routes",
            ForwardingMode::Routed { routes: 1_000 },
        ),
        (
            "many-to-one-100k",
            "as many-to-one, routed with 100 000 routes",
            ForwardingMode::Routed { routes: 100_000 },
        ),
    ] {
        let mut many_to_one = BuiltInWorkload::new(name, summary, move || {
            Ok(Box::new(ManyToOneLoad::new(forwarding)))
        });
        many_to_one.is_default = forwarding != ForwardingMode::Routed { routes: 100_000 };
        all.push(many_to_one);
    }
    all.extend(balancing_cases().into_iter().map(|case| {
        let name = format!("lb-{}", case.name.replace(", ", "-").replace(' ', "-"));
        let summary = format!("4 ports to 8 next hops, {} queue pairs", case.queue_pairs);
        let is_default = case.queue_pairs < 10_000;
        let build = move || -> Result<Box<dyn FrameLoad>, Failure> {
            Ok(Box::new(BalancedLoad::new(case.scheme.clone(), case.queue_pairs)))
        };
        BuiltInWorkload {
            is_default,
            ..BuiltInWorkload::new(&name, &summary, build)
        }
    }));
    all.extend(
        STAGE_WORKLOADS
            .map(|stage| BuiltInWorkload::new(stage.name, stage.summary, move || Ok((stage.build)()))),
    );
    let mut fabric = BuiltInWorkload::new(
        "fabric",
        "virtual time: 16 hosts, 4 leaf and 4 spine switches, per frame and link",
        || Ok(Box::new(VirtualLabLoad::permutation()?)),
    );
    fabric.workload.unit = "frame-hop";
    all.push(fabric);
    all.extend(RINGS.map(|(name, k)| {
        let summary = format!("virtual time: ring over a fat tree of k = {k}, per frame and link");
        let mut ring = BuiltInWorkload::new(name, &summary, move || Ok(Box::new(VirtualLabLoad::ring(k)?)));
        ring.workload.unit = "frame-hop";
        // A step of the largest ring has 15 000 frame-hops, and the steps are not equal.
        ring.workload.counted_frames = 2_000_000;
        // The largest fabric needs minutes.
        ring.is_default = k < 24;
        ring
    }));
    all
}

/// Returns the workloads for the complete packet path. The workloads differ in forwarding, frame length and
/// features of the switch.
fn mesh_workloads() -> Vec<BuiltInWorkload> {
    let traffic = |forwarding, frame_bytes| MeshTraffic {
        forwarding,
        ports: 8,
        flows: 64,
        frame_bytes,
    };
    let large = MeshTraffic {
        ports: 32,
        flows: 10_000,
        ..traffic(MeshForwarding::Ecmp, 1_082)
    };
    let mesh = |(name, summary, traffic)| mesh_workload(name, summary, traffic, SwitchFeatures::default());
    let mut all: Vec<BuiltInWorkload> = [
        (
            "bridged",
            "8 ports, 64 flows, bridged by MAC addresses",
            traffic(MeshForwarding::Bridged, 1_082),
        ),
        (
            "bridged-64",
            "as bridged, with frames of 64 bytes",
            traffic(MeshForwarding::Bridged, 64),
        ),
        (
            "bridged-4200",
            "as bridged, with frames of 4200 bytes",
            traffic(MeshForwarding::Bridged, 4_200),
        ),
        (
            "routed",
            "as bridged, routed with one route for each link",
            traffic(MeshForwarding::Routed, 1_082),
        ),
        (
            "ecmp",
            "as routed, over 4 equal-cost next hops; defines the time budget of a frame",
            traffic(MeshForwarding::Ecmp, 1_082),
        ),
        (
            "ecmp-64",
            "as ecmp, with frames of 64 bytes",
            traffic(MeshForwarding::Ecmp, 64),
        ),
        (
            "ecmp-4200",
            "as ecmp, with frames of 4200 bytes",
            traffic(MeshForwarding::Ecmp, 4_200),
        ),
        ("ecmp-large", "32 ports, 10 000 flows, 16 next hops", large),
    ]
    .map(mesh)
    .into();
    all.extend(FEATURE_VARIANTS.map(|(name, summary, features)| {
        let (name, summary) = (format!("ecmp-{name}"), format!("as ecmp, {summary}"));
        mesh_workload(&name, &summary, traffic(MeshForwarding::Ecmp, 1_082), features)
    }));
    all
}

fn mesh_workload(
    name: &str,
    summary: &str,
    traffic: MeshTraffic,
    features: SwitchFeatures,
) -> BuiltInWorkload {
    BuiltInWorkload::new(name, summary, move || {
        Ok(Box::new(MeshLoad::with_features(traffic, features)))
    })
}

/// Returns the workloads with these names, in the order of [`built_in_workloads`]. The name `default` selects
/// all workloads without a long set-up, and `all` selects all workloads.
///
/// # Errors
/// A name is unknown. The error suggests the most similar name.
pub fn select_workloads(names: &[String]) -> Result<Vec<Workload>, Failure> {
    let all = built_in_workloads();
    let is_known = |name: &str| {
        ["all", "default"].contains(&name) || all.iter().any(|known| known.workload.name == name)
    };
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let similar = nearest_name(unknown, all.iter().map(|known| known.workload.name.as_str()));
        let proposal = similar.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
        return Err(Failure::usage(format!("there is no workload \"{unknown}\""))
            .at(format!("--workload {unknown}"))
            .fix(format!("{proposal}`core-bench list` prints all workloads")));
    }
    let is_selected = |known: &BuiltInWorkload| {
        names.iter().any(|name| {
            name == "all" || *name == known.workload.name || (name == "default" && known.is_default)
        })
    };
    let selected = all.into_iter().filter(is_selected);
    Ok(selected.map(|known| known.workload).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workload_names_are_unique_words() {
        let all = built_in_workloads();
        for BuiltInWorkload { workload, .. } in &all {
            let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(workload.name.chars().all(is_allowed), "{}", workload.name);
            let same_name = all.iter().filter(|other| other.workload.name == workload.name);
            assert_eq!(same_name.count(), 1, "{}", workload.name);
        }
    }

    #[test]
    fn every_default_workload_sends_without_loss() {
        for workload in select_workloads(&["default".to_owned()]).unwrap() {
            let mut load = workload.build().unwrap();
            assert!(load.run(5_000) >= 5_000, "{}", workload.name);
            load.check()
                .unwrap_or_else(|why| panic!("{}: {why}", workload.name));
        }
    }

    #[test]
    fn an_unknown_workload_is_refused_with_a_similar_name() {
        let failure = select_workloads(&["ecmp-larg".to_owned()]).unwrap_err();
        assert_eq!(failure.exit as u8, 2);
        assert!(failure.to_string().contains("ecmp-large"), "{failure}");
    }
}
