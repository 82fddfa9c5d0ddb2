//! Data frames between the instrument and a model device: addresses, flows, and what identifies a frame.

use std::net::Ipv4Addr;

use xoff_host::{FlowConfig, FlowRate, HostConfig, PayloadStamp};
use xoff_units::{LinkTiming, Picos};
use xoff_wire::{PRIORITIES, RoceView, VlanTag, parse::parse};

/// MAC address of the port of the instrument.
pub(crate) const INSTRUMENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0a];
/// MAC address of the model device.
pub(crate) const MODEL_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];
/// Length of the data frames without FCS, in bytes.
pub(crate) const DATA_FRAME_LEN: u32 = 1_082;
/// Identifier of the run in the stamps of data frames.
const TOKEN: u64 = 0x786f_6666_636f_6e66;
/// Number of the first flow with a VLAN tag. Its other flows follow.
const FIRST_TAGGED_FLOW: u32 = PRIORITIES as u32;
/// DSCP of the flows with a VLAN tag: that of class 3.
pub(crate) const TAGGED_FLOW_DSCP: u8 = dscp_of_class(3);

/// Returns the DSCP of the traffic of a class. DSCP 26, the usual value of RoCE, belongs to class 3.
pub(crate) const fn dscp_of_class(class: u8) -> u8 {
    8 * class + 2
}

/// Number of the flow of a class. With `is_tagged`, its frames have a priority tag with the PCP of the class, and all
/// of them have the DSCP of class 3.
pub(crate) fn flow_of_class(class: u8, is_tagged: bool) -> u32 {
    u32::from(class) + if is_tagged { FIRST_TAGGED_FLOW } else { 0 }
}

/// Returns the configuration of a model host with a waiting flow of each class to a peer.
pub(crate) fn traffic_host(name: &str, mac: [u8; 6], peer_mac: [u8; 6], link: LinkTiming) -> HostConfig {
    let (instrument, device) = (Ipv4Addr::new(10, 0, 0, 10), Ipv4Addr::new(10, 0, 0, 11));
    let (own_address, peer_address) = match mac == INSTRUMENT_MAC {
        true => (instrument, device),
        false => (device, instrument),
    };
    let mut config = HostConfig::new(name, mac, link);
    config.ipv4 = Some(own_address);
    config.token = TOKEN;
    config.announce_interval = Picos::ZERO;
    let flow = |class: u8, is_tagged: bool| FlowConfig {
        class,
        dscp: if is_tagged {
            TAGGED_FLOW_DSCP
        } else {
            dscp_of_class(class)
        },
        vlan: is_tagged.then_some(VlanTag::dot1q(class, 0)),
        message_bytes: 1 << 30,
        rate: FlowRate::LINK,
        waits: true,
        ..FlowConfig::lossless(
            flow_of_class(class, is_tagged),
            peer_address.into(),
            Some(peer_mac),
        )
    };
    for is_tagged in [false, true] {
        config
            .flows
            .extend((0..PRIORITIES as u8).map(|class| flow(class, is_tagged)));
    }
    config
}

/// Returns the class of an IP frame by its DSCP.
pub(crate) fn class_of_frame(bytes: &[u8]) -> Option<u8> {
    parse(bytes).dscp().map(|dscp| dscp / 8)
}

/// Returns the class and the sequence number of a data frame. Returns `None` for other frames.
pub(crate) fn identify_data_frame(bytes: &[u8]) -> Option<(usize, u64)> {
    let dscp = parse(bytes).dscp()?;
    let view = RoceView::new_checked(bytes).ok()?;
    let stamp = PayloadStamp::read(view.payload())?;
    Some((usize::from(dscp / 8), stamp.sequence))
}

/// Returns the offset of the sequence number in a data frame: after the token in its stamp.
pub(crate) fn find_sequence(bytes: &[u8]) -> Option<usize> {
    let token = TOKEN.to_be_bytes();
    let at = bytes.windows(token.len()).position(|window| window == token);
    at.map(|at| at + token.len())
}
