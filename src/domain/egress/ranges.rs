//! The table of addresses that are not global unicast, after the IANA special-purpose registries.
//!
//! Where ranges lie inside each other, the narrower one stands first. IPv6 is closed at the end: what
//! is not in `2000::/3` has not been given out as global unicast.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// A kind of address that is not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressRange {
    /// Where a cloud's machines read their own credentials.
    Metadata,
    /// No address at all, or "this network".
    Unspecified,
    /// This machine.
    Loopback,
    /// A private network (RFC 1918), or a unique local one of IPv6.
    Private,
    /// Behind a carrier's address translation.
    CarrierNat,
    /// This link only.
    LinkLocal,
    /// Deprecated site-local addresses.
    SiteLocal,
    /// Groups.
    Multicast,
    /// Everybody on a network.
    Broadcast,
    /// For examples in texts.
    Documentation,
    /// For measuring network devices.
    Benchmarking,
    /// IPv4 mapped into IPv6.
    Mapped,
    /// IPv4 compatible IPv6 addresses, deprecated.
    Compatible,
    /// IPv4 behind a translating gateway.
    Nat64,
    /// IPv4 tunnelled by 6to4.
    SixToFour,
    /// IPv4 tunnelled by Teredo.
    Teredo,
    /// Set aside for protocols or for later.
    Reserved,
}

impl AddressRange {
    /// The range that an address lies in; none when it is a public one.
    #[must_use]
    pub fn of(ip: IpAddr) -> Option<Self> {
        let found = TABLE
            .iter()
            .find(|(network, _)| network.contains(&ip))
            .map(|(_, range)| *range);
        match ip {
            IpAddr::V4(_) => found,
            IpAddr::V6(_) if GLOBAL_V6.contains(&ip) => found,
            IpAddr::V6(_) => found.or(Some(Self::Reserved)),
        }
    }

    /// What an address of this range is, with its article.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "a metadata service's address",
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::CarrierNat => "an address behind a carrier's translation",
            Self::LinkLocal => "a link-local address",
            Self::SiteLocal => "a site-local address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
            Self::Documentation => "an address for documentation",
            Self::Benchmarking => "an address for benchmarking",
            Self::Mapped => "an IPv4-mapped address",
            Self::Compatible => "an IPv4-compatible address",
            Self::Nat64 => "an address behind a NAT64 gateway",
            Self::SixToFour => "a 6to4 tunnel's address",
            Self::Teredo => "a Teredo tunnel's address",
            Self::Reserved => "a reserved address",
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

const GLOBAL_V6: IpNet = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

const TABLE: &[(IpNet, AddressRange)] = &[
    (v4([169, 254, 169, 254], 32), AddressRange::Metadata),
    (v4([169, 254, 170, 2], 32), AddressRange::Metadata),
    (v4([100, 100, 100, 200], 32), AddressRange::Metadata),
    (v4([168, 63, 129, 16], 32), AddressRange::Metadata),
    (v4([192, 0, 0, 192], 32), AddressRange::Metadata),
    (v4([0, 0, 0, 0], 8), AddressRange::Unspecified),
    (v4([10, 0, 0, 0], 8), AddressRange::Private),
    (v4([100, 64, 0, 0], 10), AddressRange::CarrierNat),
    (v4([127, 0, 0, 0], 8), AddressRange::Loopback),
    (v4([169, 254, 0, 0], 16), AddressRange::LinkLocal),
    (v4([172, 16, 0, 0], 12), AddressRange::Private),
    (v4([192, 0, 0, 0], 24), AddressRange::Reserved),
    (v4([192, 0, 2, 0], 24), AddressRange::Documentation),
    (v4([192, 88, 99, 0], 24), AddressRange::SixToFour),
    (v4([192, 168, 0, 0], 16), AddressRange::Private),
    (v4([198, 18, 0, 0], 15), AddressRange::Benchmarking),
    (v4([198, 51, 100, 0], 24), AddressRange::Documentation),
    (v4([203, 0, 113, 0], 24), AddressRange::Documentation),
    (v4([224, 0, 0, 0], 4), AddressRange::Multicast),
    (v4([255, 255, 255, 255], 32), AddressRange::Broadcast),
    (v4([240, 0, 0, 0], 4), AddressRange::Reserved),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), AddressRange::Unspecified),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), AddressRange::Loopback),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), AddressRange::Compatible),
    (v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), AddressRange::Mapped),
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), AddressRange::Nat64),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), AddressRange::Nat64),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), AddressRange::Teredo),
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), AddressRange::Benchmarking),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), AddressRange::Reserved),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), AddressRange::Documentation),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), AddressRange::SixToFour),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), AddressRange::Documentation),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), AddressRange::Metadata),
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), AddressRange::Metadata),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), AddressRange::Private),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), AddressRange::LinkLocal),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), AddressRange::SiteLocal),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), AddressRange::Multicast),
];

const fn v4(octets: [u8; 4], prefix: u8) -> IpNet {
    let [a, b, c, d] = octets;
    IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix)
}

const fn v6(of: [u16; 8], prefix: u8) -> IpNet {
    IpNet::new_assert(
        IpAddr::V6(Ipv6Addr::new(of[0], of[1], of[2], of[3], of[4], of[5], of[6], of[7])),
        prefix,
    )
}
