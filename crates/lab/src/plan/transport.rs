//! The transport options of jobs.

use serde::{Deserialize, Serialize};
use xoff_wire::Ecn;

use xoff_fabric::JobTransport;
use xoff_host::Entropy;
use xoff_rdma::QpConfig;
use xoff_rdma::congestion::{CongestionConfig, ParameterError};
use xoff_workload::{Framing, MessageSpread};

/// The length of the preamble, the start frame delimiter and the interframe gap of Ethernet, in bytes.
const FRAME_OVERHEAD_BYTES: u32 = 20;

/// A transport: a named set of options for the queue pairs of jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransportPlan {
    /// The name of the transport in the lab file. A job without a transport uses the name `default`.
    pub name: String,
    /// The configuration of each queue pair. The queue pair numbers in this configuration are ignored.
    pub qp: QpConfig,
    /// The congestion control algorithm of each queue pair, with its parameters.
    pub congestion: CongestionConfig,
    /// The DSCPs of data packets, acknowledgements and CNPs, in this order, 0 to 63.
    pub dscp: [u8; 3],
    /// The UDP source port of all queue pairs. `None` means that the port of each queue pair is computed from
    /// its queue pair numbers.
    pub source_port: Option<u16>,
    /// The rule that changes the UDP source port from packet to packet. `None` means that the port does
    /// not change.
    pub entropy: Option<Entropy>,
    /// Whether data packets are ECN-capable (ECT(0)), so that switches can mark them CE.
    pub ecn_capable: bool,
    /// The number of queue pairs of each connection, 1 to 4096, for jobs that do not set this number.
    pub qps: u16,
    /// The distribution of messages over the queue pairs, for jobs that do not set the distribution.
    pub spread: MessageSpread,
}

impl TransportPlan {
    /// Creates a transport with the default options.
    ///
    /// By default, each connection has one RC queue pair with the values of [`QpConfig::new`]. Data packets
    /// and acknowledgements have DSCP 26, and CNPs have DSCP 48. Data packets are ECN-capable. There is no
    /// congestion control.
    pub fn new(name: impl Into<String>) -> TransportPlan {
        TransportPlan {
            name: name.into(),
            qp: QpConfig::new(0, 0),
            congestion: CongestionConfig::default(),
            dscp: [26, 26, 48],
            source_port: None,
            entropy: None,
            ecn_capable: true,
            qps: 1,
            spread: MessageSpread::RoundRobin,
        }
    }

    /// Returns the payload length of a full packet and the bytes that this packet occupies on a link. The
    /// bytes on the link include headers, telemetry, preamble and interframe gap.
    pub fn packet_framing(&self) -> Framing {
        Framing {
            payload_bytes: self.qp.mtu,
            wire_bytes: self.qp.mtu + self.qp.header_bytes + self.telemetry_bytes() + FRAME_OVERHEAD_BYTES,
        }
    }

    /// Returns the number of in-band telemetry bytes in a data packet. The acknowledgement of the packet has
    /// the same number. Returns 0 for a congestion control without telemetry, and for invalid parameters.
    pub fn telemetry_bytes(&self) -> u32 {
        let factory = self.congestion.factory();
        let format = factory.ok().and_then(|factory| factory.telemetry_format());
        format.map_or(0, |format| u32::from(format.bytes))
    }

    /// Converts the options for a fabric ([`xoff_fabric`]).
    ///
    /// # Errors
    /// Returns an error if a parameter of the congestion control is invalid. A resolved plan never has
    /// this error.
    pub fn to_job_transport(&self) -> Result<JobTransport, ParameterError> {
        Ok(JobTransport {
            qp: self.qp.clone(),
            congestion: self.congestion.factory()?,
            dscp: self.dscp,
            source_port: self.source_port,
            entropy: self.entropy,
            ecn: if self.ecn_capable { Ecn::Ect0 } else { Ecn::NotEct },
        })
    }
}
