//! A network in CIDR notation: which peers may connect.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address range such as `10.0.0.0/8` or `::1/128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

impl Network {
    /// Whether an address lies in this network. An IPv4 address that arrives on an IPv6 socket counts as IPv4.
    pub fn contains(&self, peer: IpAddr) -> bool {
        match (self.address, peer.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                same_prefix(ours.to_bits().into(), theirs.to_bits().into(), 32 - self.prefix_bits)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                same_prefix(ours.to_bits(), theirs.to_bits(), 128 - self.prefix_bits)
            }
            _ => false,
        }
    }
}

/// Whether two addresses agree when their `host_bits` lowest bits are ignored.
fn same_prefix(a: u128, b: u128, host_bits: u32) -> bool {
    (a ^ b).checked_shr(host_bits).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = ();

    /// Reads `address/bits`; a bare address is a network of one.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(drop)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match bits {
            Some(bits) => bits.parse().map_err(drop)?,
            None => width,
        };
        if prefix_bits > width {
            return Err(());
        }
        Ok(Self { address, prefix_bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_exactly_its_prefix() {
        let cases = [
            ("127.0.0.0/8", "127.1.2.3", true),
            ("127.0.0.0/8", "128.0.0.1", false),
            ("127.0.0.0/8", "::ffff:127.0.0.1", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "fe80::1", true),
            ("::1/128", "::1", true),
            ("::1/128", "::2", false),
        ];
        for (network, peer, expected) in cases {
            let parsed: Network = network.parse().unwrap();
            assert_eq!(parsed.contains(peer.parse().unwrap()), expected, "{network} {peer}");
        }
    }

    #[test]
    fn a_prefix_longer_than_the_address_is_refused() {
        for bad in ["1.2.3.4/33", "::1/129", "1.2.3/8", "1.2.3.4/", "1.2.3.4/-1", ""] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
