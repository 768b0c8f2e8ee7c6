//! Addresses and ports, as a table and by properties.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proptest::prelude::*;

use super::super::url::EndpointUrl;
use super::{AddressRange, AddressRules, AllowedNetwork, RefusalReason};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn allowing(networks: &[&str]) -> AddressRules {
    AddressRules {
        allow: networks.iter().map(|network| network.parse().unwrap()).collect(),
        ..AddressRules::default()
    }
}

#[track_caller]
fn refused(text: &str, range: AddressRange) {
    let refusal = AddressRules::default().check(ip(text), 443).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::Range(range), "{text}");
    let message = refusal.to_string();
    assert!(
        message.contains(range.as_str()) && message.contains("delivery.allow_networks"),
        "{message}"
    );
}

#[test]
fn every_range_that_is_not_public_is_refused_by_name() {
    use AddressRange as Range;
    let table: &[(Range, &[&str])] = &[
        (
            Range::Metadata,
            &[
                "169.254.169.254",
                "169.254.170.2",
                "100.100.100.200",
                "168.63.129.16",
                "192.0.0.192",
            ],
        ),
        (Range::Metadata, &["fd00:ec2::254", "fd20:ce::254"]),
        (Range::Unspecified, &["0.0.0.0", "0.1.2.3", "::"]),
        (Range::Loopback, &["127.0.0.1", "127.255.255.255", "::1"]),
        (
            Range::Private,
            &[
                "10.0.0.1",
                "172.16.0.1",
                "172.31.255.255",
                "192.168.1.1",
                "fc00::1",
                "fdff::1",
            ],
        ),
        (Range::CarrierNat, &["100.64.0.1", "100.127.255.255"]),
        (Range::LinkLocal, &["169.254.0.1", "fe80::1", "febf::1"]),
        (Range::SiteLocal, &["fec0::1", "feff::1"]),
        (Range::Multicast, &["224.0.0.1", "239.255.255.255", "ff02::1"]),
        (Range::Broadcast, &["255.255.255.255"]),
        (
            Range::Documentation,
            &["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
        ),
        (Range::Benchmarking, &["198.18.0.1", "198.19.255.255", "2001:2::1"]),
        (Range::Mapped, &["::ffff:127.0.0.1", "::ffff:8.8.8.8"]),
        (Range::Compatible, &["::127.0.0.1", "::8.8.8.8"]),
        (Range::Nat64, &["64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1"]),
        (Range::SixToFour, &["2002:7f00:1::", "2002:808:808::1", "192.88.99.1"]),
        (Range::Teredo, &["2001::1", "2001:0:7f00:1::"]),
        (
            Range::Reserved,
            &[
                "240.0.0.1",
                "255.255.255.254",
                "192.0.0.1",
                "2001:10::1",
                "100::1",
                "5f00::1",
                "::ffff:0:7f00:1",
                "4000::1",
            ],
        ),
    ];
    for (range, addresses) in table {
        for address in *addresses {
            refused(address, *range);
        }
    }
}

#[test]
fn public_addresses_are_reached_without_being_asked_for() {
    let rules = AddressRules::default();
    let public = [
        "8.8.8.8",
        "1.1.1.1",
        "172.32.0.1",
        "100.128.0.1",
        "192.0.1.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00::1",
        "3ffe::1",
    ];
    for text in public {
        for port in [80, 443, 8080, 8470, 65535] {
            assert_eq!(rules.check(ip(text), port), Ok(()), "{text} {port}");
        }
    }
}

#[test]
fn an_allowed_network_is_reached_and_its_neighbour_is_not() {
    let rules = allowing(&["10.1.0.0/16", "::1/128", "64:ff9b::a00:0/104"]);
    for text in ["10.1.2.3", "::ffff:10.1.2.3", "::1", "64:ff9b::a01:203"] {
        assert_eq!(rules.check(ip(text), 80), Ok(()), "{text}");
    }
    for text in [
        "10.2.2.3",
        "::ffff:10.2.2.3",
        "::10.1.2.3",
        "2002:a01:203::",
        "127.0.0.1",
        "64:ff9b::b01:203",
    ] {
        assert!(rules.check(ip(text), 80).is_err(), "{text}");
    }
}

#[test]
fn ports_of_other_services_are_denied_unless_they_are_named() {
    for port in [22, 25, 5672] {
        let refusal = AddressRules::default().check(ip("8.8.8.8"), port).unwrap_err();
        assert_eq!(refusal.reason, RefusalReason::Port, "{port}");
        let mend = format!("8.8.8.8/32:{port}");
        assert!(
            refusal
                .to_string()
                .contains(&format!("add {mend} to delivery.allow_networks")),
            "{refusal}"
        );
        assert_eq!(allowing(&[&mend]).check(ip("8.8.8.8"), port), Ok(()), "{port}");
        let inside = allowing(&["10.0.0.0/8"]).check(ip("10.0.0.5"), port).unwrap_err();
        assert_eq!(inside.reason, RefusalReason::Port, "{port}");
    }
    assert_eq!(
        allowing(&["0.0.0.0/0"]).check(ip("8.8.8.8"), 0).unwrap_err().reason,
        RefusalReason::PortZero
    );
}

#[test]
fn a_network_with_ports_is_reached_on_these_alone() {
    let rules = allowing(&["10.0.0.0/8:8080-8090", "127.0.0.1:6379", "[::1]:80", "fd00::/8:443"]);
    for (text, port) in [
        ("10.1.2.3", 8080),
        ("10.1.2.3", 8090),
        ("127.0.0.1", 6379),
        ("::ffff:127.0.0.1", 6379),
        ("::1", 80),
        ("fd00::5", 443),
    ] {
        assert_eq!(rules.check(ip(text), port), Ok(()), "{text} {port}");
    }
    for (text, port) in [
        ("10.1.2.3", 8091),
        ("127.0.0.1", 80),
        ("127.0.0.2", 6379),
        ("::1", 81),
        ("fd00::5", 80),
    ] {
        assert!(rules.check(ip(text), port).is_err(), "{text} {port}");
    }
}

#[test]
fn a_network_is_written_as_it_is_read() {
    for text in ["10.0.0.0/8", "fd00::/8:443", "10.0.0.5/32:8080-8090", "::1/128:80"] {
        assert_eq!(text.parse::<AllowedNetwork>().unwrap().to_string(), text);
    }
    for (text, whole) in [
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.0.0.5", "10.0.0.5/32"),
        ("[::1]:80", "::1/128:80"),
    ] {
        assert_eq!(text.parse::<AllowedNetwork>().unwrap().to_string(), whole);
    }
    for wrong in [
        "",
        "x",
        "10.0.0.0/33",
        "10.0.0.0/8:",
        "10.0.0.0/8:0",
        "10.0.0.0/8:70000",
        "10.0.0.0/8:9-8",
        "[10.0.0.5]:80",
        "::1:80:",
        "[::1",
        "host:80",
        "/8:80",
    ] {
        assert!(wrong.parse::<AllowedNetwork>().is_err(), "{wrong}");
    }
}

#[test]
fn what_a_name_leads_to_is_not_said() {
    let refusal = AddressRules::default().check(ip("10.20.30.40"), 80).unwrap_err();
    let said = refusal.of_name();
    assert!(
        said.contains("a private address") && said.contains("delivery.allow_networks") && !said.contains("10.20"),
        "{said}"
    );
}

#[test]
fn our_own_sockets_are_never_reached() {
    let own: Vec<SocketAddr> = ["127.0.0.1:8470", "10.0.0.5:5672", "203.0.113.9:5432"]
        .map(|own| own.parse().unwrap())
        .into();
    let rules = AddressRules {
        own,
        ..allowing(&["0.0.0.0/0", "::/0"])
    };
    let own_sockets = [
        ("127.0.0.1", 8470),
        ("::ffff:127.0.0.1", 8470),
        ("::127.0.0.1", 8470),
        ("0.0.0.0", 8470),
        ("::", 8470),
        ("64:ff9b::10.0.0.5", 5672),
        ("2002:a00:5::", 5672),
        ("203.0.113.9", 5432),
    ];
    for (text, port) in own_sockets {
        assert_eq!(
            rules.check(ip(text), port).unwrap_err().reason,
            RefusalReason::Own,
            "{text} {port}"
        );
    }
    for (text, port) in [("127.0.0.1", 8471), ("10.0.0.6", 5673), ("203.0.113.9", 80)] {
        assert_eq!(rules.check(ip(text), port), Ok(()), "{text} {port}");
    }
}

#[test]
fn a_socket_on_every_address_takes_its_port_everywhere() {
    let rules = AddressRules {
        own: vec!["0.0.0.0:8470".parse().unwrap()],
        ..allowing(&["127.0.0.0/8"])
    };
    for text in ["127.0.0.1", "8.8.8.8", "2a00::1"] {
        assert_eq!(
            rules.check(ip(text), 8470).unwrap_err().reason,
            RefusalReason::Own,
            "{text}"
        );
    }
    assert_eq!(rules.check(ip("127.0.0.1"), 8471), Ok(()));
}

/// The bad inputs that a URL can carry: one decision, however the address is spelled.
#[test]
fn a_url_with_a_hidden_inward_address_is_refused() {
    let hosts = [
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "①②⑦.⓪.⓪.①",
        "１２７.０.０.１",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[2001::1]",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "100.64.0.1",
        "0.0.0.0",
        "0",
    ];
    for host in hosts {
        let url = EndpointUrl::parse(&format!("http://{host}/")).unwrap();
        assert!(
            AddressRules::default().check(url.ip().unwrap(), url.port()).is_err(),
            "{host}"
        );
    }
}

proptest! {
    #[test]
    fn no_ipv4_address_gets_in_under_another_form(bits in any::<u32>(), port in 1_u16..) {
        let rules = AddressRules::default();
        let plain = Ipv4Addr::from_bits(bits);
        let [a, b, c, d] = plain.octets().map(u16::from);
        let (high, low) = (a << 8 | b, c << 8 | d);
        let forms = [
            plain.to_ipv6_mapped(),
            plain.to_ipv6_compatible(),
            [0x64, 0xff9b, 0, 0, 0, 0, high, low].into(),
            [0x2002, high, low, 0, 0, 0, 0, 1].into(),
        ];
        for form in forms {
            prop_assert!(rules.check(form.into(), port).is_err(), "{form}");
        }
    }

    #[test]
    fn what_is_not_refused_is_global_unicast(bits in any::<u128>(), port in any::<u16>()) {
        let address = std::net::Ipv6Addr::from_bits(bits);
        if AddressRules::default().check(address.into(), port).is_ok() {
            prop_assert_eq!(bits >> 125, 1);
            prop_assert!(!address.is_loopback() && !address.is_multicast() && port != 0);
        }
    }
}
