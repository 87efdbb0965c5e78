//! Where a forwarder listens: `unix:/path` or `tcp:address:port`.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use rustix::net::SocketAddrUnix;

/// An address of a forwarder.
#[derive(Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix stream socket; descriptors can travel over it.
    Unix(SocketAddrUnix),
    /// A TCP address. Host names are not resolved: a resolver allocates, locks and reads files,
    /// which the preload library must not do inside a foreign program.
    Tcp(SocketAddr),
}

/// Why a text is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointError {
    /// Neither `unix:` nor `tcp:` in front.
    Scheme(String),
    /// The path is empty or longer than a socket address holds (107 bytes).
    Path(String),
    /// Not a numeric address and port.
    Address(String),
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme(text) => {
                write!(f, "endpoint '{text}': expected unix:/path or tcp:address:port")
            }
            Self::Path(path) => {
                write!(f, "endpoint path '{path}': expected an absolute path of 1 to 107 bytes")
            }
            Self::Address(text) => {
                write!(
                    f,
                    "endpoint address '{text}': expected a numeric address and port, such as 127.0.0.1:7070 or [::1]:7070"
                )
            }
        }
    }
}

impl std::error::Error for EndpointError {}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let fits = path.starts_with('/').then(|| SocketAddrUnix::new(path).ok()).flatten();
            fits.map(Self::Unix).ok_or_else(|| EndpointError::Path(path.into()))
        } else if let Some(address) = text.strip_prefix("tcp:") {
            address.parse().map(Self::Tcp).map_err(|_| EndpointError::Address(address.into()))
        } else {
            Err(EndpointError::Scheme(text.into()))
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(address) => {
                let path = address.path_bytes().unwrap_or_default();
                write!(f, "unix:{}", String::from_utf8_lossy(path))
            }
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_and_written_alike() {
        for text in ["unix:/run/forebay.sock", "tcp:127.0.0.1:7070", "tcp:[::1]:7070"] {
            assert_eq!(text.parse::<Endpoint>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn a_bad_endpoint_is_refused_with_the_remedy() {
        for text in ["/run/x", "unix:", "unix:relative", "tcp:localhost:7070", "tcp:1.2.3.4"] {
            let error = text.parse::<Endpoint>().expect_err(text).to_string();
            assert!(error.contains("expected"), "{error}");
        }
        assert!(format!("unix:/{}", "x".repeat(200)).parse::<Endpoint>().is_err());
    }
}
