//! How connections of jobs are set up.

use serde::{Deserialize, Serialize};
use xoff_wire::Ecn;

use xoff_fabric::JobTransport;
use xoff_host::Entropy;
use xoff_rdma::QpConfig;
use xoff_rdma::congestion::{CongestionConfig, ParameterError};
use xoff_workload::{Framing, MessageSpread};

/// Preamble, start delimiter and gap of Ethernet, bytes.
const BETWEEN_FRAMES_BYTES: u32 = 20;

/// Options of connections under a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransportPlan {
    /// The name.
    pub name: String,
    /// Each queue pair, but for its numbers.
    pub qp: QpConfig,
    /// Its congestion control.
    pub congestion: CongestionConfig,
    /// DSCP of data, of acknowledgements and of CNPs.
    pub dscp: [u8; 3],
    /// UDP source port of all its queue pairs; `None` derives each from the queue pair's numbers.
    pub source_port: Option<u16>,
    /// Source ports that change with each packet, from that one on; `None`: they do not.
    pub entropy: Option<Entropy>,
    /// Whether switches may mark its packets.
    pub ecn_capable: bool,
    /// Queue pairs of each connection, unless a job says otherwise.
    pub qps: u16,
    /// How they share messages, unless a job says otherwise.
    pub spread: MessageSpread,
}

impl TransportPlan {
    /// RC, DSCP 26 in class 3, CNPs with DSCP 48 in class 6, ECN-capable, no congestion control, one queue pair; the rest as
    /// [`QpConfig::new`] says.
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

    /// Bytes that a full packet takes of a link, preamble and gap included.
    pub fn framing(&self) -> Framing {
        Framing {
            payload_bytes: self.qp.mtu,
            wire_bytes: self.qp.mtu + self.qp.header_bytes + self.telemetry_bytes() + BETWEEN_FRAMES_BYTES,
        }
    }

    /// Bytes of telemetry in a data packet and in its acknowledgement.
    pub fn telemetry_bytes(&self) -> u32 {
        let factory = self.congestion.factory();
        let format = factory.ok().and_then(|factory| factory.telemetry_format());
        format.map_or(0, |format| u32::from(format.bytes))
    }

    /// The same for a fabric.
    ///
    /// # Errors
    /// Parameters of the congestion control that it does not take; those of a checked plan are good.
    pub fn transport(&self) -> Result<JobTransport, ParameterError> {
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
