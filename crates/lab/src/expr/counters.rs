//! The names and meanings of all counters and events of scripts. `docs/script.md` contains the same tables.

use xoff_dataplane::drops::DropReason;

/// The documentation of a counter or an event.
#[derive(Clone, Copy, Debug)]
pub struct CounterDescription {
    /// The name of the counter, without its prefix. If the counter has a unit, the name ends in the unit,
    /// such as `_ns` or `_bytes`.
    pub name: &'static str,
    /// The meaning, as in the tables of `docs/script.md`.
    pub meaning: &'static str,
}

/// The counters of one kind of object, such as a port, in the order of the documentation.
pub type CounterTable = &'static [CounterDescription];

/// Creates an entry of a table.
const fn describe(name: &'static str, meaning: &'static str) -> CounterDescription {
    CounterDescription { name, meaning }
}

/// Counters of the whole run. Their names have no prefix.
pub const RUN_COUNTERS: CounterTable = &[
    describe("now_ns", "model time since the start of the workload"),
    describe(
        "deadlock",
        "1 during a deadlock (a circle of ports that pause each other), else 0",
    ),
];

/// Counters with the prefix `link.NAME.`, for both directions of a link together.
pub const LINK_COUNTERS: CounterTable = &[
    describe(
        "lost_frames",
        "frames lost because the link went down or because of a fault",
    ),
    describe("up", "1 while the link is up, else 0"),
];

/// Counters with the prefix `SWITCH.`, for a whole switch. Most of them are sums over its ports.
pub const SWITCH_COUNTERS: CounterTable = &[
    describe("rx_packets", "frames received"),
    describe("rx_bytes", "bytes received"),
    describe("tx_packets", "frames sent"),
    describe("tx_bytes", "bytes sent"),
    describe("dropped_packets", "frames dropped, for all reasons"),
    describe("trim_packets", "packets trimmed because a queue was full"),
    describe("tx_trim_packets", "trimmed packets sent"),
    describe(
        "dropped_trim_packets",
        "trimmed packets dropped because the queue was full or flushed",
    ),
    describe("ecn_marked_packets", "frames marked CE"),
    describe("pfc_rx_frames", "PFC frames received"),
    describe("pfc_tx_frames", "PFC frames sent"),
    describe("pause_rx_frames", "802.3x PAUSE frames received"),
    describe("pause_tx_frames", "802.3x PAUSE frames sent"),
    describe("link_quality_rx_frames", "link quality messages received"),
    describe("link_quality_tx_frames", "link quality messages sent"),
    describe("buffered_cells", "cells in use by priority groups now"),
    describe("storms_detected", "PFC storms that the watchdog detected"),
    describe("storms_restored", "PFC storms that the watchdog restored"),
    describe(
        "lb_flows",
        "flows in the tables of the load-balancing schemes now",
    ),
    describe(
        "lb_overflow_packets",
        "packets hashed because the flow table was full",
    ),
    describe("lb_new_flows", "new flows placed on a member"),
    describe("lb_idle_moves", "flow moves after an idle time"),
    describe(
        "lb_quality_moves",
        "flow moves to a path with a better quality, without an idle time",
    ),
    describe(
        "lb_link_down_moves",
        "flow moves because the link of the member went down",
    ),
    describe(
        "lb_link_up_moves",
        "flow moves because the link of a member came up",
    ),
    describe("lb_announced_flows", "flows placed before their first packet"),
    describe(
        "lb_promoted_flows",
        "flows counted as data flows after their first data",
    ),
];

/// Counters with the prefix `SWITCH.pool.NAME.`, for the buffer pool `NAME` of the switch configuration.
pub const POOL_COUNTERS: CounterTable = &[
    describe("current_cells", "shared cells in use"),
    describe(
        "watermark_cells",
        "maximum of `current_cells` since the last clear",
    ),
    describe(
        "headroom_current_cells",
        "headroom cells in use by the priority groups",
    ),
    describe(
        "headroom_watermark_cells",
        "maximum of `headroom_current_cells` since the last clear",
    ),
];

/// Counters with the prefix `SWITCH.PORT.`, for a switch port such as `sw1.Ethernet0`.
pub const PORT_COUNTERS: CounterTable = &[
    describe("rx_packets", "frames received"),
    describe("rx_bytes", "bytes received"),
    describe("tx_packets", "frames sent"),
    describe("tx_bytes", "bytes sent"),
    describe("dropped_packets", "frames dropped at the port, for all reasons"),
    describe("trim_packets", "packets trimmed because a queue was full"),
    describe("tx_trim_packets", "trimmed packets sent"),
    describe(
        "dropped_trim_packets",
        "trimmed packets dropped because the queue was full or flushed",
    ),
    describe("ecn_marked_packets", "frames marked CE"),
    describe("pfc_rx_frames", "PFC frames received"),
    describe("pfc_tx_frames", "PFC frames sent"),
    describe("pause_rx_frames", "802.3x PAUSE frames received"),
    describe("pause_tx_frames", "802.3x PAUSE frames sent"),
    describe("link_quality_rx_frames", "link quality messages received"),
    describe("link_quality_tx_frames", "link quality messages sent"),
    describe(
        "global_paused_ns",
        "time that the peer paused the port by 802.3x PAUSE",
    ),
    describe(
        "storms_detected",
        "PFC storms that the watchdog detected at the port",
    ),
    describe("storms_restored", "PFC storms that the watchdog restored"),
    describe(
        "tx_utilisation_percent",
        "share of the time between the first and the last departure of this port in which the link was busy",
    ),
    describe("up", "1 while the link is up, else 0"),
    describe(
        "lb_band",
        "quality band of the link now, 7 (best) to 0, if a load-balancing scheme measures it",
    ),
    describe(
        "lb_load_permille",
        "load of the link that decides the band, 0 (idle) to 1000",
    ),
];

/// Counters with the prefix `SWITCH.PORT.pgN.`, for priority group N (0 to 7) of a port.
pub const PRIORITY_GROUP_COUNTERS: CounterTable = &[
    describe("packets", "frames accepted"),
    describe("bytes", "bytes accepted"),
    describe(
        "dropped_packets",
        "frames dropped at the buffer limit or by the watchdog",
    ),
    describe("xoff_transitions", "changes from XON to XOFF"),
    describe("xoff", "1 while in XOFF, else 0"),
    describe("current_cells", "cells in use"),
    describe(
        "watermark_cells",
        "maximum of `current_cells` since the last clear",
    ),
    describe("shared_current_cells", "shared cells in use"),
    describe(
        "shared_watermark_cells",
        "maximum of `shared_current_cells` since the last clear",
    ),
    describe("headroom_current_cells", "headroom cells in use"),
    describe(
        "headroom_watermark_cells",
        "maximum of `headroom_current_cells` since the last clear",
    ),
];

/// Counters with the prefix `SWITCH.PORT.queueN.`, for egress queue N (0 to 7) of a port.
pub const QUEUE_COUNTERS: CounterTable = &[
    describe("packets", "frames sent"),
    describe("bytes", "bytes sent"),
    describe(
        "dropped_packets",
        "frames dropped at the queue limit, by WRED or by the watchdog, trimmed packets included",
    ),
    describe("dropped_bytes", "bytes of `dropped_packets`"),
    describe("trim_packets", "packets trimmed because the queue was full"),
    describe(
        "tx_trim_packets",
        "packets trimmed at this queue and sent through another queue",
    ),
    describe(
        "dropped_trim_packets",
        "packets trimmed at this queue and dropped afterwards",
    ),
    describe(
        "wred_dropped_packets",
        "frames of `dropped_packets` that WRED dropped",
    ),
    describe("ecn_marked_packets", "frames marked CE"),
    describe("current_cells", "cells in use"),
    describe(
        "watermark_cells",
        "maximum of `current_cells` since the last clear",
    ),
    describe("storms_detected", "PFC storms that the watchdog detected"),
    describe("storms_restored", "PFC storms that the watchdog restored"),
    describe(
        "stormed",
        "1 during a storm or while the big red switch is on, else 0",
    ),
    describe("storm_tx_packets", "frames sent during storms"),
    describe(
        "storm_tx_dropped_packets",
        "frames for the queue dropped during storms, including frames that waited at the detection",
    ),
    describe(
        "storm_rx_packets",
        "frames accepted during storms in the priority group of the queue",
    ),
    describe(
        "storm_rx_dropped_packets",
        "frames dropped during storms in the priority group of the queue",
    ),
];

/// Counters with the prefix `SWITCH.PORT.pfcN.`, for PFC of priority N (0 to 7) at a port.
pub const PORT_PFC_COUNTERS: CounterTable = &[
    describe("tx", "PFC frames sent with this class enabled, XON included"),
    describe("rx", "PFC frames received with this class enabled, XON included"),
    describe("on2off_rx", "pauses received while the class was not paused"),
    describe("paused_ns", "time that the peer paused this class of the port"),
    describe("pausing_ns", "time that the port paused this class of the peer"),
    describe("paused", "1 while the peer pauses the class, else 0"),
    describe(
        "recent_pause_ns",
        "duration of the latest pause, or the time so far of a pause in progress",
    ),
];

/// Counters with the prefix `HOST.`. From `out_of_sequence` on, the counters have the names of the
/// Linux `hw_counters`.
pub const HOST_COUNTERS: CounterTable = &[
    describe("tx_packets", "RDMA packets sent by queue pairs"),
    describe("tx_bytes", "payload of the RDMA packets sent"),
    describe("rx_packets", "RDMA packets received by queue pairs"),
    describe("rx_bytes", "payload of the RDMA packets received"),
    describe(
        "rx_data_packets",
        "RDMA packets received with data: SEND, WRITE and READ responses",
    ),
    describe("retransmitted_packets", "RDMA packets sent again"),
    describe("nic_tx_frames", "frames of all kinds sent, except pauses"),
    describe("nic_tx_bytes", "bytes of the frames sent"),
    describe(
        "nic_tx_dropped_frames",
        "frames not sent because 64 frames of the host waited for the link, injected frames and pauses included",
    ),
    describe(
        "nic_dropped_frames",
        "frames dropped because the receive buffer was full",
    ),
    describe("icrc_errors", "packets with a wrong ICRC"),
    describe("pause_tx_frames", "802.3x PAUSE frames sent"),
    describe(
        "tx_control_frames",
        "MAC control frames sent: PFC, 802.3x PAUSE and others",
    ),
    describe(
        "rx_control_frames",
        "MAC control frames received: PFC, 802.3x PAUSE and others",
    ),
    describe(
        "rx_irregular_control_frames",
        "MAC control frames received with a wrong address, opcode, length, pause time of a disabled class or padding",
    ),
    describe("trimmed_packets", "trimmed packets received and dropped"),
    describe("out_of_sequence", "packets received after a gap"),
    describe("packet_seq_err", "NAKs for a gap received"),
    describe("duplicate_request", "duplicate requests received"),
    describe("rnr_nak_retry_err", "RNR NAKs received"),
    describe("out_of_buffer", "SENDs received without a receive entry"),
    describe("local_ack_timeout_err", "local ACK timeouts"),
    describe("implied_nak_seq_err", "gaps in READ responses"),
    describe("rx_write_requests", "WRITE requests received"),
    describe("rx_read_requests", "READ requests received"),
    describe(
        "rp_cnp_handled",
        "CNPs received that reduced the rate of a queue pair",
    ),
    describe("rp_cnp_ignored", "CNPs received without an effect"),
    describe("np_cnp_sent", "CNPs sent"),
    describe("np_ecn_marked_roce_packets", "RDMA packets received with CE"),
    describe(
        "req_transport_retries_exceeded",
        "queue pairs that failed after too many timeouts",
    ),
    describe(
        "req_rnr_retries_exceeded",
        "queue pairs that failed after too many RNR NAKs",
    ),
];

/// Counters with the prefix `HOST.dscpN.`, for IP packets with DSCP N (0 to 63) that arrived at the host
/// since the last `clear` step for counters.
pub const ARRIVAL_COUNTERS: CounterTable = &[
    describe("rx_frames", "packets received"),
    describe("rx_bytes", "bytes received, without FCS"),
    describe("ce_frames", "packets with CE"),
    describe("ttl_min", "smallest TTL or hop limit"),
    describe("ttl_max", "largest TTL or hop limit"),
    describe("len_min_bytes", "length of the shortest frame, without FCS"),
    describe("len_max_bytes", "length of the longest frame, without FCS"),
];

/// Counters with the prefix `HOST.pfcN.`, for PFC of priority N (0 to 7) at a host.
pub const HOST_PFC_COUNTERS: CounterTable = &[
    describe("rx", "PFC frames received with this class enabled"),
    describe("tx", "PFC frames sent with this class enabled"),
    describe("paused_ns", "time that this class was paused"),
];

/// Counters of an open-loop flow or of a `send` step. The prefix `flow.NAME.` means all senders, and the
/// prefix `flow.NAME.SENDER.` means one sending host.
pub const FLOW_COUNTERS: CounterTable = &[
    describe("sent_frames", "frames sent"),
    describe("received_frames", "frames received"),
    describe(
        "lost_frames",
        "frames sent and not received, including frames in flight",
    ),
    describe("reordered_frames", "frames received after a later frame"),
    describe("duplicate_frames", "frames received twice"),
    describe("icrc_errors", "frames with a wrong ICRC"),
    describe("ce_marked_frames", "frames received with CE"),
    describe(
        "goodput_bps",
        "payload divided by the time from the first to the last arrival; for a group, the sum of its senders",
    ),
    describe(
        "latency_p50_ns",
        "median latency; for a group, the largest of its senders",
    ),
    describe("latency_p99_ns", "99th percentile of the latency"),
    describe("latency_p999_ns", "99.9th percentile of the latency"),
    describe("latency_max_ns", "largest latency"),
];

/// Counters with the prefix `job.NAME.`, for a job of the workload. `docs/workloads.md` defines the values.
pub const JOB_COUNTERS: CounterTable = &[
    describe("done", "1 when the job is done, else 0"),
    describe("posted_messages", "messages posted"),
    describe("received_messages", "messages received"),
    describe("posted_bytes", "payload of the posted messages"),
    describe("received_bytes", "payload of the received messages"),
    describe("failed_messages", "messages of failed queue pairs"),
    describe("jct_ns", "job completion time of a finished job"),
    describe(
        "roofline_ns",
        "lower bound of the job completion time from the links of the hosts",
    ),
    describe("jct_ratio", "job completion time divided by the roofline"),
    describe("iteration_avg_ns", "mean time of the measured iterations"),
    describe("iteration_max_ns", "longest time of a measured iteration"),
    describe(
        "bus_bandwidth_bps",
        "bus bandwidth of a collective at its largest size, as defined by nccl-tests",
    ),
    describe("completion_avg_ns", "mean flow completion time"),
    describe("completion_p50_ns", "median flow completion time"),
    describe("completion_p99_ns", "99th percentile of the flow completion time"),
    describe("completion_max_ns", "largest flow completion time"),
    describe("slowdown_avg", "mean [slowdown](workloads.md#slowdown)"),
    describe("slowdown_p50", "median slowdown"),
    describe("slowdown_p99", "99th percentile of the slowdown"),
    describe(
        "jain_index",
        "Jain's fairness index of the throughputs; 1 is equal throughput",
    ),
    describe("completed_flows", "finished flows"),
];

/// Counters of one sending host of a job, with the prefix `job.NAME.SENDER.`. `SENDER` is the name of the
/// host. All kinds of jobs except collectives have these counters.
pub const JOB_SENDER_COUNTERS: CounterTable = &[
    describe("received_bytes", "payload of completely received messages"),
    describe("completed_flows", "finished flows"),
    describe("completion_max_ns", "largest flow completion time"),
    describe(
        "throughput_bps",
        "payload divided by the sum of the flow completion times",
    ),
];

/// Events for the functions `first()` and `last()`, which return the time of an event. Without a prefix, an
/// event can happen anywhere in the lab. The prefix `SWITCH.`, `SWITCH.PORT.` or `HOST.` selects one switch,
/// port or host.
pub const EVENTS: CounterTable = &[
    describe(
        "ce",
        "a switch marks a frame CE; at a host, a frame with CE arrives",
    ),
    describe(
        "xoff",
        "a switch sends an XOFF frame; with a host name, the host sends one",
    ),
    describe(
        "xon",
        "a switch sends an XON frame; with a host name, the host sends one",
    ),
    describe("drop", "a switch, a link or a NIC drops a frame"),
    describe("storm", "the watchdog of a switch detects a PFC storm"),
    describe(
        "storm_restored",
        "the watchdog of a switch restores a queue after a PFC storm",
    ),
    describe("cnp", "a host sends a CNP"),
    describe("nak", "a host sends a NAK"),
    describe("retransmission", "a host sends a packet again"),
    describe("timeout", "a local ACK timeout expires at a host"),
    describe(
        "rx",
        "an IP packet arrives at a host; `HOST.dscpN.rx` and `HOST.dscpN.ce` are the events of one DSCP",
    ),
];

/// Counters with the prefix `SWITCH.PORT.drops.`, one for each [`DropReason`].
pub const DROP_COUNTERS: CounterTable = &DROPS_BY_REASON;

/// The table behind [`DROP_COUNTERS`].
const DROPS_BY_REASON: [CounterDescription; DropReason::COUNT] = {
    let mut counters = [describe("", ""); DropReason::COUNT];
    let mut index = 0;
    while index < DropReason::COUNT {
        counters[index] = describe(DropReason::ALL[index].name(), DropReason::ALL[index].describe());
        index += 1;
    }
    counters
};
