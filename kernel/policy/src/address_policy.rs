//! The addresses that a client may contact: those of the public internet, and those that the settings
//! add.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::is_public_address;

/// An error for a text that is neither an address nor a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address or a network")]
pub struct AddressPolicyError(pub String);

/// The addresses that a client may contact; by default, those of the public internet.
#[derive(Debug, Clone, Default)]
pub struct AddressPolicy {
    allowed: Vec<IpNet>,
}

impl AddressPolicy {
    /// Parses the addresses and networks that may be contacted although they are not public.
    ///
    /// # Errors
    /// [`AddressPolicyError`] with the first text that is neither an address nor a network.
    pub fn parse(texts: &[String]) -> Result<Self, AddressPolicyError> {
        let parse = |text: &String| {
            let network = text.parse::<IpNet>();
            network
                .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
                .map_err(|_| AddressPolicyError(text.clone()))
        };
        Ok(Self { allowed: texts.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// Returns whether an address may be contacted.
    #[must_use]
    pub fn is_allowed(&self, address: IpAddr) -> bool {
        is_public_address(address) || self.is_listed(address)
    }

    /// Returns whether the settings list an address.
    #[must_use]
    pub fn is_listed(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allowed.iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn public_addresses_are_allowed() {
        let policy = AddressPolicy::default();
        for text in ["1.1.1.1", "::ffff:8.8.8.8", "2606:4700:4700::1111"] {
            assert!(policy.is_allowed(address(text)), "{text}");
        }
        for text in ["127.0.0.1", "::ffff:169.254.169.254", "fd00:ec2::254"] {
            assert!(!policy.is_allowed(address(text)), "{text}");
        }
    }

    #[test]
    fn settings_add_addresses() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let policy = AddressPolicy::parse(&texts(&["127.0.0.1", "192.168.1.0/24"])).unwrap();
        for text in ["127.0.0.1", "::ffff:127.0.0.1", "192.168.1.200"] {
            assert!(policy.is_allowed(address(text)), "{text}");
            assert!(policy.is_listed(address(text)), "{text}");
        }
        assert!(!policy.is_listed(address("1.1.1.1")));
        for text in ["127.0.0.2", "192.168.2.1", "::1"] {
            assert!(!policy.is_allowed(address(text)), "{text}");
        }
        for text in ["localhost", "127.0.0.1:80", "10.0.0.0/33", ""] {
            assert_eq!(AddressPolicy::parse(&texts(&[text])).unwrap_err().0, text);
        }
    }
}
