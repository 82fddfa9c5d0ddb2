//! Tests of the port mapping and of the frame counts, with generated captures.

use std::io::{self, Cursor};

use proptest::prelude::*;

use super::*;
use xoff_capture::pcapng_writer::{self, InterfaceBlock};
use xoff_capture::{Direction, PacketBlock, Reader};
use xoff_config::{ResolveOptions, load};
use xoff_telemetry::failure::Failure;

const A: Mac = [2, 0, 0, 0, 0, 1];
const B: Mac = [2, 0, 0, 0, 0, 2];
const C: Mac = [2, 0, 0, 0, 0, 3];
const ALL: Mac = [0xff; 6];

/// Builds a frame of 60 bytes.
fn frame_between(destination: Mac, source: Mac) -> Vec<u8> {
    let mut frame = [destination, source].concat();
    frame.extend([0x88, 0xb5]);
    frame.resize(60, 0);
    frame
}

/// Builds a capture with these interfaces and frames. The frames are 1 us apart.
fn build_capture(interfaces: &[&str], frames: &[(u32, Direction, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    pcapng_writer::append_section_header(&mut file, "");
    for name in interfaces {
        let interface = InterfaceBlock {
            name,
            speed_mbps: 1_000,
            mac: None,
            snaplen: 0,
        };
        pcapng_writer::append_interface(&mut file, &interface);
    }
    for (n, (interface, direction, data)) in frames.iter().enumerate() {
        let packet = PacketBlock {
            interface: *interface,
            at_ns: 1_000_000 + 1_000 * n as u64,
            len: data.len() as u32,
            data: [data, &[]],
            direction: *direction,
            queue: None,
            id: None,
            comment: "",
        };
        pcapng_writer::append_packet(&mut file, &packet);
    }
    file
}

fn choose_mapping(
    file: &[u8],
    survey: &CaptureSurvey,
    options: &MappingOptions,
    configured: &ConfiguredPorts,
) -> Result<PortMapping, Failure> {
    let read = || Ok(Reader::new(Cursor::new(file)).unwrap());
    PortMapping::choose(survey, options, configured, read)
}

fn survey_capture(file: &[u8]) -> CaptureSurvey {
    CaptureSurvey::read(Cursor::new(file)).unwrap()
}

/// Records each sent frame as (port, frame number) and each dropped frame as (port, reason, frame number).
#[derive(Default)]
struct RecordedFrames {
    sent: Vec<(u16, u64)>,
    lost: Vec<(u16, &'static str, u64)>,
}

impl FrameSink for RecordedFrames {
    fn write_sent(&mut self, sent: &SentFrame<'_>) -> io::Result<()> {
        self.sent
            .push((sent.port.0, sent.origin.map_or(0, |origin| origin.number)));
        Ok(())
    }
    fn write_dropped(&mut self, dropped: &DroppedFrame<'_>) -> io::Result<()> {
        self.lost
            .push((dropped.port.0, dropped.reason.name(), dropped.origin.number));
        Ok(())
    }
}

fn replay_capture(
    file: &[u8],
    options: &MappingOptions,
    config: &str,
    learn: bool,
) -> (RecordedFrames, ReplayReport) {
    let survey = survey_capture(file);
    let mapping = choose_mapping(file, &survey, options, &ConfiguredPorts::default()).unwrap();
    let how = ResolveOptions {
        ports: mapping.ports.clone(),
        ..ResolveOptions::default()
    };
    let config = load(&[("test", config)], &how).unwrap().resolved.config;
    let mut seen = RecordedFrames::default();
    let mut replay = ReplayRun::new(config, &mapping, &survey, ReplayPace::Captured(1, 1), &mut seen);
    if learn {
        replay.learn_stations(&survey);
    }
    let result = replay.run(&mut Reader::new(Cursor::new(file)).unwrap()).unwrap();
    let report = ReplayReport::new("test", 0, &[], &survey, &mapping, result);
    assert!(report.frames.is_balanced(), "{report:?}");
    (seen, report)
}

fn capture_of_three_stations() -> Vec<u8> {
    let frames = [
        frame_between(B, A),
        frame_between(A, B),
        frame_between(ALL, C),
        frame_between(B, A),
    ];
    build_capture(&["eth0"], &frames.map(|frame| (0, Direction::Unknown, frame)))
}

#[test]
fn each_sender_has_a_port_and_each_frame_leaves_once() {
    let (seen, report) = replay_capture(
        &capture_of_three_stations(),
        &MappingOptions::default(),
        "{}",
        true,
    );
    assert_eq!(seen.sent, [(1, 1), (0, 2), (0, 3), (1, 3), (1, 4)]);
    assert_eq!((report.frames.learnt, report.frames.flood_copies), (3, 1));
    assert_eq!(report.capture.stations_by_port, [1, 1, 1]);
}

#[test]
fn switch_without_learned_stations_floods_first() {
    let (seen, report) = replay_capture(
        &capture_of_three_stations(),
        &MappingOptions::default(),
        "{}",
        false,
    );
    assert_eq!(seen.sent, [(1, 1), (2, 1), (0, 2), (0, 3), (1, 3), (1, 4)]);
    assert_eq!(report.frames.flood_copies, 2);
}

#[test]
fn station_that_never_sends_has_its_own_port() {
    let file = build_capture(&["eth0"], &[(0, Direction::Unknown, frame_between(B, A))]);
    let (seen, report) = replay_capture(&file, &MappingOptions::default(), "{}", true);
    assert_eq!(seen.sent, [(1, 1)]);
    assert_eq!(report.capture.stations, 1);
    let ingress = MappingOptions {
        ingress: Some("Ethernet8".to_owned()),
        ..MappingOptions::default()
    };
    let (seen, report) = replay_capture(&file, &ingress, "{}", true);
    assert_eq!(seen.sent, [(0, 1)]);
    assert_eq!(report.switch.ports[1].rx_packets, 1);
}

#[test]
fn interfaces_become_ports_and_outbound_frames_are_skipped() {
    let frames = [
        (0, Direction::Inbound, frame_between(B, A)),
        (1, Direction::Outbound, frame_between(B, A)),
        (1, Direction::Inbound, frame_between(A, B)),
        (0, Direction::Outbound, frame_between(A, B)),
    ];
    let file = build_capture(&["leaf1:Ethernet12", "leaf1:Ethernet4"], &frames);
    let (seen, report) = replay_capture(&file, &MappingOptions::default(), "{}", true);
    // Ports are named as the interfaces; Ethernet4 comes before Ethernet12.
    assert_eq!(seen.sent, [(0, 1), (1, 3)]);
    assert_eq!(report.switch.ports[1].name, "Ethernet12");
    assert_eq!(report.frames.skipped["outbound"], 2);
    let by_sender = MappingOptions {
        mode: MappingMode::Sender,
        ..MappingOptions::default()
    };
    assert_eq!(replay_capture(&file, &by_sender, "{}", true).1.frames.offered, 4);
}

#[test]
fn flow_control_of_a_switch_is_skipped_and_adds_no_station() {
    let mut pause = frame_between([0x01, 0x80, 0xc2, 0, 0, 1], C);
    pause[12..18].copy_from_slice(&[0x88, 0x08, 0x01, 0x01, 0, 0]);
    let mut of_a = pause.clone();
    of_a[6..12].copy_from_slice(&A);
    let frames = [frame_between(B, A), pause, of_a].map(|frame| (0, Direction::Unknown, frame));
    let (seen, report) = replay_capture(
        &build_capture(&["eth0"], &frames),
        &MappingOptions::default(),
        "{}",
        true,
    );
    assert_eq!(seen.sent, [(1, 1)]);
    assert_eq!(
        (report.frames.skipped["of_a_switch"], report.frames.control),
        (1, 1)
    );
}

#[test]
fn dropped_copy_of_a_flooded_frame_is_counted_alone() {
    // Ethernet4 accepts only short frames.
    let config = r#"{"PORT": {"Ethernet4": {"mtu": "68"}, "Ethernet0": {}, "Ethernet8": {}}}"#;
    let mut long = frame_between(ALL, A);
    long.resize(200, 0);
    let frames =
        [frame_between(ALL, B), frame_between(ALL, C), long].map(|frame| (0, Direction::Unknown, frame));
    let asked = MappingOptions {
        ports: [("Ethernet0", A), ("Ethernet4", B), ("Ethernet8", C)]
            .map(|(port, mac)| (port.to_owned(), FrameSource::Station(mac)))
            .to_vec(),
        ..MappingOptions::default()
    };
    let (seen, report) = replay_capture(&build_capture(&["eth0"], &frames), &asked, config, true);
    assert_eq!(seen.lost, [(1, "EXCEEDS_L2_MTU", 3)]);
    assert_eq!(seen.sent.iter().filter(|(_, number)| *number == 3).count(), 1);
    assert_eq!((report.frames.dropped, report.frames.flood_copies), (1, 3));
}

#[test]
fn mapping_errors_list_the_interfaces_and_ports() {
    let file = capture_of_three_stations();
    let survey = survey_capture(&file);
    let plan = |options: &MappingOptions, ports: &[&str]| {
        let names = ports.iter().map(|port| (*port).to_owned()).collect();
        let configured = ConfiguredPorts {
            names,
            ..ConfiguredPorts::default()
        };
        choose_mapping(&file, &survey, options, &configured)
    };
    let few = plan(&MappingOptions::default(), &["Ethernet0", "Ethernet4"]).unwrap_err();
    assert!(
        few.to_string().contains("3 stations, the switch 2 ports"),
        "{few}"
    );
    let behind = |behind| MappingOptions {
        ports: vec![("Ethernet0".to_owned(), behind)],
        ..MappingOptions::default()
    };
    let unknown = plan(&behind(FrameSource::Interface("eth9".to_owned())), &[]).unwrap_err();
    assert!(
        unknown.to_string().contains("its interfaces are 0 (eth0)"),
        "{unknown}"
    );
    let shared = MappingOptions {
        ports: vec![
            ("Ethernet0".to_owned(), FrameSource::Station(A)),
            ("Ethernet0".to_owned(), FrameSource::Station(C)),
        ],
        ..MappingOptions::default()
    };
    assert_eq!(
        plan(&shared, &["Ethernet0", "Ethernet4"])
            .unwrap()
            .stations_by_port(),
        [2, 1]
    );
}

proptest! {
    /// Any capture is replayed without a panic, and the report accounts for every frame.
    #[test]
    fn every_captured_frame_is_accounted_for(
        frames in prop::collection::vec((0..3_usize, 0..5_usize, prop::collection::vec(any::<u8>(), 0..80), any::<bool>()), 0..40),
        learn in any::<bool>(),
    ) {
        let frames: Vec<_> = frames
            .into_iter()
            .map(|(from, to, rest, whole)| {
                let mut frame = [[A, B, C, ALL, [0x01, 0x80, 0xc2, 0, 0, 1]][to], [A, B, C][from]].concat();
                frame.extend(rest);
                // Some frames are too short for an address.
                frame.truncate(if whole { usize::MAX } else { 9 });
                (0, Direction::Unknown, frame)
            })
            .collect();
        let (_, report) = replay_capture(&build_capture(&["eth0"], &frames), &MappingOptions::default(), "{}", learn);
        let skipped: u64 = report.frames.skipped.values().sum();
        prop_assert_eq!(report.frames.offered + skipped, frames.len() as u64);
        prop_assert!(report.taints.is_empty());
    }
}

/// A capture source that counts the bytes that were read.
struct CountedSource<'a> {
    data: Cursor<&'a [u8]>,
    read_bytes: &'a std::cell::Cell<u64>,
}

impl io::Read for CountedSource<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.data.read(buffer)?;
        self.read_bytes.set(self.read_bytes.get() + got as u64);
        Ok(got)
    }
}

/// Records how much of the capture was read when the first frame left the switch.
struct FirstSentFrame<'a> {
    read_bytes: &'a std::cell::Cell<u64>,
    at_first_frame: u64,
    sent: u64,
}

impl FrameSink for FirstSentFrame<'_> {
    fn write_sent(&mut self, _: &SentFrame<'_>) -> io::Result<()> {
        if self.sent == 0 {
            self.at_first_frame = self.read_bytes.get();
        }
        self.sent += 1;
        Ok(())
    }
    fn write_dropped(&mut self, _: &DroppedFrame<'_>) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_replay_at_link_speed_reads_no_more_frames_than_fit_in_its_memory() {
    // The reader takes 64 KiB at a time, which is a small part of this capture.
    const FRAMES: u64 = 10_000;
    let frames: Vec<_> = (0..FRAMES)
        .map(|_| (0, Direction::Unknown, frame_between(B, A)))
        .collect();
    let file = build_capture(&["eth0"], &frames);
    let survey = survey_capture(&file);
    let options = MappingOptions::default();
    let mapping = choose_mapping(&file, &survey, &options, &ConfiguredPorts::default()).unwrap();
    let run_with_memory = |waiting_bytes_max: usize| {
        let how = ResolveOptions {
            ports: mapping.ports.clone(),
            ..ResolveOptions::default()
        };
        let config = load(&[("test", "{}")], &how).unwrap().resolved.config;
        let read_bytes = std::cell::Cell::new(0);
        let mut sink = FirstSentFrame {
            read_bytes: &read_bytes,
            at_first_frame: 0,
            sent: 0,
        };
        let mut replay = ReplayRun::new(config, &mapping, &survey, ReplayPace::BackToBack, &mut sink);
        replay.set_waiting_bytes_max(waiting_bytes_max);
        replay.learn_stations(&survey);
        let source = CountedSource {
            data: Cursor::new(&file),
            read_bytes: &read_bytes,
        };
        let result = replay.run(&mut Reader::new(source).unwrap()).unwrap();
        assert_eq!(result.tally.offered, FRAMES);
        (sink.at_first_frame, sink.sent)
    };
    let (read_at_once, sent) = run_with_memory(usize::MAX);
    assert_eq!(read_at_once, file.len() as u64);
    let (read_before_first_frame, sent_with_little_memory) = run_with_memory(10_000);
    assert!(read_before_first_frame < file.len() as u64 / 4);
    assert_eq!(sent_with_little_memory, sent);
}
