use super::asic::ASICS;
use super::*;

fn link_parameters(speed_mbps: u32, cable_m: u64) -> LinkParameters {
    LinkParameters {
        speed_mbps,
        cable_m,
        mtu_bytes: 9_100,
        lanes: 1,
        gearbox_delay_ns: 0,
        lossless_mtu_bytes: 1_024,
        small_packet_percent: 100,
        uses_shared_pool: false,
    }
}

fn profile_sizes(asic: &str, link: &LinkParameters) -> (u64, u64, u64) {
    let asic = Asic::named(asic).expect("a known chip");
    let HeadroomSizes {
        xon_bytes,
        xoff_bytes,
        size_bytes,
    } = compute_headroom(&asic, link);
    (xon_bytes, xoff_bytes, size_bytes)
}

/// Reference values of SONiC's formula for several chips, speeds and cable lengths.
#[test]
fn headroom_matches_reference_values() {
    for (asic, speed, cable, expected) in [
        ("spectrum4", 10_000, 5, (19_456, 45_056, 64_512)),
        ("spectrum4", 25_000, 5, (19_456, 48_128, 67_584)),
        ("spectrum4", 100_000, 5, (19_456, 113_664, 133_120)),
        ("spectrum4", 400_000, 5, (19_456, 230_400, 249_856)),
        ("spectrum1", 10_000, 5, (19_456, 29_696, 49_152)),
        ("vs", 25_000, 5, (18_432, 31_744, 50_176)),
        ("vs", 100_000, 5, (18_432, 72_704, 91_136)),
        ("vs", 100_000, 40, (18_432, 81_920, 100_352)),
        ("vs", 100_000, 300, (18_432, 147_456, 165_888)),
    ] {
        assert_eq!(
            profile_sizes(asic, &link_parameters(speed, cable)),
            expected,
            "{asic} {speed} {cable}m"
        );
    }
    let shared = LinkParameters {
        uses_shared_pool: true,
        ..link_parameters(100_000, 300)
    };
    assert_eq!(profile_sizes("vs", &shared), (18_432, 147_456, 18_432));
}

/// The formula in floating point gives the same results, except for values that are close to a rounding step.
#[test]
fn integer_formula_equals_floating_point_formula() {
    let mut compared = 0;
    for asic in ASICS {
        for speed in [
            1, 10, 100, 1_000, 2_500, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000, 800_000,
            1_600_000,
        ] {
            for cable in [0, 1, 3, 5, 40, 300, 2_000, 80_000] {
                for (mtu, lossless, percent) in [
                    (9_100, 1_024, 100),
                    (9_100, 1_024, 50),
                    (1_500, 1_024, 0),
                    (9_216, 9_216, 20),
                    (68, 1, 99),
                    (4_096, 256, 77),
                ] {
                    for (lanes, gearbox, uses_shared_pool) in
                        [(1, 0, false), (8, 10, false), (4, 300, true), (8, 0, true)]
                    {
                        let link = LinkParameters {
                            mtu_bytes: mtu,
                            lossless_mtu_bytes: lossless,
                            small_packet_percent: percent,
                            lanes,
                            gearbox_delay_ns: gearbox,
                            uses_shared_pool,
                            ..link_parameters(speed, cable)
                        };
                        let (exact, float) = (compute_headroom(asic, &link), headroom_in_floats(asic, &link));
                        assert_eq!(exact.xon_bytes, float.xon_bytes);
                        // A value on a step may come out one step higher in floating point.
                        for (a, b) in [
                            (exact.xoff_bytes, float.xoff_bytes),
                            (exact.size_bytes, float.size_bytes),
                        ] {
                            assert!(
                                a == b || a + 1_024 == b,
                                "{} {link:?}: {exact:?} {float:?}",
                                asic.name
                            );
                        }
                        compared += 1;
                    }
                }
            }
        }
    }
    assert_eq!(compared, ASICS.len() * 14 * 8 * 6 * 4);
}

fn headroom_in_floats(asic: &Asic, link: &LinkParameters) -> HeadroomSizes {
    let kib = |bytes: f64| (bytes / 1_024.0).ceil() * 1_024.0;
    let cell = f64::from(asic.cell_bytes);
    let speed = f64::from(link.speed_mbps);
    let (l, p) = (
        f64::from(link.lossless_mtu_bytes),
        f64::from(link.small_packet_percent),
    );
    let w = if cell > 128.0 {
        cell / 64.0
    } else {
        2.0 * cell / (1.0 + cell)
    }
    .ceil();
    let s = 100.0 * 64.0 / ((p * 64.0 + (100.0 - p) * l) / 100.0);
    let occupancy = (100.0 - s + s * w) / 100.0;
    let cable = 2.0 * link.cable_m as f64 * speed * 1e9 / 198e6 / 8_000.0;
    let gearbox = speed * link.gearbox_delay_ns as f64 / (8.0 * 1_024.0);
    let quanta = REACTION_QUANTA.iter().find(|(mbps, _)| *mbps == link.speed_mbps);
    let peer = quanta.map_or(asic.peer_response_tenth_bytes as f64 / 10.0, |(_, quanta)| {
        *quanta as f64 * 512.0 / 8.0
    });
    let tile = if asic.tiles {
        speed / 1_000.0 * 120.0 / 8.0
    } else {
        0.0
    };
    let prop = f64::from(link.mtu_bytes) + cable + 2.0 * gearbox + 0.8 * 1_024.0 + peer + tile;
    let mut xoff = kib(l + prop * occupancy);
    if asic.name == "spectrum6" {
        xoff += 18.0 * 1_024.0;
    }
    if !link.uses_shared_pool && link.small_packet_percent != 100 && xoff + 2_048.0 < kib(l + prop * w) {
        xoff += 2_048.0;
    }
    let eight = link.lanes == 8;
    let xon = kib(asic.pipeline_latency_bytes as f64 * if eight { 2.0 } else { 1.0 });
    let size = if link.uses_shared_pool {
        xon
    } else {
        kib(xoff + xon + if eight { f64::from(link.mtu_bytes) } else { 0.0 })
    };
    HeadroomSizes {
        xon_bytes: xon as u64,
        xoff_bytes: xoff as u64,
        size_bytes: size as u64,
    }
}

/// Half of all packets are small, and the small packets contain only 5.9 % of the bytes. The
/// result includes `COMPENSATION_BYTES`.
#[test]
fn fewer_small_packets_need_less_headroom() {
    let half = LinkParameters {
        small_packet_percent: 50,
        ..link_parameters(100_000, 40)
    };
    let shared = LinkParameters {
        uses_shared_pool: true,
        ..half
    };
    let (_, private, _) = profile_sizes("vs", &half);
    let (_, pooled, _) = profile_sizes("vs", &shared);
    assert_eq!(
        private,
        pooled + 2_048,
        "compensated, far below the worst case of 81920"
    );
    assert!(private < 81_920);
}

#[test]
fn eight_lanes_double_the_latency_and_add_a_frame() {
    let eight = LinkParameters {
        lanes: 8,
        ..link_parameters(400_000, 5)
    };
    let (xon, xoff, size) = profile_sizes("spectrum3", &eight);
    assert_eq!(xon, 2 * 19_456);
    assert_eq!(size, (xoff + xon + 9_100).next_multiple_of(1_024));
}

#[test]
fn longest_cable_does_not_overflow() {
    let far = LinkParameters {
        cable_m: u64::from(u32::MAX),
        gearbox_delay_ns: 1_000_000,
        ..link_parameters(1_600_000, 0)
    };
    assert!(profile_sizes("spectrum6", &far).1 > 8_000_000_000_000);
}
