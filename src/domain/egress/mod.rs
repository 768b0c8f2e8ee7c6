//! Which addresses may be connected to: the guard against requests that a URL makes us send inward.
//!
//! Only global unicast addresses are reached without being asked for. Everything else (our own
//! machine, private networks, metadata services, ranges that carry an IPv4 address inside, what is
//! reserved) is refused unless a network of `delivery.allow_networks` covers it, and so are the ports of
//! services of another kind unless one names the port; our own sockets are refused always. The caller has to ask for each answer of the resolver, for each literal, and for
//! the address actually connected to. Names are not looked at here: an address decides.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

mod allowed;
mod ranges;

pub use allowed::AllowedNetwork;
pub use ranges::AddressRange;

/// Ports of services that do not speak HTTP and can be harmed by what looks like a request: mail,
/// shells, name service, files, databases, caches, brokers. Not 9, which discards what comes.
pub const PORTS_DENIED: &[u16] = &[
    7, 11, 13, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 79, 87, 95, 109, 110, 111, 113, 115, 119, 123, 135, 137,
    138, 139, 143, 161, 162, 179, 389, 427, 445, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 563, 587,
    601, 636, 873, 989, 990, 993, 995, 1433, 1521, 1720, 1723, 1883, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 3659,
    4045, 4190, 4369, 5060, 5061, 5432, 5671, 5672, 5900, 6000, 6379, 6566, 8883, 9042, 10080, 11211, 25672, 27017,
];

/// What may be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRules {
    /// Networks that are reached although they are not public (`delivery.allow_networks`).
    pub allow: Vec<AllowedNetwork>,
    /// Ports that are connected to only where one of those networks names them.
    pub ports_denied: Vec<u16>,
    /// Sockets of our own API, broker and database: never connected to. An unspecified address stands
    /// for a socket on every address, whose port is then refused everywhere.
    pub own: Vec<SocketAddr>,
    /// Hosts and ports of our own broker and database, as they are configured: never connected to, wherever the
    /// names lead at that time.
    pub own_names: Vec<(String, u16)>,
}

impl Default for AddressRules {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            ports_denied: PORTS_DENIED.to_vec(),
            own: Vec::new(),
            own_names: Vec::new(),
        }
    }
}

/// An address that is not connected to, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRefusal {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: u16,
    /// Why.
    pub reason: RefusalReason,
}

/// Why an address is not connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// It is one of our own sockets.
    Own,
    /// Nothing listens on port 0.
    PortZero,
    /// The port belongs to a service of another kind.
    Port,
    /// The address is not a public one.
    Range(AddressRange),
}

impl fmt::Display for AddressRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ip, port, reason } = self;
        match reason {
            RefusalReason::Own => write!(
                formatter,
                "{} is one of our own sockets, and is never delivered to",
                SocketAddr::new(*ip, *port)
            ),
            RefusalReason::PortZero => write!(formatter, "nothing can listen on port 0 of {ip}"),
            RefusalReason::Port => {
                let network = AllowedNetwork::from(IpNet::from(*ip)).on(*port);
                write!(
                    formatter,
                    "port {port} is one of another kind of service; to deliver to it, add {network} to \
                     delivery.allow_networks"
                )
            }
            RefusalReason::Range(range) => {
                write!(
                    formatter,
                    "{ip} is {range}; to deliver to it, add {} or its network to delivery.allow_networks",
                    IpNet::from(*ip)
                )
            }
        }
    }
}

impl std::error::Error for AddressRefusal {}

/// Where networks are allowed: what mends a refusal, and what an error that tells of one names.
const MEND: &str = "delivery.allow_networks";

/// Whether an error tells that our own address rules refuse an address that other rules would allow.
#[must_use]
pub fn is_mended_by_rules(error: &str) -> bool {
    error.contains(MEND)
}

impl AddressRefusal {
    /// The refusal of a name that leads to the address, without the address: whoever gives us URLs and reads our
    /// errors is not to learn what names inside of our network lead to.
    #[must_use]
    pub fn of_name(&self) -> String {
        match self.reason {
            RefusalReason::Own => "one of our own sockets, which is never delivered to".to_owned(),
            RefusalReason::PortZero => "port 0, where nothing can listen".to_owned(),
            RefusalReason::Port => format!(
                "port {port}, which is one of another kind of service; to deliver to it, add its network with :{port} \
                 to delivery.allow_networks",
                port = self.port
            ),
            RefusalReason::Range(range) => {
                format!("{range}; to deliver to it, add its network to delivery.allow_networks")
            }
        }
    }
}

impl AddressRules {
    /// Whether this address may be connected to on this port.
    ///
    /// 1. Our own sockets: never. 2. Port 0: never. 3. In an allowed network that names the port: yes.
    /// 4. Not global unicast, and in no allowed network: no. 5. On a denied port: no.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn check(&self, ip: IpAddr, port: u16) -> Result<(), AddressRefusal> {
        let refusal = |reason| Err(AddressRefusal { ip, port, reason });
        if self.is_own(ip, port) {
            return refusal(RefusalReason::Own);
        }
        if port == 0 {
            return refusal(RefusalReason::PortZero);
        }
        if self.allowing(ip).any(|network| network.names(port)) {
            return Ok(());
        }
        if let Some(range) = AddressRange::of(ip)
            && !self.allowing(ip).any(AllowedNetwork::is_for_any_port)
        {
            return refusal(RefusalReason::Range(range));
        }
        if self.ports_denied.contains(&port) {
            return refusal(RefusalReason::Port);
        }
        Ok(())
    }

    fn is_own(&self, ip: IpAddr, port: u16) -> bool {
        // The system takes a connection to the unspecified address as one to itself.
        let here = ip.to_canonical().is_unspecified();
        let reached = plain(ip);
        self.own.iter().any(|own| {
            let same = plain(own.ip()) == reached || own.ip().is_unspecified() || (here && own.ip().is_loopback());
            own.port() == port && same
        })
    }

    /// A mapped address is the IPv4 address it maps, for the system too; other ways of carrying one
    /// go over a gateway, so a network of their own has to be named for them.
    fn allowing(&self, ip: IpAddr) -> impl Iterator<Item = &AllowedNetwork> {
        let covers = move |network: &&AllowedNetwork| network.contains(ip) || network.contains(ip.to_canonical());
        self.allow.iter().filter(covers)
    }
}

/// The address that a connection would arrive at, as far as the address itself tells.
fn plain(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => embedded(ip).map_or(IpAddr::V6(ip), IpAddr::V4),
    }
}

/// The IPv4 address inside a compatible, NAT64 or 6to4 one.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let octets = ip.octets();
    let four = |at: usize| {
        octets
            .get(at..at + 4)
            .and_then(|part| <[u8; 4]>::try_from(part).ok())
            .map(Ipv4Addr::from)
    };
    match AddressRange::of(IpAddr::V6(ip)) {
        Some(AddressRange::Compatible | AddressRange::Nat64) => four(12),
        Some(AddressRange::SixToFour) => four(2),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests;
