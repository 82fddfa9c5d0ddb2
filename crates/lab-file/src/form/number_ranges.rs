//! The ranges of whole numbers in lab files, for messages about numbers that their types cannot hold.
//!
//! The resolver of the crate `xoff-lab` checks the ranges of all other numbers, and has a test that both report the
//! same range.

/// The range of a field: the type of its mapping (`""`: any), its key, the least and the largest number, and the unit
/// (`""`: none).
type NumberRange = (&'static str, &'static str, i64, i64, &'static str);

/// The ranges of the fields with whole numbers.
const NUMBER_RANGES: &[NumberRange] = &[
    ("TransportFields", "mtu", 64, 8_192, "bytes"),
    ("", "ack_class", 0, 7, ""),
    ("", "ack_dscp", 0, 63, ""),
    ("", "ack_every", 1, 65_536, "packets"),
    ("", "buffer_bytes", 1, 4_294_967_295, "bytes"),
    ("", "class", 0, 7, ""),
    ("", "classes", 0, 7, ""),
    ("", "cnp_class", 0, 7, ""),
    ("", "cnp_dscp", 0, 63, ""),
    ("JobFlowFields", "count", 1, 1 << 24, "messages"),
    ("", "cpus", 1, 255, "CPUs"),
    ("", "dscp", 0, 63, ""),
    ("", "entropy", 1, 16_384, "ports"),
    ("", "ets_capability", 1, 8, "traffic classes"),
    ("", "flows_max", 1, 1 << 24, "flows"),
    ("", "gpus", 1, 65_536, "GPUs"),
    ("", "gpus_per_node", 1, 65_536, "GPUs"),
    ("", "header_bytes", 0, 65_536, "bytes"),
    ("", "hosts", 1, 65_536, "hosts"),
    ("", "iterations", 1, 1 << 20, "iterations"),
    ("", "k", 1, 65_536, "ports"),
    ("", "leaves", 1, 65_536, "switches"),
    ("", "left", 1, 65_536, "hosts"),
    ("", "mtu", 68, 65_535, "bytes"),
    ("", "nodes", 1, 65_536, "nodes"),
    ("", "pcp", 0, 7, ""),
    ("", "pfc_capability", 0, 8, "priorities"),
    ("", "qps", 1, 4_096, "queue pairs"),
    ("", "reads", 1, 255, "READs"),
    ("", "receive_rate", 1, 1_000_000_000, "entries per second"),
    ("", "receives", 1, 32_768, "entries"),
    ("", "reorder_window_packets", 1, 65_536, "packets"),
    ("", "response_ns", 0, i64::MAX, "ns"),
    ("", "retry", 0, 255, "retries"),
    ("", "right", 1, 65_536, "hosts"),
    ("", "rnr_retry", 0, 7, "retries"),
    ("", "rnr_timer", 0, 31, ""),
    ("", "source_port", 0, 65_535, ""),
    ("", "spines", 0, 65_536, "switches"),
    ("", "timeout", 0, 31, ""),
    ("", "ttl", 1, 255, ""),
    ("", "uplinks", 1, 65_536, "links"),
    ("", "vlan", 0, 4_094, ""),
    ("", "warmup", 0, 1 << 20, "iterations"),
    ("", "window_packets", 1, 1 << 23, "packets"),
];

/// Returns the correction for a number of the field `key` of the mapping type `owner` that its type cannot hold. The
/// range of a field that the table does not contain is that of its type: `least` to `most`.
pub(super) fn describe_range(owner: &str, key: Option<&str>, least: i64, most: u64) -> String {
    let found = key.and_then(|key| {
        NUMBER_RANGES
            .iter()
            .find(|(of, name, ..)| *name == key && (of.is_empty() || *of == owner))
    });
    let (least, most, unit) = match found {
        Some(&(_, _, least, most, unit)) => (least, most.unsigned_abs(), unit),
        None => (least, most, ""),
    };
    match unit {
        "" => format!("write a whole number from {least} to {most}"),
        unit => format!("write a whole number of {unit} from {least} to {most}"),
    }
}
