//! The settings of the model.

/// The settings of the HPCC model of ns-3 that have an effect in xoff. The names in parentheses are the names
/// in the configuration file. A missing setting has the default of the model (`third.cc`).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ns3ModelParameters {
    /// Congestion control algorithm (`CC_MODE`).
    pub mode: CongestionMode,
    /// Settings of the windows: `HAS_WIN`, `VAR_WIN` and `GLOBAL_T`.
    pub window: FlowWindowSettings,
    /// Settings that only HPCC and HPCC-PINT use (`CC_MODE` 3 and 10).
    pub hpcc: HpccSettings,
    /// Additive rate increase of DCTCP in bits per second (`DCTCP_RATE_AI`).
    pub dctcp_rate_ai_bps: u64,
    /// Whether hosts send acknowledgements even while the priority of the data is paused (`ACK_HIGH_PRIO`).
    pub acks_pass_pauses: bool,
    /// Number of bytes after which the receiver sends an acknowledgement (`L2_ACK_INTERVAL`), 1 to
    /// `payload_bytes`. Each full packet is therefore acknowledged.
    pub ack_interval_bytes: u64,
    /// End of the run in seconds of simulated time (`SIMULATOR_STOP_TIME`). `None` if the setting is missing.
    /// The model then stops at 3.01 s.
    pub stop_s: Option<f64>,
    /// Names of settings in the file that the model does not have.
    pub unknown: Vec<String>,
    /// Whether switches mark packets with ECN (`ENABLE_QCN`).
    pub ecn: bool,
    /// Payload of a full packet in bytes (`PACKET_PAYLOAD_SIZE`), 64 to 8192.
    pub payload_bytes: u32,
    /// Whether the congestion control limits the rate of a flow (`RATE_BOUND`). If false, only the link speed
    /// limits the rate.
    pub rate_bound: bool,
    /// Buffer size of each switch in bytes (`BUFFER_SIZE`, which is in MiB). As in the model, the product is
    /// taken modulo 2^32.
    pub buffer_bytes: u32,
    /// ECN thresholds, one entry for each link speed.
    pub marking: Vec<EcnThresholds>,
    /// Settings of DCQCN. The other algorithms use some of them, too.
    pub dcqcn: DcqcnSettings,
}

/// The congestion control algorithms of the model. Each number is the value of `CC_MODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionMode {
    /// 1: DCQCN in the form that NICs implement.
    Dcqcn,
    /// 3: HPCC.
    Hpcc,
    /// 7: TIMELY.
    Timely,
    /// 8: DCTCP.
    Dctcp,
    /// 10: HPCC-PINT.
    HpccPint,
}

impl CongestionMode {
    /// Returns the algorithm for a value of `CC_MODE`. Returns `None` if the model does not
    /// have this algorithm.
    pub(super) fn from_number(text: &str) -> Option<CongestionMode> {
        Some(match text {
            "1" => CongestionMode::Dcqcn,
            "3" => CongestionMode::Hpcc,
            "7" => CongestionMode::Timely,
            "8" => CongestionMode::Dctcp,
            "10" => CongestionMode::HpccPint,
            _ => return None,
        })
    }

    /// Returns whether the algorithm is HPCC or HPCC-PINT.
    pub fn is_hpcc(self) -> bool {
        matches!(self, CongestionMode::Hpcc | CongestionMode::HpccPint)
    }

    /// Returns the number of telemetry bytes in each data packet and acknowledgement
    /// (`IntHeader::GetStaticSize` of the model).
    pub fn telemetry_bytes(self) -> u32 {
        match self {
            CongestionMode::Dcqcn | CongestionMode::Dctcp => 0,
            CongestionMode::Hpcc => 42,
            CongestionMode::Timely => 8,
            CongestionMode::HpccPint => 2,
        }
    }
}

/// Settings of the flow windows, which limit the unacknowledged bytes of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowWindowSettings {
    /// Whether a window limits the unacknowledged bytes of a flow (`HAS_WIN`).
    pub is_used: bool,
    /// Whether all flows use the largest window and round-trip time of all pairs of hosts (`GLOBAL_T` is 1).
    /// If false, each flow uses the values of its own pair.
    pub of_largest_pair: bool,
    /// Whether the window is proportional to the rate (`VAR_WIN`).
    pub follows_rate: bool,
}

/// Settings that only HPCC and HPCC-PINT have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HpccSettings {
    /// Whether every acknowledgement changes the rate (`FAST_REACT`). If false, only one acknowledgement in
    /// each round trip changes the rate.
    pub fast_react: bool,
    /// Target utilisation of links (`U_TARGET`), 0.01 to 10. The value 1 is full utilisation.
    pub target_utilisation: f64,
    /// Largest number of additive increases in a row (`MI_THRESH`).
    pub stages_max: u64,
    /// Multiplier of the units in HPCC telemetry (`INT_MULTI`), 1 to 1 000 000. With 1, byte counts are in
    /// units of 128 bytes, and queue lengths are in units of 80 bytes.
    pub unit_multiple: u64,
    /// Whether a flow computes one rate for each hop and uses the lowest of these rates (`MULTI_RATE`).
    pub rate_per_hop: bool,
    /// Whether acknowledgements within a round trip ignore hops with an empty queue (`SAMPLE_FEEDBACK`).
    pub skips_empty_queues: bool,
    /// Share of the acknowledgements that HPCC-PINT evaluates (`PINT_PROB`), 0 to 1.
    pub sampled_share: f64,
}

/// ECN thresholds of the links with one speed (`KMIN_MAP`, `KMAX_MAP`, `PMAX_MAP`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EcnThresholds {
    /// Speed of the links in bits per second.
    pub rate_bps: u64,
    /// Lower threshold: queue length in bytes up to which no packet is marked.
    pub min_bytes: u64,
    /// Upper threshold: queue length in bytes above which every packet is marked. At least `min_bytes`.
    pub max_bytes: u64,
    /// Marking probability at the upper threshold, 0 to 1.
    pub max_probability: f64,
}

/// Settings of DCQCN in the form that NICs implement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DcqcnSettings {
    /// Interval between alpha updates in microseconds (`ALPHA_RESUME_INTERVAL`), 0 to 1 000 000. With DCQCN,
    /// the value is at least 1.
    pub alpha_interval_us: u64,
    /// Smallest interval between rate decreases in microseconds (`RATE_DECREASE_INTERVAL`), 0 to 1 000 000.
    /// With DCQCN, the value is at least 1.
    pub decrease_interval_us: u64,
    /// Whether each rate decrease also lowers the target rate (`CLAMP_TARGET_RATE`).
    pub clamp_target: bool,
    /// Interval between rate increases in microseconds (`RP_TIMER`), 0 to 1 000 000. With DCQCN, the value is
    /// at least 1.
    pub increase_interval_us: u64,
    /// Gain of the moving average alpha (`EWMA_GAIN`), 0 to 1. DCTCP uses it too.
    pub gain: f64,
    /// Number of rate increases in fast recovery (`FAST_RECOVERY_TIMES`), 0 to 1000.
    pub fast_recovery_times: u64,
    /// Additive increase in bits per second (`RATE_AI`). HPCC and TIMELY use it too.
    pub rate_ai_bps: u64,
    /// Hyper increase in bits per second (`RATE_HAI`). TIMELY uses it too.
    pub rate_hai_bps: u64,
    /// Smallest rate of a flow in bits per second (`MIN_RATE`), for all algorithms.
    pub min_rate_bps: u64,
}

impl Ns3ModelParameters {
    /// Returns the defaults of the model (`third.cc`).
    pub(super) fn new() -> Ns3ModelParameters {
        Ns3ModelParameters {
            mode: CongestionMode::Dcqcn,
            window: FlowWindowSettings {
                is_used: true,
                of_largest_pair: true,
                follows_rate: false,
            },
            hpcc: HpccSettings {
                fast_react: true,
                target_utilisation: 0.95,
                stages_max: 5,
                unit_multiple: 1,
                rate_per_hop: true,
                skips_empty_queues: false,
                sampled_share: 1.0,
            },
            dctcp_rate_ai_bps: 1_000_000_000,
            acks_pass_pauses: false,
            ack_interval_bytes: 0,
            stop_s: None,
            unknown: Vec::new(),
            ecn: true,
            payload_bytes: 1_000,
            rate_bound: true,
            buffer_bytes: 16 << 20,
            marking: Vec::new(),
            dcqcn: DcqcnSettings {
                alpha_interval_us: 55,
                decrease_interval_us: 4,
                clamp_target: false,
                increase_interval_us: 0,
                gain: 0.0,
                fast_recovery_times: 5,
                rate_ai_bps: 0,
                rate_hai_bps: 0,
                min_rate_bps: 100_000_000,
            },
        }
    }

    /// Returns the ECN thresholds of links with this speed, in bits per second. Returns `None` if no map has
    /// this speed.
    pub fn marking(&self, rate_bps: u64) -> Option<&EcnThresholds> {
        self.marking.iter().find(|marking| marking.rate_bps == rate_bps)
    }

    /// Returns the header bytes of a data packet: 48 plus the telemetry bytes of the algorithm.
    ///
    /// The 48 bytes are Ethernet 14, IPv4 20, UDP 8 and sequence number 6.
    pub fn header_bytes(&self) -> u32 {
        48 + self.mode.telemetry_bytes()
    }

    /// Returns the length of an acknowledgement in bytes: 46 plus the telemetry bytes of the algorithm, at
    /// least 60.
    ///
    /// The 46 bytes are Ethernet 14, IPv4 20 and acknowledgement header 12.
    pub fn ack_bytes(&self) -> u32 {
        (46 + self.mode.telemetry_bytes()).max(60)
    }

    /// Returns whether ECN marks have an effect. The algorithm must react to marks (DCQCN or DCTCP). Marking
    /// and rate limits must be enabled, and a lower threshold must be below the buffer size.
    pub fn can_mark(&self) -> bool {
        let reachable = |marking: &EcnThresholds| marking.min_bytes < u64::from(self.buffer_bytes);
        matches!(self.mode, CongestionMode::Dcqcn | CongestionMode::Dctcp)
            && self.ecn
            && self.rate_bound
            && self.marking.iter().any(reachable)
    }
}

/// The three threshold maps (`KMIN_MAP`, `KMAX_MAP`, `PMAX_MAP`). Each entry has a link speed in bits per
/// second and the value for this speed. Thresholds are in units of 1000 bytes.
#[derive(Default)]
pub(super) struct EcnThresholdMaps {
    pub(super) min: Vec<(u64, u64)>,
    pub(super) max: Vec<(u64, u64)>,
    pub(super) probability: Vec<(u64, f64)>,
}
