//! Names of generated profiles.

use std::collections::{BTreeMap, BTreeSet};

use super::Wanted;

/// The MTU that names do not mention.
const MTU_DEFAULT: u32 = 9_100;

/// A name for each profile wanted. Ports of eight lanes get one of their own where the chip's names say so, and where
/// others of their speed are there too.
pub(super) fn names<'a>(
    asic: &str,
    threshold: i64,
    wanted: impl Iterator<Item = &'a Wanted>,
) -> BTreeMap<Wanted, String> {
    let all: BTreeSet<&Wanted> = wanted.collect();
    let name = |one: &Wanted| {
        let narrow = Wanted {
            eight_lanes: false,
            ..one.clone()
        };
        let shared = all.contains(&narrow);
        let marked = one.eight_lanes && (shared || is_marked(asic, one.speed_mbps));
        let lanes = if marked { "_8lane" } else { "" };
        format!("{}{lanes}_profile", stem(one, threshold))
    };
    all.iter().map(|one| ((*one).clone(), name(one))).collect()
}

fn stem(wanted: &Wanted, threshold: i64) -> String {
    let mut stem = format!("pg_lossless_{}_{}", wanted.speed_mbps, wanted.cable);
    if wanted.mtu_bytes != MTU_DEFAULT {
        stem.push_str(&format!("_mtu{}", wanted.mtu_bytes));
    }
    if wanted.threshold != threshold {
        stem.push_str(&format!("_th{}", wanted.threshold));
    }
    stem
}

/// SONiC marks eight lanes in the name, except at the speed that only they have.
fn is_marked(asic: &str, speed_mbps: u32) -> bool {
    match asic {
        "spectrum3" => speed_mbps != 400_000,
        "spectrum4" | "spectrum5" => speed_mbps != 800_000,
        _ => false,
    }
}
