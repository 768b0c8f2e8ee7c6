//! A network that may be delivered to although it is not public: `10.0.0.0/8`, `10.0.0.5:6379`, `fd00::/8:8000-8999`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// A network, for certain ports or for all that are not of another kind of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedNetwork {
    network: IpNet,
    /// The first and the last port.
    ports: Option<(u16, u16)>,
}

/// A text that is no such network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a network such as 10.0.0.0/8 or fd00::/8, with ports where only these are meant: 10.0.0.0/8:8080-8090"
)]
pub struct NoNetwork;

impl AllowedNetwork {
    /// The same network for this port alone.
    #[must_use]
    pub const fn on(self, port: u16) -> Self {
        Self {
            network: self.network,
            ports: Some((port, port)),
        }
    }

    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        self.network.contains(&ip)
    }

    pub(super) fn names(&self, port: u16) -> bool {
        self.ports.is_some_and(|(first, last)| (first..=last).contains(&port))
    }

    pub(super) const fn is_for_any_port(&self) -> bool {
        self.ports.is_none()
    }
}

impl From<IpNet> for AllowedNetwork {
    fn from(network: IpNet) -> Self {
        Self {
            network: network.trunc(),
            ports: None,
        }
    }
}

impl FromStr for AllowedNetwork {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(IpNet::from(ip).into());
        }
        // The address of a network has no brackets, for the length of its prefix ends it.
        let (network, ports) = if let Some((address, rest)) = text.rsplit_once('/') {
            let (prefix, ports) = rest.split_once(':').unzip();
            let network = format!("{address}/{}", prefix.unwrap_or(rest)).parse();
            (network.map_err(|_| NoNetwork)?, ports)
        } else {
            let (address, ports) = text.rsplit_once(':').ok_or(NoNetwork)?;
            let plain = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let ip: IpAddr = plain.unwrap_or(address).parse().map_err(|_| NoNetwork)?;
            if ip.is_ipv6() != plain.is_some() {
                return Err(NoNetwork);
            }
            (IpNet::from(ip), Some(ports))
        };
        Ok(Self {
            network: network.trunc(),
            ports: ports.map(range).transpose()?,
        })
    }
}

fn range(text: &str) -> Result<(u16, u16), NoNetwork> {
    let port = |text: &str| text.parse().ok().filter(|port| *port > 0).ok_or(NoNetwork);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if first <= last {
        Ok((first, last))
    } else {
        Err(NoNetwork)
    }
}

impl fmt::Display for AllowedNetwork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.network.fmt(formatter)?;
        match self.ports {
            None => Ok(()),
            Some((first, last)) if first == last => write!(formatter, ":{first}"),
            Some((first, last)) => write!(formatter, ":{first}-{last}"),
        }
    }
}
