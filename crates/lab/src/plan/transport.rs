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

/// A named set of options for the queue pairs of jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransportPlan {
    /// The name of the transport in the lab file.
    pub name: String,
    /// The configuration of each queue pair. The queue pair numbers in this configuration are ignored.
    pub qp: QpConfig,
    /// The congestion control of each queue pair.
    pub congestion: CongestionConfig,
    /// The DSCP of data packets, of acknowledgements and of CNPs.
    pub dscp: [u8; 3],
    /// The UDP source port of all queue pairs. `None` means that the port of each queue pair is computed from
    /// its queue pair numbers.
    pub source_port: Option<u16>,
    /// The rule by which the UDP source port changes from packet to packet. `None` means that the port does
    /// not change.
    pub entropy: Option<Entropy>,
    /// Whether switches may mark the packets.
    pub ecn_capable: bool,
    /// The number of queue pairs of each connection, for jobs that do not set this number.
    pub qps: u16,
    /// The distribution of messages over the queue pairs, for jobs that do not set the distribution.
    pub spread: MessageSpread,
}

impl TransportPlan {
    /// Creates a transport with the default options.
    ///
    /// By default, a transport has RC queue pairs with the values of [`QpConfig::new`], one for each
    /// connection. Packets are ECN-capable and have DSCP 26, and CNPs have DSCP 48. There is
    /// no congestion control.
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

    /// Returns the payload length of a full packet and the number of bytes that the packet occupies on a
    /// link, with preamble and interframe gap.
    pub fn packet_framing(&self) -> Framing {
        Framing {
            payload_bytes: self.qp.mtu,
            wire_bytes: self.qp.mtu + self.qp.header_bytes + self.telemetry_bytes() + FRAME_OVERHEAD_BYTES,
        }
    }

    /// Returns the number of telemetry bytes that a data packet contains. The acknowledgement of the packet
    /// contains the same number.
    pub fn telemetry_bytes(&self) -> u32 {
        let factory = self.congestion.factory();
        let format = factory.ok().and_then(|factory| factory.telemetry_format());
        format.map_or(0, |format| u32::from(format.bytes))
    }

    /// Converts the options for a fabric.
    ///
    /// # Errors
    /// A parameter of the congestion control is invalid. This error does not occur for a resolved plan.
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
