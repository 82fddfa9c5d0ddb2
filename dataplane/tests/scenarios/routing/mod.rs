//! The router: forwarded packets, refused packets, and neighbour resolution.

mod conservation;
mod ecmp;
mod forwarding;
mod lag;
mod neighbours;
mod refusals;

use xoff_units::Picos;

use crate::support::frames::station_mac;
use crate::support::packets::{arp_packet, frame_with_packet, neighbour_discovery_packet};
use crate::support::{Harness, config};

/// Returns a router with resolved stations: `station_mac(n)`, 10.0.*n*.9 and 2001:db8:*n*::9 at port *n*.
/// Port 1 also has the default route.
fn router_harness(ports: u8) -> Harness {
    let mut config = config::router_config(usize::from(ports));
    let default = [
        ("0.0.0.0/0", config::equal_cost_target(&[(1, "10.0.1.9")])),
        ("::/0", config::equal_cost_target(&[(1, "2001:db8:1::9")])),
    ];
    config::set_static_routes(&mut config, &default);
    let mut harness = Harness::new(&config);
    (0..ports).for_each(|port| send_arp_request_from(&mut harness, port));
    harness.run_for(Picos::from_millis(1));
    harness.clear_sent();
    harness
}

/// Sends an ARP request for the router from the station at port `n`.
pub(crate) fn send_arp_request_from(harness: &mut Harness, n: u8) {
    let (own, router) = (format!("10.0.{n}.9"), format!("10.0.{n}.1"));
    let request = arp_packet(1, (station_mac(n), &own), ([0; 6], &router));
    harness.receive(
        u16::from(n),
        &frame_with_packet([0xff; 6], station_mac(n), 0x0806, &request),
    );
    let (own, router) = (format!("2001:db8:{n}::9"), format!("2001:db8:{n}::1"));
    let solicitation = neighbour_discovery_packet(135, &own, "ff02::1:ff00:1", &router, station_mac(n));
    let group = [0x33, 0x33, 0xff, 0, 0, 1];
    harness.receive(
        u16::from(n),
        &frame_with_packet(group, station_mac(n), 0x86dd, &solicitation),
    );
}
