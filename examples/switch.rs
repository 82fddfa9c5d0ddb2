//! A switch in your own program: four ports send to a fifth one, and the switch pauses the senders with PFC.
//!
//!     cargo run --example switch
//!
//! The program owns the clock, the frames and the senders. The switch only reacts to frames and deadlines.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its results"
)]

use std::collections::BTreeMap;

use xoff_config::{ResolveOptions, build_preset, load};
use xoff_dataplane::store::VecStore;
use xoff_dataplane::{FrameStore, Picos, PortId, ReceivedFrame};
use xoff_driver::{Step, VirtualSwitch};
use xoff_wire::parse::parse;
use xoff_wire::{Addresses, BthFields, FlowHeaders, Opcode, RocePacket};

const SPEED_MBPS: u32 = 100_000;
const SENDERS: u16 = 4;
const RECEIVER: u16 = 4;
/// Time of a 1082-byte frame with preamble and gap on a link of 100 Gb/s.
const FRAME_TIME: Picos = Picos::from_nanos(89);

/// Events of this program: a sender finishes the transmission of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FrameArrives {
    port: PortId,
}

/// Returns an RDMA WRITE with DSCP 26, which the preset maps to lossless priority 3.
fn roce_frame(port: PortId) -> Vec<u8> {
    let addresses = Addresses::V4 {
        src: [10, 0, 0, port.0 as u8].into(),
        dst: [10, 0, 0, RECEIVER as u8].into(),
    };
    let mut headers = FlowHeaders::new(host_mac(port.0), host_mac(RECEIVER), addresses);
    headers.dscp = 26;
    let packet = RocePacket {
        headers: &headers,
        bth: BthFields::new(Opcode::RcWriteMiddle, 7, 0),
        extensions: &[],
    };
    let mut frame = vec![0; packet.frame_len(1_024)];
    packet
        .emit(&mut frame, 1_024, |payload| payload.fill(0))
        .expect("the buffer has the length of the frame");
    frame
}

fn host_mac(port: u16) -> [u8; 6] {
    [2, 0, 0, 0, 1, port as u8]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 1. A SONiC configuration. Any config_db.json works; the preset writes one for lossless RoCEv2.
    let ports: Vec<(String, u32)> = (0..=RECEIVER)
        .map(|port| (format!("Ethernet{port}"), SPEED_MBPS))
        .collect();
    let config_db = build_preset("roce-lossless", &ports, Picos::ZERO)?.to_json();
    let config = load(&[("preset", &config_db)], &ResolveOptions::default())?
        .resolved
        .config;

    // 2. The switch, a store for its frames, and the links.
    let mut switch: VirtualSwitch<VecStore, FrameArrives> =
        VirtualSwitch::new(&config, VecStore::new(16_384));
    switch.set_links_up();

    // 3. The receiver sends one frame, so that the switch learns its address.
    let mut hello = [0; 60];
    hello[..6].fill(0xff);
    hello[6..12].copy_from_slice(&host_mac(RECEIVER));
    receive(&mut switch, PortId(RECEIVER), &hello);

    // 4. All senders transmit at line rate for 200 us, until the switch pauses them.
    for port in 0..SENDERS {
        switch.schedule(FRAME_TIME, FrameArrives { port: PortId(port) });
    }
    let mut sent_frames = 0;
    let mut pauses: BTreeMap<PortId, Picos> = BTreeMap::new();
    let end = Picos::from_micros(200);
    loop {
        match switch.step(end) {
            Step::Idle => break,
            Step::Event(FrameArrives { port }) => {
                receive(&mut switch, port, &roce_frame(port));
                sent_frames += 1;
                if !pauses.contains_key(&port) {
                    switch.schedule(switch.now().saturating_add(FRAME_TIME), FrameArrives { port });
                }
            }
            Step::Deadline => {}
        }
        let now = switch.now();
        switch.take_departures(|departure, store| {
            let bytes = store.prefix(departure.frame);
            // EtherType 0x8808 and opcode 0x0101: priority flow control (IEEE 802.1Q, 36.1).
            if bytes.get(12..16) == Some(&[0x88, 0x08, 0x01, 0x01]) {
                pauses.entry(departure.port).or_insert(now);
            }
            store.release(departure.frame);
        });
    }

    // 5. The result: every sender was paused, and no frame was lost.
    for (port, at) in &pauses {
        println!("Ethernet{}: first XOFF after {} ns", port.0, at.as_nanos());
    }
    let counters = |port| switch.switch().port_counters(switch.now(), PortId(port));
    let dropped: u64 = (0..=RECEIVER).map(|port| counters(port).dropped_frames()).sum();
    println!("{sent_frames} frames sent, {dropped} dropped");
    assert_eq!(pauses.len(), usize::from(SENDERS));
    assert_eq!(dropped, 0);
    Ok(())
}

/// Hands the switch a frame whose last bit arrives now.
fn receive(switch: &mut VirtualSwitch<VecStore, FrameArrives>, port: PortId, bytes: &[u8]) {
    let Some(frame) = switch.store_mut().insert(bytes) else {
        return;
    };
    let arrival = ReceivedFrame {
        frame,
        frame_len: bytes.len() as u32,
        parsed: parse(bytes),
        received_at: switch.now(),
    };
    switch.receive(port, &arrival);
}
