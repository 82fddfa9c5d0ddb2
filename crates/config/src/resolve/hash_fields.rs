//! The header fields that hashes use (`SWITCH_HASH`).

use super::context::ResolveContext;
use crate::schema;

pub(super) const HASH_TABLE: &str = "SWITCH_HASH";

/// Returns whether the hash of RoCEv2 flows includes the destination queue pair. `lists` is `ecmp_hash` for
/// routes or `lag_hash` for LAGs.
pub(super) fn hashes_queue_pairs(context: &ResolveContext<'_>, lists: &str) -> bool {
    ["", "_ipv4_rdma", "_ipv6_rdma"].iter().any(|of| {
        let list = context.db.get(HASH_TABLE, "GLOBAL", &format!("{lists}{of}"));
        list.is_some_and(|list| schema::split_list(&list).any(|field| field == schema::DEST_QP))
    })
}
