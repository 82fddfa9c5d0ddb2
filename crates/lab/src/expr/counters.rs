//! The names and meanings of all counters and events of scripts. `docs/script.md` contains the same tables.

use xoff_dataplane::drops::DropReason;

/// The documentation of a counter or an event.
#[derive(Clone, Copy, Debug)]
pub struct CounterDescription {
    /// The name of the counter. It ends in the unit of the counter.
    pub name: &'static str,
    /// The meaning in the table of `docs/script.md`.
    pub meaning: &'static str,
}

/// The counters of one kind of object.
pub type CounterTable = &'static [CounterDescription];

/// Creates an entry of a table.
const fn counter(name: &'static str, meaning: &'static str) -> CounterDescription {
    CounterDescription { name, meaning }
}

/// Counters of the whole run, without a prefix.
pub const RUN_COUNTERS: CounterTable = &[
    counter("now_ns", "model time since the start of the workload"),
    counter(
        "deadlock",
        "1 during a deadlock (a circle of ports that pause each other), else 0",
    ),
];

/// Counters with the prefix `link.NAME.`, for both directions of a link.
pub const LINK_COUNTERS: CounterTable = &[
    counter(
        "lost_frames",
        "frames lost because the link went down or because of a fault",
    ),
    counter("up", "1 while the link is up, else 0"),
];

/// Counters with the prefix `SWITCH.`, as sums over the ports of a switch.
pub const SWITCH_COUNTERS: CounterTable = &[
    counter("rx_packets", "frames received"),
    counter("rx_bytes", "bytes received"),
    counter("tx_packets", "frames sent"),
    counter("tx_bytes", "bytes sent"),
    counter("dropped_packets", "frames dropped, for all reasons"),
    counter("trim_packets", "packets trimmed because a queue was full"),
    counter("tx_trim_packets", "trimmed packets sent"),
    counter(
        "dropped_trim_packets",
        "trimmed packets dropped because the queue was full or flushed",
    ),
    counter("ecn_marked_packets", "frames marked CE"),
    counter("pfc_rx_frames", "PFC frames received"),
    counter("pfc_tx_frames", "PFC frames sent"),
    counter("pause_rx_frames", "802.3x PAUSE frames received"),
    counter("pause_tx_frames", "802.3x PAUSE frames sent"),
    counter("link_quality_rx_frames", "link quality messages received"),
    counter("link_quality_tx_frames", "link quality messages sent"),
    counter("buffered_cells", "cells in use by priority groups now"),
    counter("storms_detected", "PFC storms that the watchdog detected"),
    counter("storms_restored", "PFC storms that the watchdog restored"),
    counter(
        "lb_flows",
        "flows in the tables of the load-balancing schemes now",
    ),
    counter(
        "lb_overflow_packets",
        "packets hashed because the flow table was full",
    ),
    counter("lb_new_flows", "new flows placed on a member"),
    counter("lb_idle_moves", "flow moves after an idle time"),
    counter(
        "lb_quality_moves",
        "flow moves to a path with a better quality, without an idle time",
    ),
    counter(
        "lb_link_down_moves",
        "flow moves because the link of the member went down",
    ),
    counter(
        "lb_link_up_moves",
        "flow moves because the link of a member came up",
    ),
    counter("lb_announced_flows", "flows placed before their first packet"),
    counter(
        "lb_promoted_flows",
        "flows counted as data flows after their first data",
    ),
];

/// Counters with the prefix `SWITCH.pool.NAME.`, for a buffer pool.
pub const POOL_COUNTERS: CounterTable = &[
    counter("current_cells", "shared cells in use"),
    counter(
        "watermark_cells",
        "maximum of `current_cells` since the last clear",
    ),
    counter(
        "headroom_current_cells",
        "headroom cells in use by the priority groups",
    ),
    counter(
        "headroom_watermark_cells",
        "maximum of `headroom_current_cells` since the last clear",
    ),
];

/// Counters with the prefix `SWITCH.PORT.`, for a port.
pub const PORT_COUNTERS: CounterTable = &[
    counter("rx_packets", "frames received"),
    counter("rx_bytes", "bytes received"),
    counter("tx_packets", "frames sent"),
    counter("tx_bytes", "bytes sent"),
    counter("dropped_packets", "frames dropped at the port, for all reasons"),
    counter("trim_packets", "packets trimmed because a queue was full"),
    counter("tx_trim_packets", "trimmed packets sent"),
    counter(
        "dropped_trim_packets",
        "trimmed packets dropped because the queue was full or flushed",
    ),
    counter("ecn_marked_packets", "frames marked CE"),
    counter("pfc_rx_frames", "PFC frames received"),
    counter("pfc_tx_frames", "PFC frames sent"),
    counter("pause_rx_frames", "802.3x PAUSE frames received"),
    counter("pause_tx_frames", "802.3x PAUSE frames sent"),
    counter("link_quality_rx_frames", "link quality messages received"),
    counter("link_quality_tx_frames", "link quality messages sent"),
    counter(
        "global_paused_ns",
        "time that the peer paused the port by 802.3x PAUSE",
    ),
    counter(
        "storms_detected",
        "PFC storms that the watchdog detected at the port",
    ),
    counter("storms_restored", "PFC storms that the watchdog restored"),
    counter(
        "tx_utilisation_percent",
        "share of the time between the first and the last departure in which the link was busy",
    ),
    counter("up", "1 while the link is up, else 0"),
    counter(
        "lb_band",
        "quality band of the link now, 7 (best) to 0, if a load-balancing scheme measures it",
    ),
    counter(
        "lb_load_permille",
        "load of the link that decides the band, 0 (idle) to 1000",
    ),
];

/// Counters with the prefix `SWITCH.PORT.pgN.`, for a priority group.
pub const PRIORITY_GROUP_COUNTERS: CounterTable = &[
    counter("packets", "frames accepted"),
    counter("bytes", "bytes accepted"),
    counter(
        "dropped_packets",
        "frames dropped at the buffer limit or by the watchdog",
    ),
    counter("xoff_transitions", "changes from XON to XOFF"),
    counter("xoff", "1 while in XOFF, else 0"),
    counter("current_cells", "cells in use"),
    counter(
        "watermark_cells",
        "maximum of `current_cells` since the last clear",
    ),
    counter("shared_current_cells", "shared cells in use"),
    counter(
        "shared_watermark_cells",
        "maximum of `shared_current_cells` since the last clear",
    ),
    counter("headroom_current_cells", "headroom cells in use"),
    counter(
        "headroom_watermark_cells",
        "maximum of `headroom_current_cells` since the last clear",
    ),
];

/// Counters with the prefix `SWITCH.PORT.queueN.`, for an egress queue.
pub const QUEUE_COUNTERS: CounterTable = &[
    counter("packets", "frames sent"),
    counter("bytes", "bytes sent"),
    counter(
        "dropped_packets",
        "frames dropped at the queue limit, by WRED or by the watchdog, trimmed packets included",
    ),
    counter("dropped_bytes", "bytes of `dropped_packets`"),
    counter("trim_packets", "packets trimmed because the queue was full"),
    counter(
        "tx_trim_packets",
        "packets trimmed at this queue and sent through another queue",
    ),
    counter(
        "dropped_trim_packets",
        "packets trimmed at this queue and dropped afterwards",
    ),
    counter(
        "wred_dropped_packets",
        "frames of `dropped_packets` that WRED dropped",
    ),
    counter("ecn_marked_packets", "frames marked CE"),
    counter("current_cells", "cells in use"),
    counter(
        "watermark_cells",
        "maximum of `current_cells` since the last clear",
    ),
    counter("storms_detected", "PFC storms that the watchdog detected"),
    counter("storms_restored", "PFC storms that the watchdog restored"),
    counter(
        "stormed",
        "1 during a storm or while the big red switch is on, else 0",
    ),
    counter("storm_tx_packets", "frames sent during storms"),
    counter(
        "storm_tx_dropped_packets",
        "frames for the queue dropped during storms, including frames that waited at the detection",
    ),
    counter(
        "storm_rx_packets",
        "frames accepted during storms in the priority group of the queue",
    ),
    counter(
        "storm_rx_dropped_packets",
        "frames dropped during storms in the priority group of the queue",
    ),
];

/// Counters with the prefix `SWITCH.PORT.pfcN.`, for PFC of one priority at a port.
pub const PORT_PFC_COUNTERS: CounterTable = &[
    counter("tx", "PFC frames sent with this class enabled, XON included"),
    counter("rx", "PFC frames received with this class enabled, XON included"),
    counter("on2off_rx", "pauses received while the class was not paused"),
    counter("paused_ns", "time that the peer paused this class of the port"),
    counter("pausing_ns", "time that the port paused this class of the peer"),
    counter("paused", "1 while the peer pauses the class, else 0"),
    counter(
        "recent_pause_ns",
        "duration of the latest pause, or the time so far of a pause in progress",
    ),
];

/// Counters with the prefix `HOST.`. The names from `out_of_sequence` on are those of the `hw_counters` of Linux.
pub const HOST_COUNTERS: CounterTable = &[
    counter("tx_packets", "RDMA packets sent by queue pairs"),
    counter("tx_bytes", "payload of the RDMA packets sent"),
    counter("rx_packets", "RDMA packets received by queue pairs"),
    counter("rx_bytes", "payload of the RDMA packets received"),
    counter(
        "rx_data_packets",
        "RDMA packets received with data: SEND, WRITE and READ responses",
    ),
    counter("retransmitted_packets", "RDMA packets sent again"),
    counter("nic_tx_frames", "frames of all kinds sent, except pauses"),
    counter("nic_tx_bytes", "bytes of the frames sent"),
    counter(
        "nic_tx_dropped_frames",
        "frames not sent because 64 frames of the host waited for the link, injected frames and pauses included",
    ),
    counter(
        "nic_dropped_frames",
        "frames dropped because the receive buffer was full",
    ),
    counter("icrc_errors", "packets with a wrong ICRC"),
    counter(
        "rx_control_frames",
        "MAC control frames received: PFC, 802.3x PAUSE and others",
    ),
    counter(
        "rx_irregular_control_frames",
        "MAC control frames received with a wrong address, opcode, length, pause time of a disabled class or padding",
    ),
    counter("trimmed_packets", "trimmed packets received and dropped"),
    counter("out_of_sequence", "packets received after a gap"),
    counter("packet_seq_err", "NAKs for a gap received"),
    counter("duplicate_request", "duplicate requests received"),
    counter("rnr_nak_retry_err", "RNR NAKs received"),
    counter("out_of_buffer", "SENDs received without a receive entry"),
    counter("local_ack_timeout_err", "local ACK timeouts"),
    counter("implied_nak_seq_err", "gaps in READ responses"),
    counter("rx_write_requests", "WRITE requests received"),
    counter("rx_read_requests", "READ requests received"),
    counter(
        "rp_cnp_handled",
        "CNPs received that reduced the rate of a queue pair",
    ),
    counter("rp_cnp_ignored", "CNPs received without an effect"),
    counter("np_cnp_sent", "CNPs sent"),
    counter("np_ecn_marked_roce_packets", "RDMA packets received with CE"),
    counter(
        "req_transport_retries_exceeded",
        "queue pairs that failed after too many timeouts",
    ),
    counter(
        "req_rnr_retries_exceeded",
        "queue pairs that failed after too many RNR NAKs",
    ),
];

/// Counters with the prefix `HOST.dscpN.`, for IP packets with one DSCP that arrived since the last clear.
pub const ARRIVAL_COUNTERS: CounterTable = &[
    counter("rx_frames", "packets received"),
    counter("rx_bytes", "bytes received, without FCS"),
    counter("ce_frames", "packets with CE"),
    counter("ttl_min", "smallest TTL or hop limit"),
    counter("ttl_max", "largest TTL or hop limit"),
    counter("len_min_bytes", "length of the shortest frame, without FCS"),
    counter("len_max_bytes", "length of the longest frame, without FCS"),
];

/// Counters with the prefix `HOST.pfcN.`, for PFC of one priority at a host.
pub const HOST_PFC_COUNTERS: CounterTable = &[
    counter("rx", "PFC frames received with this class enabled"),
    counter("tx", "PFC frames sent with this class enabled"),
    counter("paused_ns", "time that this class was paused"),
];

/// Counters with the prefix `flow.NAME.` for all senders of a flow group or `send` step, or `flow.NAME.SENDER.` for one
/// sender.
pub const FLOW_COUNTERS: CounterTable = &[
    counter("sent_frames", "frames sent"),
    counter("received_frames", "frames received"),
    counter(
        "lost_frames",
        "frames sent and not received, including frames in flight",
    ),
    counter("reordered_frames", "frames received after a later frame"),
    counter("duplicate_frames", "frames received twice"),
    counter("icrc_errors", "frames with a wrong ICRC"),
    counter("ce_marked_frames", "frames received with CE"),
    counter(
        "goodput_bps",
        "payload divided by the time from the first to the last arrival; for a group, the sum of its senders",
    ),
    counter(
        "latency_p50_ns",
        "median latency; for a group, the largest of its senders",
    ),
    counter("latency_p99_ns", "99th percentile of the latency"),
    counter("latency_p999_ns", "99.9th percentile of the latency"),
    counter("latency_max_ns", "largest latency"),
];

/// Counters with the prefix `job.NAME.`. `docs/workloads.md` defines the values.
pub const JOB_COUNTERS: CounterTable = &[
    counter("done", "1 when the job is done, else 0"),
    counter("posted_messages", "messages posted"),
    counter("received_messages", "messages received"),
    counter("posted_bytes", "payload of the posted messages"),
    counter("received_bytes", "payload of the received messages"),
    counter("failed_messages", "messages of failed queue pairs"),
    counter("jct_ns", "job completion time of a finished job"),
    counter(
        "roofline_ns",
        "lower bound of the job completion time from the links of the hosts",
    ),
    counter("jct_ratio", "job completion time divided by the roofline"),
    counter("iteration_avg_ns", "mean time of the measured iterations"),
    counter("iteration_max_ns", "longest time of a measured iteration"),
    counter(
        "bus_bandwidth_bps",
        "bus bandwidth of a collective at its largest size, as defined by nccl-tests",
    ),
    counter("completion_avg_ns", "mean flow completion time"),
    counter("completion_p50_ns", "median flow completion time"),
    counter("completion_p99_ns", "99th percentile of the flow completion time"),
    counter("completion_max_ns", "largest flow completion time"),
    counter("slowdown_avg", "mean [slowdown](workloads.md#slowdown)"),
    counter("slowdown_p50", "median slowdown"),
    counter("slowdown_p99", "99th percentile of the slowdown"),
    counter(
        "jain_index",
        "Jain's fairness index of the throughputs; 1 is equal throughput",
    ),
    counter("completed_flows", "finished flows"),
];

/// Counters with the prefix `job.NAME.SENDER.`, for jobs that consist of flows.
pub const JOB_SENDER_COUNTERS: CounterTable = &[
    counter("received_bytes", "payload of completely received messages"),
    counter("completed_flows", "finished flows"),
    counter("completion_max_ns", "largest flow completion time"),
    counter(
        "throughput_bps",
        "payload divided by the sum of the flow completion times",
    ),
];

/// Events for `first()` and `last()`. The prefix `SWITCH.`, `SWITCH.PORT.` or `HOST.` restricts an event to one object.
pub const EVENTS: CounterTable = &[
    counter(
        "ce",
        "a switch marks a frame CE; at a host, a frame with CE arrives",
    ),
    counter(
        "xoff",
        "a switch sends an XOFF frame; with a host name, the host sends one",
    ),
    counter(
        "xon",
        "a switch sends an XON frame; with a host name, the host sends one",
    ),
    counter("drop", "a switch, a link or a NIC drops a frame"),
    counter("storm", "the watchdog of a switch detects a PFC storm"),
    counter(
        "storm_restored",
        "the watchdog of a switch restores a queue after a PFC storm",
    ),
    counter("cnp", "a host sends a CNP"),
    counter("nak", "a host sends a NAK"),
    counter("retransmission", "a host sends a packet again"),
    counter("timeout", "a local ACK timeout expires at a host"),
    counter(
        "rx",
        "an IP packet arrives at a host; `HOST.dscpN.rx` and `HOST.dscpN.ce` are the events of one DSCP",
    ),
];

/// Counters with the prefix `SWITCH.PORT.drops.`, one for each [`DropReason`].
pub const DROP_COUNTERS: CounterTable = &DROPS_BY_REASON;

/// The table behind [`DROP_COUNTERS`].
const DROPS_BY_REASON: [CounterDescription; DropReason::COUNT] = {
    let mut counters = [counter("", ""); DropReason::COUNT];
    let mut index = 0;
    while index < DropReason::COUNT {
        counters[index] = counter(DropReason::ALL[index].name(), DropReason::ALL[index].describe());
        index += 1;
    }
    counters
};
