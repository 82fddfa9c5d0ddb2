//! Sender of an open-loop flow: RDMA messages divided into frames.

use std::net::IpAddr;

use xoff_units::Picos;
use xoff_wire::bth::MASK_24;
use xoff_wire::{BthFields, Extension, FlowHeaders, Opcode, Reth, RocePacket};

use super::config::{FlowConfig, FlowOperation, HostConfig, PATH_MTU_MAX};
use super::pacer::Pacer;
use super::stamp::PayloadStamp;

/// Payload after the stamp. The pattern contains no runs of zeros, so a test can detect a shifted payload.
pub(super) static PATTERN: [u8; PATH_MTU_MAX as usize] = pattern();

const fn pattern() -> [u8; PATH_MTU_MAX as usize] {
    let mut bytes = [0; PATH_MTU_MAX as usize];
    let mut n = 0;
    while n < bytes.len() {
        bytes[n] = (n ^ n >> 8) as u8;
        n += 1;
    }
    bytes
}

/// The next frame of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    opcode: Opcode,
    payload_len: u32,
    last: bool,
}

/// State of one open-loop flow.
#[derive(Clone, Debug)]
pub(super) struct FlowSender {
    config: FlowConfig,
    token: u64,
    headers: FlowHeaders,
    /// IP address of the receiver or gateway. The flow needs its MAC address.
    next_hop: IpAddr,
    resolved: bool,
    /// Start time. `None` if the flow is stopped.
    pub(super) started_at: Option<Picos>,
    pub(super) pacer: Pacer,
    psn: u32,
    /// Number of bytes of the current message that are already sent.
    offset: u32,
    sent_frames: u64,
    sent_payload_bytes: u64,
    /// Time that the flow could not catch up because a call was late.
    late_time: Picos,
}

impl FlowSender {
    /// Creates a flow. [`HostConfig::check`] must have accepted the configuration.
    pub(super) fn new(config: &FlowConfig, host: &HostConfig) -> FlowSender {
        let label = FlowHeaders::flow_label_of_queue_pairs(config.src_qp, config.dst_qp);
        let addresses = host.addresses_to(config.dst_ip);
        let headers = FlowHeaders {
            tag: config.vlan,
            dscp: config.dscp,
            ecn: config.ecn,
            hop_limit: config.ttl,
            flow_label: label,
            udp_src_port: config
                .udp_source_port
                .unwrap_or(FlowHeaders::source_port_of_flow_label(label)),
            ..FlowHeaders::new(host.mac, config.dst_mac.unwrap_or_default(), addresses)
        };
        FlowSender {
            config: config.clone(),
            token: host.token,
            headers,
            next_hop: host.next_hop(config.dst_ip),
            resolved: config.dst_mac.is_some(),
            started_at: None,
            pacer: Pacer::new(config.rate.bits_per_second(&host.nic.link)),
            psn: config.first_psn,
            offset: 0,
            sent_frames: 0,
            sent_payload_bytes: 0,
            late_time: Picos::ZERO,
        }
    }

    pub(super) fn config(&self) -> &FlowConfig {
        &self.config
    }

    /// Returns the IP address of the next hop: a gateway or the receiver.
    pub(super) fn next_hop(&self) -> IpAddr {
        self.next_hop
    }

    pub(super) fn sent_frames(&self) -> u64 {
        self.sent_frames
    }

    pub(super) fn sent_payload_bytes(&self) -> u64 {
        self.sent_payload_bytes
    }

    pub(super) fn late_time(&self) -> Picos {
        self.late_time
    }

    /// Adds time that the flow cannot catch up because a call was late.
    #[cold]
    pub(super) fn add_late_time(&mut self, time: Picos) {
        self.late_time = self.late_time.saturating_add(time);
    }

    /// Returns whether the MAC address of the next hop is known.
    pub(super) fn is_resolved(&self) -> bool {
        self.resolved
    }

    pub(super) fn resolve(&mut self, mac: [u8; 6]) {
        self.headers.dst_mac = mac;
        self.resolved = true;
    }

    /// Returns whether the flow has sent its last frame. A flow without a limit never finishes.
    pub(super) fn is_finished(&self) -> bool {
        self.config.frames_max.is_some_and(|max| self.sent_frames >= max)
    }

    /// Returns the length of the next frame in bytes, without FCS.
    pub(super) fn next_frame_len(&self) -> usize {
        let segment = self.segment();
        let packet = RocePacket {
            headers: &self.headers,
            bth: self.bth(&segment),
            extensions: &[],
        };
        packet.frame_len(segment.payload_len as usize)
    }

    /// Returns the length of the longest frame in bytes, without FCS.
    pub(super) fn frame_len_max(&self) -> usize {
        let bth = BthFields::new(Opcode::RcWriteOnly, 0, 0);
        RocePacket {
            headers: &self.headers,
            bth,
            extensions: &[],
        }
        .frame_len(usize::from(self.config.path_mtu))
    }

    /// Builds the next frame at the start of `buf`, counts it as sent and returns its length. If `buf` is too
    /// short, returns `None` and counts nothing.
    pub(super) fn build_frame(&mut self, wall_ns: u64, buf: &mut [u8]) -> Option<usize> {
        let segment = self.segment();
        let stamp = PayloadStamp {
            token: self.token,
            sequence: self.sent_frames,
            wall_ns,
            flow: self.config.id,
            class: self.config.class,
        };
        let reth = [Extension::Reth(Reth {
            // Every message is written to the same address, as in bandwidth tests.
            virtual_address: u64::from(self.config.id) << 32,
            rkey: self.config.id,
            dma_len: self.config.message_bytes,
        })];
        let extensions: &[Extension] = if segment.opcode.extensions().is_empty() {
            &[]
        } else {
            &reth
        };
        let packet = RocePacket {
            headers: &self.headers,
            bth: self.bth(&segment),
            extensions,
        };
        let fill = |payload: &mut [u8]| {
            let len = payload.len();
            payload.copy_from_slice(&PATTERN[..len]);
            stamp.write(payload);
        };
        let frame_len = packet.emit(buf, segment.payload_len as usize, fill).ok()?;
        self.psn = self.psn.wrapping_add(1) & MASK_24;
        self.offset = if segment.last {
            0
        } else {
            self.offset + segment.payload_len
        };
        self.sent_frames += 1;
        self.sent_payload_bytes += u64::from(segment.payload_len);
        Some(frame_len)
    }

    fn segment(&self) -> Segment {
        let left = self.config.message_bytes - self.offset;
        let payload_len = left.min(u32::from(self.config.path_mtu));
        let last = payload_len == left;
        let [only, first, middle, final_] = match self.config.operation {
            FlowOperation::Write => [
                Opcode::RcWriteOnly,
                Opcode::RcWriteFirst,
                Opcode::RcWriteMiddle,
                Opcode::RcWriteLast,
            ],
            FlowOperation::Send => [
                Opcode::RcSendOnly,
                Opcode::RcSendFirst,
                Opcode::RcSendMiddle,
                Opcode::RcSendLast,
            ],
        };
        let opcode = match (self.offset == 0, last) {
            (true, true) => only,
            (true, false) => first,
            (false, false) => middle,
            (false, true) => final_,
        };
        Segment {
            opcode,
            payload_len,
            last,
        }
    }

    fn bth(&self, segment: &Segment) -> BthFields {
        // The last packet of a message requests an acknowledgement, as from a real requester. The flow does
        // not wait for it.
        BthFields {
            ack_req: segment.last,
            ..BthFields::new(segment.opcode, self.config.dst_qp, self.psn)
        }
    }
}
