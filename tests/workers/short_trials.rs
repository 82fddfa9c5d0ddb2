//! Short trials of ports of every kind.

use libtest_mimic::{Completion, Failed};

use crate::frame_fuzz::SourcePolicy;
use crate::port_trials::{FloodExtent, PORT_KINDS, PortKind, check_spoofed, run_floods, run_fuzz, stations};
use crate::support::{CompletionTest, KernelFeatures};

pub(crate) const TESTS: &[CompletionTest] = &[
    (
        "a_packet_port_passes_floods_and_flaps",
        KernelFeatures::Netns,
        || flood(PORT_KINDS[0]),
    ),
    (
        "a_lag_member_passes_floods_and_flaps",
        KernelFeatures::Netns,
        || flood(PORT_KINDS[1]),
    ),
    ("a_tap_passes_floods_and_flaps", KernelFeatures::Tun, || {
        flood(PORT_KINDS[2])
    }),
    ("an_xdp_port_passes_floods_and_flaps", KernelFeatures::Xdp, || {
        flood(PORT_KINDS[3])
    }),
    (
        "a_pnet_port_passes_floods_and_flaps",
        KernelFeatures::Netns,
        || flood(PORT_KINDS[4]),
    ),
    (
        "mutated_frames_of_other_sources_cost_a_flow_no_frame",
        KernelFeatures::Netns,
        || run_fuzz(PORT_KINDS[0], SourcePolicy::Except(stations()), 4_000, 8_000, 1)?.check(),
    ),
    (
        "losses_by_spoofed_sources_are_explained",
        KernelFeatures::Netns,
        || {
            let spoofed = SourcePolicy::Spoof(stations());
            check_spoofed(&run_fuzz(PORT_KINDS[0], spoofed, 4_000, 8_000, 2)?)
        },
    ),
];

fn flood(kind: PortKind) -> Result<Completion, Failed> {
    let extent = FloodExtent {
        frames: 2_000,
        time: None,
        flaps: 11,
        recreations: 2,
    };
    run_floods(kind, extent)?.check()
}
