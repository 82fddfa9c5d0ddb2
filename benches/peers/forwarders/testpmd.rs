//! DPDK's testpmd in io mode, which forwards frames unchanged from one port to the other.

use std::process::Command;

use super::RunningForwarder;
use crate::Failure;
use crate::bed::{Cables, FORWARDER_DEVICES, TestBed};
use crate::child::{Program, is_installed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    AfPacket,
    AfXdp,
}

/// Longest packet of DPDK's AF_XDP driver. The driver has no multi-buffer support, which a veth needs beyond
/// this MTU.
const XDP_MTU_MAX: u32 = 3_400;

pub(super) fn start(bed: &TestBed, cables: &Cables<'_>, driver: Driver) -> Result<RunningForwarder, Failure> {
    if !is_installed("dpdk-testpmd") {
        return Err("dpdk-testpmd is not installed (`apt-get install dpdk-dev`)".to_owned());
    }
    if driver == Driver::AfXdp && cables.mtu > XDP_MTU_MAX {
        return Err(format!(
            "net_af_xdp takes no packets of {} bytes: it knows no frames in pieces",
            cables.mtu
        ));
    }
    // The ring has at least as many slots as xoff's ring, and each buffer holds one frame.
    let (place_bytes, places, buffer_bytes) = match cables.mtu {
        0..=1_900 => (2_048, 4_096, 2_304),
        1_901..=7_900 => (8_192, 2_048, 8_448),
        _ => (16_384, 1_024, 16_640),
    };
    let device = |n: usize| match driver {
        Driver::AfXdp => format!("net_af_xdp{n},iface={}", FORWARDER_DEVICES[n]),
        Driver::AfPacket => format!(
            "net_af_packet{n},iface={},blocksz=65536,framesz={place_bytes},framecnt={places}",
            FORWARDER_DEVICES[n]
        ),
    };
    let core = bed.cores.forwarder;
    let change = |command: &mut Command| {
        command
            // Each line of output is written at once and not when a buffer is full.
            .args(["-oL", "dpdk-testpmd"])
            // The files in this folder are removed with it.
            .env("RUNTIME_DIRECTORY", bed.folder.path())
            .arg(format!("--lcores=0@{core},1@{core}"))
            .args([
                "--no-huge",
                "-m",
                "512",
                "--no-pci",
                "--no-telemetry",
                "--no-shconf",
            ])
            .args((0..2).flat_map(|n| ["--vdev".to_owned(), device(n)]))
            .args([
                "--",
                "--total-num-mbufs=16384",
                "--forward-mode=io",
                "--no-mlockall",
                "--auto-start",
            ]);
        if driver == Driver::AfPacket {
            command.arg(format!("--mbuf-size={buffer_bytes}"));
        }
    };
    let output = bed.folder.path().join("testpmd.txt");
    let mut program = Program::start("stdbuf", change, &output, bed.cores)?;
    program.wait_for("Press enter to exit")?;
    Ok(RunningForwarder::programs(vec![program]))
}
