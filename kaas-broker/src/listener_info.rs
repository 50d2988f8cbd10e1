//! A listener as the rest of the broker sees it: its name and the address that its clients are told.

use std::net::{IpAddr, SocketAddr};

/// An open listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerInfo {
    /// The listener's name.
    pub name: String,
    /// Where it listens, with the port that the system chose.
    pub bound: SocketAddr,
    /// The host and port of `advertised.listeners`, when configured.
    pub advertised: Option<(String, u16)>,
    /// The host as `listeners` gives it; empty for every interface.
    pub host: String,
}

impl ListenerInfo {
    /// The host and port that a client of this listener is told.
    ///
    /// A listener on every interface has no address of its own: its clients are told the one that they reached, which is right on a
    /// laptop, in a container and behind a port that is not mapped.
    pub fn told(&self, reached: SocketAddr) -> (String, i32) {
        if let Some((host, port)) = &self.advertised {
            return (host.clone(), i32::from(*port));
        }
        let port = i32::from(self.bound.port());
        if self.bound.ip().is_unspecified() {
            return (plain(reached.ip()).to_string(), port);
        }
        (self.host.clone(), port)
    }
}

/// An IPv4 address that arrived on an IPv6 socket, as IPv4.
fn plain(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(bound: &str, host: &str, advertised: Option<(String, u16)>) -> ListenerInfo {
        ListenerInfo {
            name: "PLAINTEXT".to_owned(),
            bound: bound.parse().unwrap(),
            advertised,
            host: host.to_owned(),
        }
    }

    #[test]
    fn clients_are_told_the_configured_or_the_reached_address() {
        let reached = "[::ffff:10.1.2.3]:9092".parse().unwrap();
        let fixed = listener("0.0.0.0:9092", "", Some(("kaas.example".to_owned(), 19092)));
        assert_eq!(fixed.told(reached), ("kaas.example".to_owned(), 19092));
        assert_eq!(listener("[::]:9092", "", None).told(reached), ("10.1.2.3".to_owned(), 9092));
        assert_eq!(
            listener("127.0.0.1:9092", "localhost", None).told(reached),
            ("localhost".to_owned(), 9092)
        );
    }
}
