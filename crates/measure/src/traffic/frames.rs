//! The frames of a trial.

use std::net::Ipv4Addr;

use xoff_wire::bth::{BthFields, Opcode};
use xoff_wire::roce::{Addresses, FlowHeaders, RocePacket};

use xoff_telemetry::failure::Failure;

/// Queue pair of frames that are counted only.
const DATA_QP: u32 = 0x00_50_00;
/// Queue pair of frames whose latency is measured.
const SAMPLE_QP: u32 = 0x00_50_01;
/// Where the BTH's queue pair and packet sequence number lie in an untagged IPv4 frame, each behind an octet of its own.
const QP_AT: usize = 47;
const PSN_AT: usize = 51;
/// Ethernet, IPv4, UDP, BTH, ICRC.
const HEADERS_BYTES: usize = 14 + 20 + 8 + 12 + 4;
/// First UDP source port of the flows.
const FIRST_SOURCE_PORT: u16 = 0xc000;

/// What the generator sends: RoCEv2 over IPv4, SEND ONLY. The ICRC is that of the first frame of each flow: nobody on the way checks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Length of a frame in octets without FCS, 60 to 9216.
    pub frame_bytes: u32,
    /// UDP source ports, 1 to 8192.
    pub flows: u16,
    /// DSCP.
    pub dscp: u8,
    /// Link address of the generator.
    pub src_mac: [u8; 6],
    /// Link address the frames go to. Not the sink's own: its kernel would answer.
    pub dst_mac: [u8; 6],
    /// IPv4 address of the generator.
    pub src: Ipv4Addr,
    /// IPv4 address the frames go to.
    pub dst: Ipv4Addr,
}

impl Traffic {
    /// Frames of this length in 64 flows of DSCP 26, between locally administered link addresses and addresses of 198.18.0.0/15, which
    /// RFC 2544 has for tests.
    pub fn new(frame_bytes: u32) -> Traffic {
        Traffic {
            frame_bytes,
            flows: 64,
            dscp: 26,
            src_mac: [0x02, 0x58, 0x4f, 0x10, 0, 1],
            dst_mac: [0x02, 0x58, 0x4f, 0x10, 0, 2],
            src: Ipv4Addr::new(198, 18, 0, 1),
            dst: Ipv4Addr::new(198, 19, 0, 1),
        }
    }

    /// The frames, one of each flow.
    ///
    /// # Errors
    /// A length or a number of flows out of range.
    pub(super) fn build(&self) -> Result<Vec<Frame>, Failure> {
        if !(60..=9_216).contains(&self.frame_bytes) || !(1..=8_192).contains(&self.flows) {
            return Err(Failure::usage(format!(
                "no test traffic has {} flows of frames of {} bytes",
                self.flows, self.frame_bytes
            ))
            .fix("give 1 to 8192 flows, and 60 to 9216 bytes without FCS"));
        }
        (0..self.flows).map(|flow| self.frame(flow)).collect()
    }

    /// The frames of all flows, one of each, as octets.
    ///
    /// # Errors
    /// A length or a number of flows out of range.
    pub fn frames(&self) -> Result<Vec<Vec<u8>>, Failure> {
        Ok(self.build()?.into_iter().map(|frame| frame.bytes).collect())
    }

    fn frame(&self, flow: u16) -> Result<Frame, Failure> {
        let addresses = Addresses::V4 {
            src: self.src,
            dst: self.dst,
        };
        let mut path = FlowHeaders::new(self.src_mac, self.dst_mac, addresses);
        path.dscp = self.dscp;
        path.udp_src_port = FIRST_SOURCE_PORT + flow;
        let packet = RocePacket {
            headers: &path,
            bth: BthFields::new(Opcode::RcSendOnly, DATA_QP, 0),
            extensions: &[],
        };
        let len = self.frame_bytes as usize;
        // Payloads are padded to four octets; the rest of the length lies behind the ICRC, as an Ethernet trailer does.
        let mut bytes = vec![0; len];
        packet
            .emit(&mut bytes, (len - HEADERS_BYTES) & !3, |payload| {
                payload.fill(0x5a)
            })
            .map_err(|error| Failure::usage("a test frame cannot be built").because(error))?;
        Ok(Frame { bytes })
    }

    /// A frame that teaches bridges where the destination is, sent by the sink.
    pub fn hello(&self) -> Vec<u8> {
        let mut bytes = vec![0; 60];
        bytes[0..6].copy_from_slice(&self.src_mac);
        bytes[6..12].copy_from_slice(&self.dst_mac);
        // Local Experimental EtherType 1 (IEEE 802).
        bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
        bytes
    }
}

/// A frame of a flow, sent over and over.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
}

impl Frame {
    /// Makes it the next frame of its flow.
    #[inline]
    pub(super) fn set_data(&mut self, sequence: u64) {
        self.set(DATA_QP, sequence as u32);
    }

    /// Makes it a sample of this number.
    #[inline]
    pub(super) fn set_sample(&mut self, number: u32) {
        self.set(SAMPLE_QP, number);
    }

    fn set(&mut self, qp: u32, psn: u32) {
        self.bytes[QP_AT..QP_AT + 3].copy_from_slice(&qp.to_be_bytes()[1..]);
        self.bytes[PSN_AT..PSN_AT + 3].copy_from_slice(&psn.to_be_bytes()[1..]);
    }
}

/// Samples have numbers of 24 bits.
pub(super) const SAMPLES_MAX: usize = 1 << 24;

/// What a frame is that the filter has let through: a sample and its number, or a stranger's.
pub(super) fn sample_of(bytes: &[u8]) -> Option<usize> {
    let number = |at: usize| {
        let octets = bytes.get(at..at + 3)?;
        Some(u32::from_be_bytes([0, octets[0], octets[1], octets[2]]))
    };
    let is_ours = bytes.get(12..14)? == [0x08, 0x00] && bytes.get(36..38)? == 4791u16.to_be_bytes();
    match number(QP_AT)? {
        SAMPLE_QP if is_ours => number(PSN_AT).map(|number| number as usize),
        _ => None,
    }
}

/// Classic BPF that drops the generator's frames but for samples: RoCEv2 over IPv4 to the data queue pair.
pub(super) fn filter() -> [libc::sock_filter; 11] {
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
        step(LOAD_W, 0, 0, QP_AT as u32 - 1),
        step(AND, 0, 0, 0x00ff_ffff),
        step(JEQ, 1, 0, DATA_QP),
        // As much as tells what it is.
        step(RETURN, 0, 0, 64),
        step(RETURN, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter says of a frame: an interpreter of the few instructions it has.
    fn run(bytes: &[u8]) -> u32 {
        let program = filter();
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
    fn frames_have_the_length_that_was_asked_for_and_every_flow_its_port() {
        for frame_bytes in [60, 64, 1082, 4200, 9216] {
            let frames = Traffic::new(frame_bytes).build().unwrap();
            assert_eq!(frames.len(), 64);
            assert!(
                frames
                    .iter()
                    .all(|frame| frame.bytes.len() == frame_bytes as usize)
            );
            assert_eq!(frames[63].bytes[34..36], (FIRST_SOURCE_PORT + 63).to_be_bytes());
        }
        assert!(Traffic::new(59).build().is_err());
        assert!(Traffic::new(9_217).build().is_err());
    }

    #[test]
    fn the_filter_lets_samples_and_strangers_through() {
        let traffic = Traffic::new(64);
        let mut frame = traffic.build().unwrap().remove(0);
        frame.set_data(7);
        assert_eq!(run(&frame.bytes), 0);
        frame.set_sample(0xabcdef);
        assert_eq!(run(&frame.bytes), 64);
        assert_eq!(sample_of(&frame.bytes), Some(0xabcdef));
        let hello = traffic.hello();
        assert_eq!(run(&hello), 64);
        assert_eq!(sample_of(&hello), None);
        frame.bytes[23] = 6;
        assert_eq!(run(&frame.bytes), 64, "not UDP");
        frame.bytes[23] = 17;
        frame.bytes[37] ^= 1;
        assert_eq!(run(&frame.bytes), 64, "not RoCEv2");
        assert_eq!(sample_of(&frame.bytes), None);
    }
}
