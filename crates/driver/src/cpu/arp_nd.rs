//! Replies to ARP requests and neighbour solicitations.
//!
//! The type `Interface` of smoltcp could also reply, but this module does not use it for these reasons:
//!
//! - `Interface` answers neither ARP probes (RFC 5227, sender 0.0.0.0) nor duplicate address detection (RFC
//!   4862, source ::).
//! - `Interface` supports only eight addresses and needs its own neighbour table.
//! - `Interface` sends advertisements without the router flag. RFC 4861 7.2.4 requires this flag of a router.
//!   If a host receives an advertisement without the flag, it removes its routes through the router.

use std::net::IpAddr;

use xoff_wire::NeighbourMessage;
use xoff_wire::neighbour::solicited_node_address;

use super::addresses::CpuInterface;

/// Builds the reply to an ARP request or a neighbour solicitation for an address of the interface `own`.
/// `frame_mac` is the source MAC address of the request. Returns `None` if the message is not such a request,
/// or if the request is invalid.
pub(super) fn answer_request(
    own: &CpuInterface,
    request: &NeighbourMessage,
    frame_mac: Option<[u8; 6]>,
) -> Option<Vec<u8>> {
    // A unicast solicitation may omit the link-layer address option.
    let requester_mac = request.link_address.or(frame_mac)?;
    // A request with an address of `own` as sender comes from a host that claims this address.
    if !request.is_request
        || !request.is_valid
        || !own.has_address(request.target)
        || own.has_address(request.sender)
        || !is_valid_requester(request, requester_mac)
    {
        return None;
    }
    let reply = request.reply(requester_mac, true)?;
    let mut frame = vec![0; reply.frame_len(None)];
    reply.emit(own.mac, None, &mut frame);
    Some(frame)
}

/// Returns whether a request may be answered (RFC 4861 7.1.1). The sender must be a single station, or must
/// have no address yet. A solicitation must also be sent to the target address or its solicited-node group.
fn is_valid_requester(request: &NeighbourMessage, mac: [u8; 6]) -> bool {
    let is_station = mac[0] & 1 == 0 && mac != [0; 6];
    match (request.sender, request.target) {
        (IpAddr::V4(sender), _) => {
            is_station && !sender.is_multicast() && !sender.is_broadcast() && !sender.is_loopback()
        }
        (IpAddr::V6(sender), IpAddr::V6(target)) => {
            let is_to_group = request.destination == solicited_node_address(target);
            match sender.is_unspecified() {
                // Duplicate address detection: another node wants the address.
                true => is_to_group && request.destination != target && request.link_address.is_none(),
                false => {
                    is_station && !sender.is_multicast() && (is_to_group || request.destination == target)
                }
            }
        }
        _ => false,
    }
}
