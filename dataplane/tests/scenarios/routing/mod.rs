//! The router: forwarded packets, refused packets, and neighbour resolution.

mod conservation;
mod ecmp;
mod forwarding;
mod lag;
mod neighbours;
mod refusals;

use xoff_units::Picos;

use crate::support::frames::mac;
use crate::support::packets::{arp, discovery, frame};
use crate::support::{Harness, config};

/// A router with resolved stations: `mac(n)`, 10.0.*n*.9 and 2001:db8:*n*::9 at port *n*. Port 1 also has the
/// default route.
fn harness(ports: u8) -> Harness {
    let mut config = config::routed(usize::from(ports));
    let default = [
        ("0.0.0.0/0", config::via(&[(1, "10.0.1.9")])),
        ("::/0", config::via(&[(1, "2001:db8:1::9")])),
    ];
    config::routes(&mut config, &default);
    let mut harness = Harness::new(&config);
    (0..ports).for_each(|port| introduce(&mut harness, port));
    harness.run_for(Picos::from_millis(1));
    harness.clear_sent();
    harness
}

/// The station at a port sends an ARP request for the router.
pub(crate) fn introduce(harness: &mut Harness, n: u8) {
    let (own, router) = (format!("10.0.{n}.9"), format!("10.0.{n}.1"));
    let request = arp(1, (mac(n), &own), ([0; 6], &router));
    harness.receive(u16::from(n), &frame([0xff; 6], mac(n), 0x0806, &request));
    let (own, router) = (format!("2001:db8:{n}::9"), format!("2001:db8:{n}::1"));
    let solicitation = discovery(135, &own, "ff02::1:ff00:1", &router, mac(n));
    let group = [0x33, 0x33, 0xff, 0, 0, 1];
    harness.receive(u16::from(n), &frame(group, mac(n), 0x86dd, &solicitation));
}
