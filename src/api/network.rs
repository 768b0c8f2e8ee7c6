//! Whom an address stands for: bounds are of somebody, and he has more than one of them.

use std::net::{IpAddr, Ipv6Addr};

/// The part of an IPv6 address that its network gave: whoever has one has all that begin so (RFC 6177).
const OF_ONE: u32 = 64;

/// One address for all that whoever has `address` can use: of IPv6 the first of its network.
pub(super) fn holder(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - OF_ONE))).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_of_an_ipv6_network_are_one_and_each_of_ipv4_is_its_own() {
        let of = |text: &str| holder(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
