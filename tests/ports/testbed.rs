//! A port, its far end, and frames to send between them.

use libtest_mimic::Failed;
use xoff_dataplane::{FrameHandle, FrameStore};
use xoff_ports::net::{self, Netns};
use xoff_ports::{Arena, ArenaStore, Backend, OpenedPort, Port, PortFrame, PortSpec};

use crate::far::Far;
use crate::support::{check, same, wait_for};

/// The source address of all test frames: what the kernel sends by itself has another.
pub(crate) const SOURCE: [u8; 6] = [0x02, 0x78, 0x6f, 0x66, 0x66, 0x01];

/// A port under test and its far end.
pub(crate) struct Bed {
    pub(crate) store: ArenaStore,
    pub(crate) port: Port,
    pub(crate) far: Far,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn spec(device: &str, backend: Backend, mtu: u32) -> PortSpec {
    PortSpec {
        name: "Ethernet0".to_owned(),
        device: device.to_owned(),
        backend,
        mtu,
    }
}

pub(crate) fn store() -> Result<ArenaStore, Failed> {
    Ok(ArenaStore::new(Arena::new(16_384, 256)?))
}

impl Bed {
    /// `sw0` in the calling thread's namespace and its far end `h0` in another, with this MTU on both; or a tap `sw0`.
    pub(crate) fn new(backend: Backend, mtu: u32) -> Result<Bed, Failed> {
        if backend == Backend::Tap {
            // The kernel must not speak on its end: what it sends would be counted too.
            net::disable_ipv6("default")?;
            return Bed::on("sw0", &Netns::current()?, backend, mtu);
        }
        let host = Netns::create()?;
        net::add_veth("sw0", "h0", Some(&host), mtu)?;
        Bed::on("h0", &host, backend, mtu)
    }

    /// A port on `sw0`, and its far end on a device that exists then.
    pub(crate) fn on(far: &str, netns: &Netns, backend: Backend, mtu: u32) -> Result<Bed, Failed> {
        let mut store = store()?;
        let OpenedPort { mut port, notes } = Port::open(&spec("sw0", backend, mtu))?;
        attach(&mut port, &mut store)?;
        let far = Far::open(netns, far)?;
        Ok(Bed {
            store,
            port,
            far,
            notes,
        })
    }

    /// Ends the port; then no slot is in use.
    pub(crate) fn leaves_no_slot(mut self) -> Result<(), Failed> {
        check(self.port.close(&mut self.store), || {
            "the port keeps slots".to_owned()
        })?;
        same(self.store.used_slots(), 0, "slots in use")
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

    /// Transmits frames, waiting where the device is full.
    pub(crate) fn transmit(&mut self, frames: &[Vec<u8>]) -> Result<(), Failed> {
        let handles: Vec<FrameHandle> = frames
            .iter()
            .map(|frame| stored(&mut self.store, frame))
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
            self.far.collect()?;
            Ok((taken == handles.len()).then_some(()))
        })
    }

    /// What the far end has received, until `count` test frames have come.
    pub(crate) fn far_receive(&mut self, count: usize) -> Result<Vec<Vec<u8>>, Failed> {
        let mut frames = Vec::new();
        wait_for(&format!("{count} frames at the far end"), || {
            while let Some(frame) = self.far.receive()? {
                if is_ours(&frame) {
                    frames.push(frame);
                }
            }
            Ok((frames.len() >= count).then_some(()))
        })?;
        Ok(frames)
    }
}

/// Makes a port ready: from here on it loses nothing.
pub(crate) fn attach(port: &mut Port, store: &mut ArenaStore) -> Result<(), Failed> {
    port.attach(&store.shared_arena())?;
    receive_burst(port, store).map(drop)
}

/// One burst of test frames; their slots are free again.
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
        if is_ours(&bytes) {
            frames.push(bytes);
        }
    }
    Ok(frames)
}

pub(crate) fn stored(store: &mut ArenaStore, frame: &[u8]) -> FrameHandle {
    use xoff_ports::SlotSource;
    store
        .store_frame(frame)
        .expect("the arena is large enough for the test")
}

pub(crate) fn is_ours(frame: &[u8]) -> bool {
    frame.get(6..12) == Some(&SOURCE[..])
}

/// A frame of `len` octets with these octets behind the addresses, then a pattern.
pub(crate) fn frame(behind_addresses: &[u8], len: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0x78, 0x6f, 0x66, 0x66, 0x02];
    frame.extend(SOURCE);
    frame.extend(behind_addresses);
    frame.extend((frame.len()..len).map(|i| (i * 7) as u8));
    frame
}

/// Frames without a VLAN tag for a link of this MTU.
pub(crate) fn untagged(mtu: u32) -> Vec<Vec<u8>> {
    let mut pfc = frame(
        &[0x88, 0x08, 0x01, 0x01, 0x00, 0x08, 0, 0, 0, 0, 0, 0, 0xff, 0xff],
        60,
    );
    pfc[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 1]);
    pfc[28..].fill(0);
    vec![
        pfc,
        frame(&[0x88, 0xb5], 14),
        frame(&[0x88, 0xb5], 20),
        frame(&[0x88, 0xb5], 60),
        frame(&[0x88, 0xb5], 61),
        frame(&[0x08, 0x00, 0x45, 0x02], 1082),
        frame(&[0x86, 0xdd, 0x60], 700),
        // A length field instead of a type.
        frame(&[0x00, 0x2e], 60),
        frame(&[0x88, 0xb5], mtu as usize + 14),
    ]
}

/// Tagged frames for a link of this MTU.
pub(crate) fn tagged(mtu: u32) -> Vec<Vec<u8>> {
    vec![
        frame(&[0x81, 0x00, 0x60, 0x0a, 0x88, 0xb5], 64),
        frame(&[0x88, 0xa8, 0xe0, 0x14, 0x88, 0xb5], 64),
        // Priority tags: VID 0, and the one of PCP 0 is all zeros.
        frame(&[0x81, 0x00, 0x00, 0x00, 0x88, 0xb5], 64),
        frame(&[0x81, 0x00, 0xa0, 0x00, 0x08, 0x00, 0x45], 200),
        frame(&[0x88, 0xa8, 0x00, 0x00, 0x88, 0xb5], 64),
        // Two tags, outer and inner.
        frame(&[0x88, 0xa8, 0x00, 0x64, 0x81, 0x00, 0x60, 0x0a, 0x88, 0xb5], 68),
        frame(&[0x81, 0x00, 0x00, 0x64, 0x81, 0x00, 0x60, 0x0a, 0x88, 0xb5], 68),
        // The shortest that the kernel does not throw away when it takes the tag off.
        frame(&[0x81, 0x00, 0x20, 0x05, 0x88, 0xb5], 20),
        frame(&[0x81, 0x00, 0x60, 0x0a, 0x88, 0xb5], mtu as usize + 18),
    ]
}
