//! Forwarders: programs and kernel functions that carry frames between the two devices.

mod kernel;
mod openvswitch;
mod pnet;
mod testpmd;
mod xoff;

use clap::ValueEnum;

use crate::Failure;
use crate::bed::{Cables, TestBed};
use crate::child::Program;

pub(crate) use pnet::forward as forward_by_pnet;
pub(crate) use xoff::{REACTION_BUDGET, Switch, worker_busy_ns};

/// The forwarders, in the order of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Forwarder {
    /// xoff, one worker, AF_PACKET
    XoffPacket,
    /// The program of `--earlier`, one worker, AF_PACKET
    EarlierPacket,
    /// DPDK testpmd, io mode, net_af_packet
    TestpmdPacket,
    /// xoff, one worker, AF_XDP
    XoffXdp,
    /// The program of `--earlier`, one worker, AF_XDP
    EarlierXdp,
    /// DPDK testpmd, io mode, net_af_xdp
    TestpmdXdp,
    /// Open vSwitch, userspace datapath, AF_PACKET
    OvsPacket,
    /// Open vSwitch, userspace datapath, AF_XDP
    OvsXdp,
    /// Open vSwitch, kernel datapath
    OvsKernel,
    /// Linux bridge
    Bridge,
    /// Two XDP programs that redirect
    XdpRedirect,
    /// A loop over pnet's datalink channels
    Pnet,
}

/// A running forwarder. Dropping the value stops it.
#[derive(Debug)]
pub(crate) struct RunningForwarder {
    /// The forwarding program comes first. Empty if only the kernel forwards.
    programs: Vec<Program>,
    /// True if the kernel forwards the frames.
    in_kernel: bool,
    /// Kernel objects that remain after the programs. They are removed last.
    #[allow(dead_code, reason = "it is there to be dropped")]
    parts: Option<kernel::KernelObjects>,
}

impl Forwarder {
    /// Returns the name of the forwarder in figures.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Forwarder::XoffPacket => "xoff-packet",
            Forwarder::EarlierPacket => "earlier-packet",
            Forwarder::TestpmdPacket => "testpmd-packet",
            Forwarder::XoffXdp => "xoff-xdp",
            Forwarder::EarlierXdp => "earlier-xdp",
            Forwarder::TestpmdXdp => "testpmd-xdp",
            Forwarder::OvsPacket => "ovs-packet",
            Forwarder::OvsXdp => "ovs-xdp",
            Forwarder::OvsKernel => "ovs-kernel",
            Forwarder::Bridge => "bridge",
            Forwarder::XdpRedirect => "xdp-redirect",
            Forwarder::Pnet => "pnet",
        }
    }

    /// Returns the peer for ratios: a forwarder with the same devices and the same sockets.
    pub(crate) fn peer(self) -> Option<Forwarder> {
        match self {
            Forwarder::XoffPacket => Some(Forwarder::TestpmdPacket),
            Forwarder::XoffXdp => Some(Forwarder::TestpmdXdp),
            Forwarder::EarlierPacket => Some(Forwarder::XoffPacket),
            Forwarder::EarlierXdp => Some(Forwarder::XoffXdp),
            _ => None,
        }
    }

    /// Returns true if the forwarder is the program of `--earlier`.
    pub(crate) fn is_earlier(self) -> bool {
        matches!(self, Forwarder::EarlierPacket | Forwarder::EarlierXdp)
    }

    /// Connects the cables. The error states the reason in words for a note.
    pub(crate) fn start(self, bed: &TestBed, cables: &Cables<'_>) -> Result<RunningForwarder, Failure> {
        match self {
            Forwarder::XoffPacket => Switch::fast("packet", "spin").start(bed, cables),
            Forwarder::XoffXdp => Switch::fast("xdp", "spin").start(bed, cables),
            Forwarder::EarlierPacket => start_earlier("packet", bed, cables),
            Forwarder::EarlierXdp => start_earlier("xdp", bed, cables),
            Forwarder::TestpmdPacket => testpmd::start(bed, cables, testpmd::Driver::AfPacket),
            Forwarder::TestpmdXdp => testpmd::start(bed, cables, testpmd::Driver::AfXdp),
            Forwarder::OvsPacket => openvswitch::start(bed, openvswitch::Datapath::Packet),
            Forwarder::OvsXdp => openvswitch::start(bed, openvswitch::Datapath::Xdp),
            Forwarder::OvsKernel => openvswitch::start(bed, openvswitch::Datapath::Kernel),
            Forwarder::Bridge => kernel::bridge(bed),
            Forwarder::XdpRedirect => kernel::redirect(bed, cables),
            Forwarder::Pnet => pnet::start(bed),
        }
    }
}

fn start_earlier(backend: &str, bed: &TestBed, cables: &Cables<'_>) -> Result<RunningForwarder, Failure> {
    let program = bed.earlier_xoff.as_deref();
    let switch = Switch {
        program: program.ok_or("it needs `--earlier PATH`")?,
        ..Switch::fast(backend, "spin")
    };
    switch.start(bed, cables)
}

impl RunningForwarder {
    /// Creates a forwarder of programs.
    fn programs(programs: Vec<Program>) -> RunningForwarder {
        RunningForwarder {
            programs,
            in_kernel: false,
            parts: None,
        }
    }

    /// Creates a forwarder of kernel objects.
    fn kernel(parts: kernel::KernelObjects) -> RunningForwarder {
        RunningForwarder {
            programs: Vec::new(),
            in_kernel: true,
            parts: Some(parts),
        }
    }

    /// Returns the processor time of the forwarding programs in nanoseconds. `None`: the kernel forwards.
    pub(crate) fn cpu_ns(&self) -> Option<u64> {
        let all = || self.programs.iter().map(Program::cpu_ns).sum();
        (!self.in_kernel).then(all)
    }

    /// Stops the programs and waits for their cleanup.
    pub(crate) fn end(&mut self) {
        self.programs.iter_mut().for_each(Program::end);
    }
}
