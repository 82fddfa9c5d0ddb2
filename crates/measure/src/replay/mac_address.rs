//! MAC addresses of captured frames.

/// A MAC address, in the order of transmission.
pub type Mac = [u8; 6];

/// Returns whether the address is a multicast or broadcast address.
pub(super) fn is_group_address(mac: Mac) -> bool {
    mac[0] & 1 != 0
}
