//! Tests of unusual valid captures and of randomly damaged captures: every frame is sent, dropped or skipped
//! with a reason.

use std::io::Write;

use proptest::prelude::*;
use serde_json::Value;

use crate::captures::{OutputFrame, ReplayFolder, read_pcapng};

const SECOND: u64 = 1_000_000_000;

/// Returns a frame of 60 bytes from one station to another.
fn frame_between(to: u8, from: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
    frame.resize(60, from);
    frame
}

/// A writer of pcapng blocks.
#[derive(Clone, Default)]
struct PcapngWriter {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl PcapngWriter {
    fn u16(&self, value: u16) -> [u8; 2] {
        if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn u32(&self, value: u32) -> [u8; 4] {
        if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn add_block(&mut self, kind: u32, body: &[u8]) -> &mut PcapngWriter {
        let len = self.u32(12 + body.len().next_multiple_of(4) as u32);
        self.bytes.extend([self.u32(kind), len].concat());
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes.extend(len);
        self
    }

    fn add_section(&mut self, big_endian: bool) -> &mut PcapngWriter {
        self.big_endian = big_endian;
        let body = [&self.u32(0x1a2b_3c4d)[..], &self.u16(1), &self.u16(0), &[0xff; 8]].concat();
        self.add_block(0x0a0d_0d0a, &body)
    }

    /// Returns an option with its padding.
    fn option_bytes(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [self.u16(code), self.u16(value.len() as u16)].concat();
        option.extend(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    fn add_interface(&mut self, link_type: u16, options: &[(u16, &[u8])]) -> &mut PcapngWriter {
        let mut body = [&self.u16(link_type)[..], &[0; 6]].concat();
        options
            .iter()
            .for_each(|(code, value)| body.extend(self.option_bytes(*code, value)));
        self.add_block(1, &body)
    }

    /// Appends an enhanced packet block with a timestamp in microseconds.
    fn add_packet(&mut self, interface: u32, stamp: u64, data: &[u8], options: &[u8]) -> &mut PcapngWriter {
        let len = data.len() as u32;
        let head = [interface, (stamp >> 32) as u32, stamp as u32, len, len]
            .map(|word| self.u32(word))
            .concat();
        let mut body = [&head, data].concat();
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(options);
        self.add_block(6, &body)
    }

    fn add_simple_packet(&mut self, data: &[u8]) -> &mut PcapngWriter {
        let body = [&self.u32(data.len() as u32)[..], data].concat();
        self.add_block(3, &body)
    }
}

fn pcapng_writer() -> PcapngWriter {
    let mut blocks = PcapngWriter::default();
    blocks.add_section(false);
    blocks
}

/// Returns a pcap file of Ethernet frames, each with a timestamp in seconds and a fraction.
fn pcap_file(big_endian: bool, magic: u32, minor: u16, network: u32, frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let order = PcapngWriter {
        big_endian,
        ..PcapngWriter::default()
    };
    let mut file = order.u32(magic).to_vec();
    file.extend([order.u16(2), order.u16(minor)].concat());
    file.extend([0, 0, 65_535, network].map(|word| order.u32(word)).concat());
    for (seconds, data) in frames {
        let (stored, len) = (data.len() as u32, data.len() as u32 + 40);
        let lengths = if minor < 3 { [len, stored] } else { [stored, len] };
        file.extend(
            [*seconds, 7, lengths[0], lengths[1]]
                .map(|word| order.u32(word))
                .concat(),
        );
        if magic == 0xa1b2_cd34 {
            file.extend([0; 8]);
        }
        file.extend(data);
    }
    file
}

/// Replays a capture, which must end with exit code 0. Returns the report and the sent frames.
fn replay_capture(file: &[u8], arguments: &[&str]) -> (Value, Vec<OutputFrame>) {
    let folder = ReplayFolder::new();
    folder.write_file("in", file);
    let (report, frames) = folder.replay_successfully(&[&["in"], arguments].concat());
    assert_all_frames_accounted(&report);
    (report, frames)
}

/// Asserts that the input frames equal the sent, dropped, consumed and skipped frames.
fn assert_all_frames_accounted(report: &Value) {
    let frames = &report["frames"];
    let number = |key: &str| frames[key].as_u64().expect("a count");
    let skipped = frames["skipped"].as_object().expect("counts by reason").values();
    let skipped: u64 = skipped.map(|count| count.as_u64().expect("a count")).sum();
    assert_eq!(report["capture"]["frames"], number("offered") + skipped);
    assert_eq!(number("offered"), number("received") + number("control"));
    assert_eq!(
        number("received") + number("flood_copies") + number("own"),
        number("sent") + number("dropped") + number("punted") + number("queued") + number("held")
    );
}

#[test]
fn every_kind_of_pcap_is_replayed() {
    let frames = [(1, frame_between(2, 1)), (2, frame_between(1, 2))];
    for (magic, minor) in [
        (0xa1b2_c3d4, 4),
        (0xa1b2_3c4d, 4),
        (0xa1b2_cd34, 4),
        (0xa1b2_c3d4, 2),
        (0xa1b2_c3d4, 3),
    ] {
        for big_endian in [false, true] {
            // Each frame has an FCS of two 16-bit words, with and without the flag for it.
            for (network, fcs) in [(1, 0), (0x2400_0001, 4), (0x3000_0001, 0)] {
                let (report, out) =
                    replay_capture(&pcap_file(big_endian, magic, minor, network, &frames), &[]);
                assert_eq!(report["frames"]["sent"], 2);
                // The capture stores 60 of 100 bytes of each frame and no byte of the FCS.
                assert!(
                    out.iter()
                        .all(|frame| (frame.data.len(), frame.len) == (60, 100 - fcs)),
                    "{magic:x} {minor}"
                );
            }
        }
    }
}

#[test]
fn sections_of_both_byte_orders_share_an_interface_by_name() {
    let mut file = pcapng_writer();
    for big_endian in [false, true, false] {
        file.add_section(big_endian).add_interface(1, &[(2, b"eth0")]);
        file.add_packet(0, 5_000_000, &frame_between(2, 1), &[])
            .add_packet(0, 5_000_001, &frame_between(1, 2), &[]);
    }
    let (report, _) = replay_capture(&file.bytes, &[]);
    assert_eq!(
        (&report["frames"]["sent"], &report["frames"]["dropped"]),
        (&6.into(), &0.into())
    );
    assert_eq!(report["capture"]["ports_by"], "sender");
}

#[test]
fn frames_without_a_timestamp_use_the_previous_timestamp() {
    let mut file = pcapng_writer();
    file.add_interface(1, &[])
        .add_simple_packet(&frame_between(2, 1))
        .add_packet(0, 1_000_000, &frame_between(2, 1), &[]);
    file.add_simple_packet(&frame_between(2, 1))
        .add_packet(0, 1_000_900, &frame_between(2, 1), &[]);
    let (report, out) = replay_capture(&file.bytes, &[]);
    assert_eq!(report["capture"]["first_ns"], SECOND);
    assert_eq!(out.len(), 4);
    assert!(out[2].at_ns - out[0].at_ns < 10_000 && out[3].at_ns - out[0].at_ns > 800_000);
    let mut unstamped = pcapng_writer();
    unstamped
        .add_interface(1, &[])
        .add_simple_packet(&frame_between(2, 1));
    assert!(replay_capture(&unstamped.bytes, &[]).0["capture"]["first_ns"].is_null());
}

#[test]
fn an_fcs_is_counted_in_bytes_or_bits() {
    for (fcs_len, stored) in [(0, 60), (2, 58), (4, 56), (16, 58), (32, 56)] {
        let mut file = pcapng_writer();
        file.add_interface(1, &[(13, &[fcs_len])])
            .add_packet(0, 1, &frame_between(2, 1), &[]);
        assert_eq!(
            replay_capture(&file.bytes, &[]).1[0].data.len(),
            stored,
            "if_fcslen {fcs_len}"
        );
    }
}

#[test]
fn unusable_frames_are_skipped_with_a_reason() {
    let mut file = pcapng_writer();
    file.add_interface(1, &[(2, b"eth0")])
        .add_packet(0, 1, &frame_between(2, 1), &[]);
    // A frame of an interface that is declared later, a BSD loopback frame, a frame that is too short, and
    // one that is too long.
    file.add_packet(1, 2, &frame_between(2, 1), &[])
        .add_interface(0, &[(2, b"lo0")]);
    file.add_packet(1, 3, &[2, 0, 0, 0, 0x45, 0], &[])
        .add_packet(0, 4, &[], &[]);
    file.add_packet(0, 5, &vec![2; 300_000], &[]);
    // The stored length of this packet exceeds its block.
    let body = [0, 0, 6, 900, 900].map(|word| file.u32(word)).concat();
    file.add_block(6, &body)
        .add_block(0x0bad, &[9; 8])
        .add_packet(0, 7, &frame_between(1, 2), &[]);
    let (report, _) = replay_capture(&file.bytes, &[]);
    let skipped = &report["frames"]["skipped"];
    for reason in [
        "unknown_interface",
        "other_link_type",
        "no_address",
        "too_long",
        "malformed",
    ] {
        assert_eq!(skipped[reason], 1, "{reason}: {skipped}");
    }
    assert_eq!(
        (&report["frames"]["sent"], &report["capture"]["frames"]),
        (&2.into(), &7.into())
    );
}

#[test]
fn blocks_without_a_frame_are_skipped_at_any_length() {
    let mut file = pcapng_writer();
    // The interface description has two bytes, so the link type of its packets is unknown.
    file.add_block(1, &[1, 0]).add_interface(1, &[]);
    file.add_block(0x0bad, &vec![9; 17 << 20]);
    file.add_packet(0, 1, &frame_between(2, 1), &[])
        .add_packet(1, 2, &frame_between(2, 1), &[]);
    file.add_packet(1, 3, &vec![2; 17 << 20], &[]);
    file.add_packet(1, 4, &frame_between(1, 2), &[]);
    let (report, _) = replay_capture(&file.bytes, &[]);
    let skipped = serde_json::json!({"too_long": 1, "unknown_interface": 1});
    assert_eq!(
        (&report["frames"]["sent"], &report["frames"]["skipped"]),
        (&2.into(), &skipped)
    );
}

#[test]
fn a_capture_may_have_thousands_of_interfaces() {
    let mut file = pcapng_writer();
    for number in 0..3_000_u32 {
        file.add_interface(1, &[]);
        let (to, from) = if number % 2 == 0 { (2, 1) } else { (1, 2) };
        file.add_packet(number, u64::from(number), &frame_between(to, from), &[]);
    }
    for number in 0..3_000_u32 {
        let name = format!("Ethernet{number}");
        file.add_section(true).add_interface(1, &[(2, name.as_bytes())]);
        file.add_packet(0, 9_000 + u64::from(number), &frame_between(2, 1), &[]);
    }
    let (report, _) = replay_capture(&file.bytes, &[]);
    assert_eq!(report["frames"]["sent"], 6_000);
}

#[test]
fn an_unknown_major_version_of_pcapng_is_refused() {
    let folder = ReplayFolder::new();
    let mut file = pcapng_writer();
    file.add_interface(1, &[])
        .add_packet(0, 1, &frame_between(2, 1), &[]);
    file.bytes[12] = 2;
    folder.write_file("in", &file.bytes);
    let output = folder.replay(&["in", "--out", "out.pcapng"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("version 2.0 of pcapng"));
}

#[test]
fn malformed_options_lose_no_frame() {
    let mut file = pcapng_writer();
    file.add_interface(1, &[(9, &[])])
        .add_packet(0, 1, &frame_between(2, 1), &[2, 0, 255, 255]);
    file.add_packet(0, 2, &frame_between(1, 2), &[2, 0, 2, 0, 1, 0, 0, 0]);
    assert_eq!(replay_capture(&file.bytes, &[]).0["frames"]["sent"], 2);
}

#[test]
fn obsolete_packet_blocks_are_read() {
    let mut file = pcapng_writer();
    file.add_interface(1, &[]);
    let head = [0, 0, 1, 60, 60].map(|word| file.u32(word)).concat();
    file.add_block(2, &[head, frame_between(2, 1)].concat());
    assert_eq!(replay_capture(&file.bytes, &[]).0["frames"]["sent"], 1);
}

#[test]
fn gaps_over_an_hour_are_cut_and_counted() {
    let stamps = [1_000_000_000, 1_000_000_001, 1_400_000_000, 5, 1_400_000_000];
    let frames = stamps.map(|seconds| (seconds, frame_between(2, 1)));
    let (report, out) = replay_capture(&pcap_file(false, 0xa1b2_c3d4, 4, 1, &frames), &[]);
    assert_eq!(report["frames"]["gaps_cut"], 3);
    assert_eq!((out[4].at_ns - out[0].at_ns) / SECOND, 4);
}

#[test]
fn a_capture_without_ethernet_frames_is_refused() {
    let folder = ReplayFolder::new();
    let mut file = pcapng_writer();
    file.add_interface(101, &[]).add_packet(0, 1, &[0x45; 40], &[]);
    folder.write_file("in", &file.bytes);
    let output = folder.replay(&["in", "--out", "out.pcapng"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("101 (raw IP)"));
}

#[test]
fn a_compressed_capture_is_replayed() {
    let file = pcap_file(
        false,
        0xa1b2_c3d4,
        4,
        1,
        &[(1, frame_between(2, 1)), (2, frame_between(1, 2))],
    );
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&file).expect("memory");
    let compressed = encoder.finish().expect("memory");
    assert_eq!(replay_capture(&compressed, &[]).0["frames"]["sent"], 2);
}

#[test]
fn the_port_mapping_with_fewer_losses_is_used() {
    // Both interfaces see both directions of one conversation, as two taps do.
    let mut taps = pcapng_writer();
    taps.add_interface(1, &[(2, b"tap0")])
        .add_interface(1, &[(2, b"tap1")]);
    for n in 0..8 {
        let (to, from) = if n % 2 == 0 { (2, 1) } else { (1, 2) };
        taps.add_packet(n / 4, 10 * u64::from(n), &frame_between(to, from), &[]);
    }
    let (report, _) = replay_capture(&taps.bytes, &[]);
    assert_eq!(
        (&report["frames"]["sent"], &report["capture"]["ports_by"]),
        (&8.into(), &"sender".into())
    );
    let (report, _) = replay_capture(&taps.bytes, &["--map", "interface"]);
    assert_eq!(report["frames"]["same_port"], 7);
    // Each interface sees one station.
    let mut ports = pcapng_writer();
    ports
        .add_interface(1, &[(2, b"p0")])
        .add_interface(1, &[(2, b"p1")]);
    ports
        .add_packet(0, 1, &frame_between(2, 1), &[])
        .add_packet(1, 2, &frame_between(1, 2), &[]);
    assert_eq!(
        replay_capture(&ports.bytes, &[]).0["capture"]["ports_by"],
        "interface"
    );
    // A host captures its own transmissions, and no other interface has these frames.
    let mut host = pcapng_writer();
    host.add_interface(1, &[(2, b"eth0")])
        .add_interface(1, &[(2, b"eth1")]);
    let flags = |outbound: u32| [host.option_bytes(2, &outbound.to_le_bytes()), vec![0; 4]].concat();
    let (inbound, outbound) = (flags(1), flags(2));
    host.add_packet(0, 1, &frame_between(2, 1), &outbound)
        .add_packet(0, 2, &frame_between(1, 2), &inbound);
    host.add_packet(1, 3, &frame_between(3, 1), &outbound);
    assert_eq!(replay_capture(&host.bytes, &[]).0["frames"]["sent"], 3);
}

#[test]
fn more_stations_than_ports_share_ports_without_loss() {
    let frames = (0..1_500_u32).map(|n| {
        let mut data = frame_between(0, 0);
        data[2..6].copy_from_slice(&((n + 1) % 1_500 + 1).to_be_bytes());
        data[8..12].copy_from_slice(&(n + 1).to_be_bytes());
        (1, data)
    });
    let (report, _) = replay_capture(
        &pcap_file(false, 0xa1b2_c3d4, 4, 1, &frames.collect::<Vec<_>>()),
        &[],
    );
    assert_eq!(
        (&report["frames"]["sent"], &report["frames"]["same_port"]),
        (&1_500.into(), &0.into())
    );
}

#[test]
fn frames_cut_below_the_ip_header_keep_their_class_or_are_reported() {
    let ip = |stored: usize| {
        let mut data = frame_between(2, 1);
        data[12..18].copy_from_slice(&[0x08, 0, 0x45, 26 << 2, 0, 30]);
        data.truncate(stored);
        data
    };
    for (stored, class) in [(60, 3), (18, 3), (16, 3), (15, 0), (14, 0), (13, 0), (12, 0)] {
        let file = pcap_file(false, 0xa1b2_c3d4, 4, 1, &[(1, ip(stored))]);
        let (report, out) = replay_capture(&file, &["--preset", "roce-lossless"]);
        let classes = &report["switch"]["ports"][0]["rx_class_packets"];
        assert_eq!(classes[class], 1, "{stored}: {classes}");
        assert_eq!(report["capture"]["without_class"], u64::from(stored < 16));
        // The frame is complete although the capture does not store its ethertype.
        assert_eq!(out.len(), 1, "{stored}");
        assert!(
            out.iter()
                .all(|frame| frame.data.len() == stored && frame.len == stored as u32 + 40)
        );
    }
}

#[test]
fn pfc_frames_from_address_zero_can_be_mapped_to_a_port() {
    let mut pfc = vec![
        1, 0x80, 0xc2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x88, 8, 1, 1, 0, 8, 0, 0, 0, 0, 0, 0, 255, 255,
    ];
    pfc.resize(60, 0);
    let file = pcap_file(false, 0xa1b2_c3d4, 4, 1, &[(1, frame_between(2, 1)), (1, pfc)]);
    let port = "Ethernet4=02:00:00:00:00:02,00:00:00:00:00:00";
    let (report, _) = replay_capture(&file, &["--preset", "roce-lossless", "--port", port]);
    assert_eq!(report["switch"]["ports"][1]["pfc_rx"][3], 1);
    assert_eq!(
        replay_capture(&file, &[]).0["frames"]["skipped"]["of_a_switch"],
        1
    );
}

#[test]
fn stations_are_not_mapped_to_ports_that_are_down() {
    let folder = ReplayFolder::new();
    folder.write_file(
        "in",
        pcap_file(
            false,
            0xa1b2_c3d4,
            4,
            1,
            &[(1, frame_between(2, 1)), (2, frame_between(1, 2))],
        ),
    );
    folder.write_file(
        "c.json",
        r#"{"PORT": {"Ethernet0": {"admin_status": "down"}, "Ethernet4": {}, "Ethernet8": {}}}"#,
    );
    let output = folder.replay(&["in", "--config", "c.json", "--out", "out.pcapng"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("command line"));
    assert_eq!(read_pcapng(&folder.path("out.pcapng")).1.len(), 2);
}

/// Returns a capture with many kinds of blocks and frames.
fn mixed_capture() -> Vec<u8> {
    let mut file = pcapng_writer();
    file.add_interface(1, &[(2, b"eth0"), (9, &[9])])
        .add_interface(0, &[(2, b"lo0")]);
    file.add_packet(0, 1_000, &frame_between(2, 1), &[])
        .add_simple_packet(&frame_between(1, 2))
        .add_packet(1, 2_000, &[2; 20], &[]);
    file.add_section(true)
        .add_interface(1, &[(2, b"eth1")])
        .add_packet(0, 5, &frame_between(3, 1), &[])
        .add_packet(0, 9, &frame_between(255, 3), &[]);
    file.bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// A damaged capture causes no panic, and all frames are accounted for.
    #[test]
    fn all_frames_of_a_damaged_capture_are_accounted_for(
        ng in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let frames = [(1, frame_between(2, 1)), (9_000, frame_between(1, 2)), (3, frame_between(3, 2))];
        let mut file = if ng { mixed_capture() } else { pcap_file(true, 0xa1b2_c3d4, 3, 1, &frames) };
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        // The cut keeps most of the capture.
        file.truncate(file.len() - cut.index(file.len()) / 4);
        let folder = ReplayFolder::new();
        folder.write_file("in", &file);
        let output = folder.replay(&["in", "--out", "out.pcapng", "--json"]);
        let code = output.status.code();
        prop_assert!(matches!(code, Some(0 | 3 | 5)), "{:?}", output);
        if code != Some(3) {
            assert_all_frames_accounted(&serde_json::from_slice(&output.stdout).expect("JSON"));
        }
    }
}
