//! Names of generated profiles, as in SONiC.

use std::collections::{BTreeMap, BTreeSet};

use super::LosslessProfileSpec;

/// Default MTU in bytes. Names do not contain this MTU.
const MTU_DEFAULT: u32 = 9_100;

/// Returns a name for each profile. Names for ports with eight lanes contain `_8lane` in two cases: SONiC
/// adds the suffix on this chip, or an otherwise equal profile exists for ports with fewer lanes.
pub(super) fn assign_names<'a>(
    asic: &str,
    threshold: i64,
    profile: impl Iterator<Item = &'a LosslessProfileSpec>,
) -> BTreeMap<LosslessProfileSpec, String> {
    let all: BTreeSet<&LosslessProfileSpec> = profile.collect();
    let name = |one: &LosslessProfileSpec| {
        let narrow = LosslessProfileSpec {
            eight_lanes: false,
            ..one.clone()
        };
        let shared = all.contains(&narrow);
        let marked = one.eight_lanes && (shared || has_lane_suffix(asic, one.speed_mbps));
        let lanes = if marked { "_8lane" } else { "" };
        format!("{}{lanes}_profile", name_stem(one, threshold))
    };
    all.iter().map(|one| ((*one).clone(), name(one))).collect()
}

/// Returns the first part of a profile name: the speed and the cable length. If the MTU or the threshold is
/// not the default, the name also contains this value.
fn name_stem(profile: &LosslessProfileSpec, threshold: i64) -> String {
    let mut stem = format!("pg_lossless_{}_{}", profile.speed_mbps, profile.cable);
    if profile.mtu_bytes != MTU_DEFAULT {
        stem.push_str(&format!("_mtu{}", profile.mtu_bytes));
    }
    if profile.threshold != threshold {
        stem.push_str(&format!("_th{}", profile.threshold));
    }
    stem
}

/// Returns whether SONiC adds `_8lane` to the profile name of a port with eight lanes. At the highest speed
/// of a chip, SONiC adds no suffix, because every port with this speed has eight lanes anyway.
fn has_lane_suffix(asic: &str, speed_mbps: u32) -> bool {
    match asic {
        "spectrum3" => speed_mbps != 400_000,
        "spectrum4" | "spectrum5" => speed_mbps != 800_000,
        _ => false,
    }
}
