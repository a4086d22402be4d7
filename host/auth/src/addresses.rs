//! Sets of IPv4 and IPv6 addresses and CIDR blocks.

use std::net::IpAddr;
use std::str::FromStr;

/// A set of addresses. An IPv4 address and its form mapped into IPv6 are the same address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses(Vec<Block>);

/// Why a text is not a list of addresses and blocks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{block}` {problem}")]
pub struct InvalidAddresses {
    block: String,
    problem: &'static str,
}

/// A CIDR block in canonical form: the bits after the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    network: IpAddr,
    prefix_bits: u32,
}

impl FromStr for Addresses {
    type Err = InvalidAddresses;

    /// Reads addresses and CIDR blocks, separated by commas.
    fn from_str(text: &str) -> Result<Self, InvalidAddresses> {
        let blocks = text.split(',').map(str::trim).filter(|block| !block.is_empty());
        let parsed = blocks.map(|block| {
            Block::parse(block).map_err(|problem| InvalidAddresses { block: block.to_owned(), problem })
        });
        parsed.collect::<Result<_, _>>().map(Self)
    }
}

impl Addresses {
    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set contains the address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (address, width) = to_bits(address.to_canonical());
        self.0.iter().any(|block| {
            let (network, network_width) = to_bits(block.network);
            network_width == width && mask(address, width, block.prefix_bits) == network
        })
    }
}

impl Block {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(it, prefix)| (it, Some(prefix)));
        let given: IpAddr = address.parse().map_err(|_| "is neither an address nor a CIDR block")?;
        let (_, given_width) = to_bits(given);
        let network = given.to_canonical();
        let (value, width) = to_bits(network);
        let prefix_bits = match prefix {
            None => width,
            Some(digits) => {
                let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
                let prefix_bits = digits.parse::<u32>().ok().filter(|bits| is_plain && *bits <= given_width);
                let prefix_bits = prefix_bits.ok_or("has a prefix length that its address cannot have")?;
                // A mapped address has 96 bits before the IPv4 address.
                prefix_bits
                    .checked_sub(given_width - width)
                    .ok_or("has a prefix length that its address cannot have")?
            }
        };
        if prefix_bits == 0 {
            return Err("would match every address");
        }
        if mask(value, width, prefix_bits) != value {
            return Err("has bits set after its prefix");
        }
        Ok(Self { network, prefix_bits })
    }
}

/// The address as a number, and its width in bits.
fn to_bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// The value with the bits after the prefix set to zero. `prefix_bits`: 1 to `width`.
const fn mask(value: u128, width: u32, prefix_bits: u32) -> u128 {
    let rest_bits = width - prefix_bits;
    (value >> rest_bits) << rest_bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(set: &str, address: &str) -> bool {
        set.parse::<Addresses>().unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn a_set_contains_its_addresses_and_no_others() {
        for (set, within, without) in [
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("10.1.2.2/31", "10.1.2.3", "10.1.2.4"),
            ("192.168.0.0/16, 127.0.0.1,", "127.0.0.1", "127.0.0.2"),
            ("::1", "::1", "::2"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("fe80::/10", "febf::1", "fec0::1"),
            ("128.0.0.0/1", "255.0.0.1", "127.0.0.1"),
        ] {
            assert!(contains(set, within) && !contains(set, without), "{set}");
        }
        assert!(!contains("", "127.0.0.1"));
        assert!(!contains("::/96", "0.0.0.1") && !contains("::1", "0.0.0.1"));
    }

    #[test]
    fn an_ipv4_address_equals_its_ipv6_mapped_form() {
        assert!(contains("127.0.0.1", "::ffff:127.0.0.1"));
        assert!(contains("::ffff:127.0.0.1", "127.0.0.1"));
        assert!(contains("::ffff:10.0.0.0/104", "10.9.9.9") && !contains("::ffff:10.0.0.0/104", "11.0.0.0"));
        assert!(!contains("10.0.0.0/8", "::a00:1"));
    }

    #[test]
    fn an_invalid_address_or_block_is_named_in_the_error() {
        for wrong in [
            "nginx",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.1/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "0.0.0.0/0",
            "::/0",
            "::ffff:0.0.0.0/96",
            "::ffff:1.2.3.4/64",
            "10.0.0.1 10.0.0.2",
            "010.0.0.1",
            "10.0.0.1:80",
        ] {
            let fault = format!("127.0.0.1,{wrong}").parse::<Addresses>().unwrap_err().to_string();
            assert!(fault.starts_with(&format!("`{wrong}` ")), "{fault}");
        }
    }
}
