//! A port under test, its far end, and the test frames.

use libtest_mimic::Failed;
use xoff_dataplane::{FrameHandle, FrameStore};
use xoff_ports::net::{self, Netns};
use xoff_ports::{Arena, ArenaStore, Backend, OpenedPort, Port, PortFrame, PortSpec};

use crate::far_end::FarEnd;
use crate::support::{check, check_equal, wait_for};

/// Source address of all test frames. Frames of the kernel have other source addresses.
pub(crate) const SOURCE: [u8; 6] = [0x02, 0x78, 0x6f, 0x66, 0x66, 0x01];

/// A port under test and its far end.
pub(crate) struct PortTestbed {
    pub(crate) store: ArenaStore,
    pub(crate) port: Port,
    pub(crate) far: FarEnd,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn port_spec(device: &str, backend: Backend, mtu: u32) -> PortSpec {
    PortSpec {
        name: "Ethernet0".to_owned(),
        device: device.to_owned(),
        backend,
        mtu,
    }
}

pub(crate) fn arena_store() -> Result<ArenaStore, Failed> {
    Ok(ArenaStore::new(Arena::new(16_384, 256)?))
}

impl PortTestbed {
    /// Creates `sw0` in the namespace of the calling thread and its far end `h0` in another one, both with
    /// this MTU. A tap backend creates the tap `sw0`.
    pub(crate) fn new(backend: Backend, mtu: u32) -> Result<PortTestbed, Failed> {
        if backend == Backend::Tap {
            // The kernel must not send frames on its end, because they would be counted.
            net::disable_ipv6("default")?;
            return PortTestbed::open_on_device("sw0", &Netns::current()?, backend, mtu);
        }
        let host = Netns::create()?;
        net::add_veth("sw0", "h0", Some(&host), mtu)?;
        PortTestbed::open_on_device("h0", &host, backend, mtu)
    }

    /// Opens a port on `sw0` and its far end on an existing device.
    pub(crate) fn open_on_device(
        far: &str,
        netns: &Netns,
        backend: Backend,
        mtu: u32,
    ) -> Result<PortTestbed, Failed> {
        let mut store = arena_store()?;
        let OpenedPort { mut port, notes } = Port::open(&port_spec("sw0", backend, mtu))?;
        prepare_port(&mut port, &mut store)?;
        let far = FarEnd::open(netns, far)?;
        Ok(PortTestbed {
            store,
            port,
            far,
            notes,
        })
    }

    /// Closes the port and checks that no slot is in use.
    pub(crate) fn close_and_check_slots(mut self) -> Result<(), Failed> {
        check(self.port.close(&mut self.store), || {
            "the port keeps slots".to_owned()
        })?;
        check_equal(self.store.used_slots(), 0, "slots in use")
    }

    /// Receives until `count` test frames have come and returns them in order.
    pub(crate) fn receive(&mut self, count: usize) -> Result<Vec<Vec<u8>>, Failed> {
        let mut frames = Vec::new();
        let store = &mut self.store;
        wait_for(&format!("{count} frames"), || {
            frames.extend(receive_burst(&mut self.port, store)?);
            Ok((frames.len() >= count).then_some(()))
        })?;
        Ok(frames)
    }

    /// Transmits frames. Waits while the device is full.
    pub(crate) fn transmit(&mut self, frames: &[Vec<u8>]) -> Result<(), Failed> {
        let handles: Vec<FrameHandle> = frames
            .iter()
            .map(|frame| store_frame(&mut self.store, frame))
            .collect();
        self.transmit_handles(&handles)?;
        handles.into_iter().for_each(|handle| self.store.release(handle));
        Ok(())
    }

    pub(crate) fn transmit_handles(&mut self, handles: &[FrameHandle]) -> Result<(), Failed> {
        let arena = self.store.shared_arena();
        let mut taken = 0;
        wait_for("the device takes the frames", || {
            let burst = &handles[taken..handles.len().min(taken + 64)];
            taken += self.port.transmit(&arena, burst)?;
            self.far.read_socket()?;
            Ok((taken == handles.len()).then_some(()))
        })
    }

    /// Returns the frames that the far end received. Waits for `count` test frames.
    pub(crate) fn far_receive(&mut self, count: usize) -> Result<Vec<Vec<u8>>, Failed> {
        let mut frames = Vec::new();
        wait_for(&format!("{count} frames at the far end"), || {
            while let Some(frame) = self.far.receive()? {
                if is_test_frame(&frame) {
                    frames.push(frame);
                }
            }
            Ok((frames.len() >= count).then_some(()))
        })?;
        Ok(frames)
    }
}

/// Prepares a port to receive. After this call, the port loses no frame.
pub(crate) fn prepare_port(port: &mut Port, store: &mut ArenaStore) -> Result<(), Failed> {
    port.attach(&store.shared_arena())?;
    receive_burst(port, store).map(drop)
}

/// Receives one burst. Returns its test frames and releases their slots.
pub(crate) fn receive_burst(port: &mut Port, store: &mut ArenaStore) -> Result<Vec<Vec<u8>>, Failed> {
    let mut received: Vec<PortFrame> = Vec::new();
    port.receive(store, 64, &mut received)?;
    let mut frames = Vec::new();
    for frame in received {
        let bytes = store.prefix(frame.frame).to_vec();
        store.release(frame.frame);
        if bytes.len() != frame.frame_len as usize {
            return Err(format!("frame_len {} of {} octets", frame.frame_len, bytes.len()).into());
        }
        if frame.parsed != xoff_wire::parse::parse(&bytes) {
            return Err(format!("parsed wrongly: {:?}", frame.parsed).into());
        }
        if is_test_frame(&bytes) {
            frames.push(bytes);
        }
    }
    Ok(frames)
}

pub(crate) fn store_frame(store: &mut ArenaStore, frame: &[u8]) -> FrameHandle {
    use xoff_ports::SlotSource;
    store
        .store_frame(frame)
        .expect("the arena is large enough for the test")
}

pub(crate) fn is_test_frame(frame: &[u8]) -> bool {
    frame.get(6..12) == Some(&SOURCE[..])
}

/// Returns a frame of `len` bytes with these bytes after the addresses, followed by a pattern.
pub(crate) fn test_frame(after_addresses: &[u8], len: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0x78, 0x6f, 0x66, 0x66, 0x02];
    frame.extend(SOURCE);
    frame.extend(after_addresses);
    frame.extend((frame.len()..len).map(|i| (i * 7) as u8));
    frame
}

/// Returns frames without a VLAN tag for a link of this MTU.
pub(crate) fn untagged_frames(mtu: u32) -> Vec<Vec<u8>> {
    let mut pfc = test_frame(
        &[0x88, 0x08, 0x01, 0x01, 0x00, 0x08, 0, 0, 0, 0, 0, 0, 0xff, 0xff],
        60,
    );
    pfc[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 1]);
    pfc[28..].fill(0);
    vec![
        pfc,
        test_frame(&[0x88, 0xb5], 14),
        test_frame(&[0x88, 0xb5], 20),
        test_frame(&[0x88, 0xb5], 60),
        test_frame(&[0x88, 0xb5], 61),
        test_frame(&[0x08, 0x00, 0x45, 0x02], 1082),
        test_frame(&[0x86, 0xdd, 0x60], 700),
        // A length field instead of an ethertype.
        test_frame(&[0x00, 0x2e], 60),
        test_frame(&[0x88, 0xb5], mtu as usize + 14),
    ]
}

/// Returns tagged frames for a link of this MTU.
pub(crate) fn tagged_frames(mtu: u32) -> Vec<Vec<u8>> {
    vec![
        test_frame(&[0x81, 0x00, 0x60, 0x0a, 0x88, 0xb5], 64),
        test_frame(&[0x88, 0xa8, 0xe0, 0x14, 0x88, 0xb5], 64),
        // Priority tags have VID 0. The tag with PCP 0 is all zeros.
        test_frame(&[0x81, 0x00, 0x00, 0x00, 0x88, 0xb5], 64),
        test_frame(&[0x81, 0x00, 0xa0, 0x00, 0x08, 0x00, 0x45], 200),
        test_frame(&[0x88, 0xa8, 0x00, 0x00, 0x88, 0xb5], 64),
        // Two tags, outer and inner.
        test_frame(&[0x88, 0xa8, 0x00, 0x64, 0x81, 0x00, 0x60, 0x0a, 0x88, 0xb5], 68),
        test_frame(&[0x81, 0x00, 0x00, 0x64, 0x81, 0x00, 0x60, 0x0a, 0x88, 0xb5], 68),
        // The shortest frames that the kernel does not discard when it removes the tag.
        test_frame(&[0x81, 0x00, 0x20, 0x05, 0x88, 0xb5], 20),
        test_frame(&[0x81, 0x00, 0x60, 0x0a, 0x88, 0xb5], mtu as usize + 18),
    ]
}
