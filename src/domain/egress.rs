//! stub
use std::net::IpAddr;
/// r
#[derive(Clone, Debug, Default)]
pub struct AddressRules(pub Vec<ipnet::IpNet>);
/// e
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address refused")]
pub struct AddressRefusal;
impl AddressRules {
    /// c
    pub fn check(&self, ip: IpAddr, _port: u16) -> Result<(), AddressRefusal> {
        if self.0.iter().any(|n| n.contains(&ip)) || !ip.is_loopback() {
            Ok(())
        } else {
            Err(AddressRefusal)
        }
    }
}
