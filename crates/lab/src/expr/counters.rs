//! What is counted, under which names. `docs/script.md` has the same tables, for users.

use xoff_dataplane::drops::DropReason;

/// A counter or an event: its name, which ends in its unit, and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// The name.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// Counters of one kind of thing.
pub type Counters = &'static [Counter];

const fn of(name: &'static str, meaning: &'static str) -> Counter {
    Counter { name, meaning }
}

/// Of the run as a whole.
pub const RUN: Counters = &[
    of("now_ns", "model time since the start of the workload"),
    of(
        "deadlock",
        "1 while ports pause each other in a circle and frames wait in each, else 0",
    ),
];

/// Of `link.NAME.`, both directions together.
pub const LINK: Counters = &[
    of(
        "lost_frames",
        "frames that were lost on it: it went down, or a fault took them",
    ),
    of("up", "1 while it is up, else 0"),
];

/// Of `SWITCH.`, sums over its ports.
pub const SWITCH: Counters = &[
    of("rx_packets", "frames received"),
    of("rx_bytes", "bytes received"),
    of("tx_packets", "frames sent"),
    of("tx_bytes", "bytes sent"),
    of("dropped_packets", "frames dropped, for all reasons"),
    of("trim_packets", "packets that found a queue full and were trimmed"),
    of("tx_trim_packets", "trimmed packets sent"),
    of(
        "dropped_trim_packets",
        "trimmed packets that found no room either, or were flushed",
    ),
    of("ecn_marked_packets", "frames marked CE"),
    of("pfc_rx_frames", "PFC frames received"),
    of("pfc_tx_frames", "PFC frames sent"),
    of("pause_rx_frames", "802.3x pauses received"),
    of("pause_tx_frames", "802.3x pauses sent"),
    of("link_quality_rx_frames", "link quality messages received"),
    of("link_quality_tx_frames", "link quality messages sent"),
    of("buffered_cells", "cells in use by priority groups now"),
    of("storms_detected", "PFC storms that its watchdog found"),
    of("storms_restored", "those of them that are over"),
    of(
        "lb_flows",
        "flows that the tables of its load-balancing schemes know now",
    ),
    of(
        "lb_overflow_packets",
        "packets whose flows found no place there, and were hashed",
    ),
    of("lb_new_flows", "flows placed because they were new"),
    of("lb_idle_moves", "flows placed anew after a silence"),
    of(
        "lb_quality_moves",
        "flows moved while they sent, because another path had become better",
    ),
    of("lb_link_down_moves", "flows moved because their member died"),
    of("lb_link_up_moves", "flows moved because a member came (back)"),
    of("lb_announced_flows", "flows placed before they sent"),
    of("lb_promoted_flows", "flows that turned out to carry data"),
];

/// Of `SWITCH.pool.NAME.`, a buffer pool.
pub const POOL: Counters = &[
    of("current_cells", "shared cells in use"),
    of("watermark_cells", "most in use since the last clear"),
    of("headroom_current_cells", "cells of headroom in use by its groups"),
    of("headroom_watermark_cells", "most of them since the last clear"),
];

/// Of `SWITCH.PORT.`.
pub const PORT: Counters = &[
    of("rx_packets", "frames received"),
    of("rx_bytes", "bytes received"),
    of("tx_packets", "frames sent"),
    of("tx_bytes", "bytes sent"),
    of("dropped_packets", "frames dropped here, for all reasons"),
    of("trim_packets", "packets that found a queue full and were trimmed"),
    of("tx_trim_packets", "trimmed packets sent"),
    of(
        "dropped_trim_packets",
        "trimmed packets that found no room either, or were flushed",
    ),
    of("ecn_marked_packets", "frames marked CE"),
    of("pfc_rx_frames", "PFC frames received"),
    of("pfc_tx_frames", "PFC frames sent"),
    of("pause_rx_frames", "802.3x pauses received"),
    of("pause_tx_frames", "802.3x pauses sent"),
    of("link_quality_rx_frames", "link quality messages received"),
    of("link_quality_tx_frames", "link quality messages sent"),
    of(
        "global_paused_ns",
        "time the peer held all of it by 802.3x pauses",
    ),
    of("storms_detected", "PFC storms that the watchdog found here"),
    of("storms_restored", "those of them that are over"),
    of(
        "tx_utilisation_percent",
        "share of the time from the first to the last departure that the link was busy",
    ),
    of("up", "1 while the link is up, else 0"),
    of(
        "lb_band",
        "quality band of the link now, 7 (best) to 0; only where a load-balancing scheme measures",
    ),
    of("lb_load_permille", "what the band follows from, 0 (idle) to 1000"),
];

/// Of `SWITCH.PORT.pgN.`, a priority group.
pub const GROUP: Counters = &[
    of("packets", "frames accepted"),
    of("bytes", "bytes accepted"),
    of(
        "dropped_packets",
        "frames dropped for lack of cells, or by the watchdog",
    ),
    of("xoff_transitions", "times it went from XON to XOFF"),
    of("xoff", "1 while in XOFF, else 0"),
    of("current_cells", "cells in use"),
    of("watermark_cells", "most in use since the last clear"),
    of("shared_current_cells", "cells of the shared pool in use"),
    of("shared_watermark_cells", "most of them since the last clear"),
    of("headroom_current_cells", "cells of headroom in use"),
    of("headroom_watermark_cells", "most of them since the last clear"),
];

/// Of `SWITCH.PORT.queueN.`, an egress queue.
pub const QUEUE: Counters = &[
    of("packets", "frames sent"),
    of("bytes", "bytes sent"),
    of(
        "dropped_packets",
        "frames dropped at its limit (trimmed ones among them), early, or by the watchdog",
    ),
    of("dropped_bytes", "bytes of `dropped_packets`"),
    of("trim_packets", "packets that found it full and were trimmed"),
    of(
        "tx_trim_packets",
        "packets that it refused and that were sent trimmed",
    ),
    of(
        "dropped_trim_packets",
        "packets that it refused and that were dropped after trimming",
    ),
    of(
        "wred_dropped_packets",
        "the part of `dropped_packets` that WRED dropped",
    ),
    of("ecn_marked_packets", "frames marked CE"),
    of("current_cells", "cells in use"),
    of("watermark_cells", "most in use since the last clear"),
    of("storms_detected", "PFC storms that the watchdog found"),
    of("storms_restored", "those of them that are over"),
    of("stormed", "1 while a storm is on, or the big red switch, else 0"),
    of("storm_tx_packets", "frames sent during storms"),
    of(
        "storm_tx_dropped_packets",
        "frames for the queue dropped during storms, those that waited when they were found included",
    ),
    of(
        "storm_rx_packets",
        "frames accepted during storms in the queue's priority group of the port",
    ),
    of("storm_rx_dropped_packets", "frames dropped there"),
];

/// Of `SWITCH.PORT.pfcN.`, flow control of a class.
pub const PFC: Counters = &[
    of("tx", "PFC frames sent with this class enabled, XON included"),
    of("rx", "PFC frames received with this class enabled, XON included"),
    of(
        "on2off_rx",
        "pauses received that stopped a class which was running",
    ),
    of("paused_ns", "time the peer held this class of the port"),
    of("pausing_ns", "time the port asked its peer to pause this class"),
    of("paused", "1 while the peer holds it, else 0"),
    of(
        "recent_pause_ns",
        "how long the latest pause lasted, or has lasted so far",
    ),
];

/// Of `HOST.`; those from `out_of_sequence` on are Linux' `hw_counters`.
pub const HOST: Counters = &[
    of("tx_packets", "RDMA packets sent by queue pairs"),
    of("tx_bytes", "their payload"),
    of("rx_packets", "RDMA packets received by queue pairs"),
    of("rx_bytes", "their payload"),
    of(
        "rx_data_packets",
        "those with data: SEND, WRITE and READ responses",
    ),
    of("retransmitted_packets", "packets sent again"),
    of("nic_tx_frames", "frames sent, of all kinds but pauses"),
    of("nic_tx_bytes", "their bytes"),
    of(
        "nic_tx_dropped_frames",
        "frames of the host's own, injected ones and pauses included, that were not sent: 64 waited for the link",
    ),
    of("nic_dropped_frames", "frames that did not fit the receive buffer"),
    of("icrc_errors", "packets with a wrong ICRC"),
    of(
        "rx_control_frames",
        "MAC control frames that arrived: PFC, 802.3x pauses and others",
    ),
    of(
        "rx_irregular_control_frames",
        "those that break a rule: addresses, opcode, length, times of classes that are not enabled, padding",
    ),
    of(
        "trimmed_packets",
        "packets that a switch has trimmed; they are dropped",
    ),
    of("out_of_sequence", "packets that arrived behind a gap"),
    of("packet_seq_err", "NAKs for a gap received"),
    of("duplicate_request", "requests received again"),
    of("rnr_nak_retry_err", "RNR NAKs received"),
    of("out_of_buffer", "SENDs that found no receive entry"),
    of("local_ack_timeout_err", "local ACK timeouts"),
    of("implied_nak_seq_err", "gaps in READ responses"),
    of("rx_write_requests", "WRITE requests received"),
    of("rx_read_requests", "READ requests received"),
    of("rp_cnp_handled", "CNPs that slowed a queue pair down"),
    of("rp_cnp_ignored", "CNPs that did not"),
    of("np_cnp_sent", "CNPs sent"),
    of("np_ecn_marked_roce_packets", "RDMA packets received with CE"),
    of(
        "req_transport_retries_exceeded",
        "queue pairs that gave up after timeouts",
    ),
    of(
        "req_rnr_retries_exceeded",
        "queue pairs that gave up after RNR NAKs",
    ),
];

/// Of `HOST.dscpN.`, IP packets that arrived at a host with this DSCP, since counters were cleared.
pub const ARRIVALS: Counters = &[
    of("rx_frames", "packets"),
    of("rx_bytes", "their bytes, without FCS"),
    of("ce_frames", "those with CE"),
    of("ttl_min", "smallest hop limit among them"),
    of("ttl_max", "largest"),
    of("len_min_bytes", "length of the shortest frame, without FCS"),
    of("len_max_bytes", "of the longest"),
];

/// Of `HOST.pfcN.`.
pub const HOST_PFC: Counters = &[
    of("rx", "PFC frames received with this class enabled"),
    of("tx", "PFC frames sent with this class enabled"),
    of("paused_ns", "time this class was held"),
];

/// Of `flow.NAME.`, of all senders of a group of `flows` or of a `send` with a name, and `flow.NAME.SENDER.`.
pub const FLOW: Counters = &[
    of("sent_frames", "frames sent"),
    of("received_frames", "frames received"),
    of(
        "lost_frames",
        "sent and not received; while the flow runs, also what is under way",
    ),
    of("reordered_frames", "frames that came late"),
    of("duplicate_frames", "frames that came again"),
    of("icrc_errors", "frames with a wrong ICRC"),
    of("ce_marked_frames", "frames that arrived with CE"),
    of(
        "goodput_bps",
        "payload received over the time from the first to the last arrival; of a group, the sum",
    ),
    of("latency_p50_ns", "median; of a group, the largest of its senders"),
    of("latency_p99_ns", "99th percentile"),
    of("latency_p999_ns", "99.9th percentile"),
    of("latency_max_ns", "largest"),
];

/// Of `job.NAME.`, as defined in `docs/workloads.md`.
pub const JOB: Counters = &[
    of("done", "1 when it is done, else 0"),
    of("posted_messages", "messages posted"),
    of("received_messages", "messages received"),
    of("posted_bytes", "their payload"),
    of("received_bytes", "their payload"),
    of("failed_messages", "messages that a queue pair gave up"),
    of("jct_ns", "job completion time, when it is done"),
    of("roofline_ns", "the least that its hosts' links allow"),
    of("jct_ratio", "the former over the latter"),
    of("iteration_avg_ns", "mean time of measured iterations"),
    of("iteration_max_ns", "longest"),
    of(
        "bus_bandwidth_bps",
        "of the largest size of a collective, by nccl-tests' definition",
    ),
    of("completion_avg_ns", "mean of flow completions"),
    of("completion_p50_ns", "median of flow completions"),
    of("completion_p99_ns", "99th percentile"),
    of("completion_max_ns", "largest"),
    of(
        "slowdown_avg",
        "mean of completions over least times ([workloads.md](workloads.md#slowdown))",
    ),
    of("slowdown_p50", "median"),
    of("slowdown_p99", "99th percentile"),
    of("jain_index", "fairness of throughputs, 1 is even"),
    of("completed_flows", "flows that are done"),
];

/// Of `job.NAME.SENDER.`, of all kinds that are made of flows.
pub const JOB_SENDER: Counters = &[
    of(
        "received_bytes",
        "payload of its messages that has been received whole",
    ),
    of("completed_flows", "flows that are done"),
    of("completion_max_ns", "longest completion of a flow"),
    of("throughput_bps", "payload over the sum of completion times"),
];

/// What happens: events, for `first()` and `last()`: of the whole lab, or behind `SWITCH.`, `SWITCH.PORT.`, `HOST.`.
pub const EVENTS: Counters = &[
    of("ce", "a switch marks a frame CE; at a host, one arrives"),
    of(
        "xoff",
        "a PFC frame that stops a class leaves a switch, or the host that is named",
    ),
    of(
        "xon",
        "a PFC frame that lets a class go leaves a switch, or the host that is named",
    ),
    of("drop", "a switch, a link or a NIC drops a frame"),
    of("storm", "a switch's watchdog finds a PFC storm"),
    of("storm_restored", "a switch's watchdog finds that one is over"),
    of("cnp", "a CNP leaves a host"),
    of("nak", "a NAK leaves a host"),
    of("retransmission", "a host sends a packet again"),
    of("timeout", "a local ACK timeout"),
    of(
        "rx",
        "an IP packet arrives at a host, also of one DSCP: `HOST.dscpN.rx`, `HOST.dscpN.ce`",
    ),
];

/// `SWITCH.PORT.drops.`: the reasons of [`DropReason`].
pub const DROPS: Counters = &BY_REASON;

const BY_REASON: [Counter; DropReason::COUNT] = {
    let mut counters = [of("", ""); DropReason::COUNT];
    let mut at = 0;
    while at < DropReason::COUNT {
        counters[at] = of(DropReason::ALL[at].name(), DropReason::ALL[at].describe());
        at += 1;
    }
    counters
};
