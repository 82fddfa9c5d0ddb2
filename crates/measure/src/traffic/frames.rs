//! The frames of a trial, and the kernel filter for the sink (the receiver). The filter passes only samples,
//! which are frames with a measured latency, and frames that do not come from the generator.

use std::net::Ipv4Addr;

use xoff_wire::bth::{BthFields, Opcode};
use xoff_wire::roce::{Addresses, FlowHeaders, RocePacket};

use xoff_telemetry::count_noun;
use xoff_telemetry::failure::Failure;

/// Destination queue pair of frames that are only counted.
const DATA_QP: u32 = 0x00_50_00;
/// Destination queue pair of samples (frames with a measured latency).
const SAMPLE_QP: u32 = 0x00_50_01;
/// Offsets of two BTH fields in an untagged IPv4 frame: the queue pair and the packet sequence number.
const QP_OFFSET: usize = 47;
const PSN_OFFSET: usize = 51;
/// Bytes of Ethernet, IPv4, UDP, BTH and ICRC.
const HEADERS_BYTES: usize = 14 + 20 + 8 + 12 + 4;
/// UDP source port of the first flow.
const FIRST_SOURCE_PORT: u16 = 0xc000;

/// Settings of the generator's frames. The frames are RoCEv2 SEND ONLY packets over IPv4. All frames of a
/// flow carry the ICRC of the first frame of the flow. This ICRC is wrong for the later frames, but switches
/// do not check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficProfile {
    /// Frame length in bytes without FCS, 60 to 9216.
    pub frame_bytes: u32,
    /// Number of flows, each with its own UDP source port, 1 to 8192.
    pub flows: u16,
    /// DSCP of all frames, 0 to 63.
    pub dscp: u8,
    /// Source MAC address of all frames.
    pub src_mac: [u8; 6],
    /// Destination MAC address. It must differ from the MAC address of the sink's interface. Otherwise, the
    /// kernel of the sink's host would answer the frames.
    pub dst_mac: [u8; 6],
    /// IPv4 source address of all frames.
    pub src: Ipv4Addr,
    /// IPv4 destination address of all frames.
    pub dst: Ipv4Addr,
}

impl TrafficProfile {
    /// Creates a profile of 64 flows with DSCP 26. `frame_bytes` is the frame length without FCS. The MAC
    /// addresses are locally administered. The IPv4 addresses are in 198.18.0.0/15, which RFC 2544 reserves
    /// for tests.
    pub fn new(frame_bytes: u32) -> TrafficProfile {
        TrafficProfile {
            frame_bytes,
            flows: 64,
            dscp: 26,
            src_mac: [0x02, 0x58, 0x4f, 0x10, 0, 1],
            dst_mac: [0x02, 0x58, 0x4f, 0x10, 0, 2],
            src: Ipv4Addr::new(198, 18, 0, 1),
            dst: Ipv4Addr::new(198, 19, 0, 1),
        }
    }

    /// Builds the first frame of each flow.
    ///
    /// # Errors
    /// The frame length or the number of flows is out of range.
    pub(super) fn build_frames(&self) -> Result<Vec<FlowFrame>, Failure> {
        if !(60..=9_216).contains(&self.frame_bytes) || !(1..=8_192).contains(&self.flows) {
            return Err(Failure::usage(format!(
                "test traffic cannot have {} of frames of {} bytes",
                count_noun(u64::from(self.flows), "flow"),
                self.frame_bytes
            ))
            .fix("give 1 to 8192 flows, and 60 to 9216 bytes without FCS"));
        }
        (0..self.flows).map(|flow| self.build_flow_frame(flow)).collect()
    }

    /// Returns the bytes of the first frame of each flow, without FCS, in the order of the flows.
    ///
    /// # Errors
    /// The frame length or the number of flows is out of range.
    pub fn build_frame_bytes(&self) -> Result<Vec<Vec<u8>>, Failure> {
        Ok(self
            .build_frames()?
            .into_iter()
            .map(|frame| frame.bytes)
            .collect())
    }

    fn build_flow_frame(&self, flow: u16) -> Result<FlowFrame, Failure> {
        let addresses = Addresses::V4 {
            src: self.src,
            dst: self.dst,
        };
        let mut headers = FlowHeaders::new(self.src_mac, self.dst_mac, addresses);
        headers.dscp = self.dscp;
        headers.udp_src_port = FIRST_SOURCE_PORT + flow;
        let packet = RocePacket {
            headers: &headers,
            bth: BthFields::new(Opcode::RcSendOnly, DATA_QP, 0),
            extensions: &[],
        };
        let len = self.frame_bytes as usize;
        // Payloads are padded to four bytes. Bytes that remain follow the ICRC as an Ethernet trailer.
        let mut bytes = vec![0; len];
        packet
            .emit(&mut bytes, (len - HEADERS_BYTES) & !3, |payload| {
                payload.fill(0x5a)
            })
            .map_err(|error| Failure::usage("a test frame cannot be built").because(error))?;
        Ok(FlowFrame { bytes })
    }

    /// Returns a frame for the sink to send, from the destination MAC address of the traffic to its source
    /// MAC address. From this frame, bridges learn the port of the destination.
    pub fn learning_frame(&self) -> Vec<u8> {
        let mut bytes = vec![0; 60];
        bytes[0..6].copy_from_slice(&self.src_mac);
        bytes[6..12].copy_from_slice(&self.dst_mac);
        // Local Experimental EtherType 1 (IEEE 802).
        bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
        bytes
    }
}

/// The frame of a flow, which is sent repeatedly.
#[derive(Clone, Debug)]
pub(super) struct FlowFrame {
    pub(super) bytes: Vec<u8>,
}

impl FlowFrame {
    /// Turns the frame into the next counted frame of its flow.
    #[inline]
    pub(super) fn set_data_sequence(&mut self, sequence: u64) {
        self.set_qp_and_psn(DATA_QP, sequence as u32);
    }

    /// Turns the frame into the sample with this number.
    #[inline]
    pub(super) fn set_sample(&mut self, number: u32) {
        self.set_qp_and_psn(SAMPLE_QP, number);
    }

    fn set_qp_and_psn(&mut self, qp: u32, psn: u32) {
        self.bytes[QP_OFFSET..QP_OFFSET + 3].copy_from_slice(&qp.to_be_bytes()[1..]);
        self.bytes[PSN_OFFSET..PSN_OFFSET + 3].copy_from_slice(&psn.to_be_bytes()[1..]);
    }
}

/// Largest number of samples. Sample numbers have 24 bits.
pub(super) const SAMPLES_MAX: usize = 1 << 24;

/// Returns the number of a sample, or `None` if the frame is not a sample.
pub(super) fn sample_number(bytes: &[u8]) -> Option<usize> {
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 3)?;
        Some(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]))
    };
    let is_ours = bytes.get(12..14)? == [0x08, 0x00] && bytes.get(36..38)? == 4791u16.to_be_bytes();
    match number(QP_OFFSET)? {
        SAMPLE_QP if is_ours => number(PSN_OFFSET).map(|number| number as usize),
        _ => None,
    }
}

/// Returns a classic BPF program for the socket of the sink. The program drops the RoCEv2 packets over IPv4
/// that the generator sends to the data queue pair. The device counts these packets anyway. Sample frames,
/// and frames that do not come from the generator, pass the filter.
pub(super) fn sample_filter() -> [libc::sock_filter; 11] {
    const LOAD_B: u16 = 0x30;
    const LOAD_H: u16 = 0x28;
    const LOAD_W: u16 = 0x20;
    const AND: u16 = 0x54;
    const JEQ: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, yes, no, k| libc::sock_filter {
        code,
        jt: yes,
        jf: no,
        k,
    };
    [
        step(LOAD_H, 0, 0, 12),
        step(JEQ, 0, 7, 0x0800),
        step(LOAD_B, 0, 0, 23),
        step(JEQ, 0, 5, 17),
        step(LOAD_H, 0, 0, 36),
        step(JEQ, 0, 3, 4791),
        step(LOAD_W, 0, 0, QP_OFFSET as u32 - 1),
        step(AND, 0, 0, 0x00ff_ffff),
        step(JEQ, 1, 0, DATA_QP),
        // 64 bytes are enough to identify a frame.
        step(RETURN, 0, 0, 64),
        step(RETURN, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter on a frame and returns its result. The interpreter supports only the instructions that
    /// the filter uses.
    fn run_filter(bytes: &[u8]) -> u32 {
        let program = sample_filter();
        let (mut at, mut a) = (0, 0);
        loop {
            let step = program[at];
            let k = step.k as usize;
            let load = |len: usize| {
                bytes[k..k + len]
                    .iter()
                    .fold(0, |sum, b| sum << 8 | u32::from(*b))
            };
            at += 1;
            match step.code {
                0x30 => a = load(1),
                0x28 => a = load(2),
                0x20 => a = load(4),
                0x54 => a &= step.k,
                0x15 => at += usize::from(if a == step.k { step.jt } else { step.jf }),
                0x06 => return step.k,
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn frames_have_the_configured_length_and_one_udp_port_per_flow() {
        for frame_bytes in [60, 64, 1082, 4200, 9216] {
            let frames = TrafficProfile::new(frame_bytes).build_frames().unwrap();
            assert_eq!(frames.len(), 64);
            assert!(
                frames
                    .iter()
                    .all(|frame| frame.bytes.len() == frame_bytes as usize)
            );
            assert_eq!(frames[63].bytes[34..36], (FIRST_SOURCE_PORT + 63).to_be_bytes());
        }
        assert!(TrafficProfile::new(59).build_frames().is_err());
        assert!(TrafficProfile::new(9_217).build_frames().is_err());
    }

    #[test]
    fn the_filter_passes_samples_and_frames_of_other_senders() {
        let traffic = TrafficProfile::new(64);
        let mut frame = traffic.build_frames().unwrap().remove(0);
        frame.set_data_sequence(7);
        assert_eq!(run_filter(&frame.bytes), 0);
        frame.set_sample(0xabcdef);
        assert_eq!(run_filter(&frame.bytes), 64);
        assert_eq!(sample_number(&frame.bytes), Some(0xabcdef));
        let learning_frame = traffic.learning_frame();
        assert_eq!(run_filter(&learning_frame), 64);
        assert_eq!(sample_number(&learning_frame), None);
        frame.bytes[23] = 6;
        assert_eq!(run_filter(&frame.bytes), 64, "not UDP");
        frame.bytes[23] = 17;
        frame.bytes[37] ^= 1;
        assert_eq!(run_filter(&frame.bytes), 64, "not RoCEv2");
        assert_eq!(sample_number(&frame.bytes), None);
    }
}
