//! Listeners and what clients are told of them.

use super::Layers;

/// An address of the form `NAME://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The listener's name, in upper case.
    pub name: String,
    /// A host name or address without brackets; empty means every interface.
    pub host: String,
    /// The port; 0 lets the system choose when listening.
    pub port: u16,
}

/// Why the listeners were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenerError {
    /// Not `NAME://host:port`.
    #[error("{0} is not of the form NAME://host:port")]
    Malformed(String),
    /// No listener at all.
    #[error("listeners is empty")]
    Empty,
    /// A name or a port used twice.
    #[error("listeners: {0} is used twice")]
    Twice(String),
    /// A security protocol that is not served.
    #[error("listener {0} maps to {1}: only PLAINTEXT listeners are served so far")]
    Protocol(String, String),
    /// A listener name without a security protocol.
    #[error("listener {0} has no entry in listener.security.protocol.map")]
    Unmapped(String),
    /// An advertised listener that does not exist.
    #[error("advertised.listeners names {0}, which is not in listeners")]
    NotListening(String),
    /// An advertised address that no client can reach.
    #[error("advertised.listeners: {0} must have a host that is not 0.0.0.0 and a port that is not 0")]
    NotReachable(String),
}

/// The listeners to open, each with the address that clients are told, if one was given.
pub fn resolve(layers: &Layers) -> Result<Vec<(Endpoint, Option<Endpoint>)>, ListenerError> {
    let listeners = parse(layers.get("listeners").unwrap_or_default())?;
    if listeners.is_empty() {
        return Err(ListenerError::Empty);
    }
    check_distinct(&listeners)?;
    let map = layers.get("listener.security.protocol.map").unwrap_or_default();
    for listener in &listeners {
        check_protocol(&listener.name, map)?;
    }
    let advertised = parse(layers.get("advertised.listeners").unwrap_or_default())?;
    for endpoint in &advertised {
        if !listeners.iter().any(|listener| listener.name == endpoint.name) {
            return Err(ListenerError::NotListening(endpoint.name.clone()));
        }
        if endpoint.port == 0 || endpoint.host.is_empty() || endpoint.host == "0.0.0.0" {
            return Err(ListenerError::NotReachable(endpoint.name.clone()));
        }
    }
    let told = |name: &str| advertised.iter().find(|endpoint| endpoint.name == name).cloned();
    Ok(listeners.into_iter().map(|listener| (listener.clone(), told(&listener.name))).collect())
}

fn parse(text: &str) -> Result<Vec<Endpoint>, ListenerError> {
    super::def::list(text).map(parse_one).collect()
}

fn parse_one(text: &str) -> Result<Endpoint, ListenerError> {
    let malformed = || ListenerError::Malformed(text.to_owned());
    let (name, address) = text.split_once("://").ok_or_else(malformed)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
    let port = port.parse().map_err(|_| malformed())?;
    let host = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
    if name.is_empty() {
        return Err(malformed());
    }
    Ok(Endpoint { name: name.to_uppercase(), host: host.to_owned(), port })
}

fn check_distinct(listeners: &[Endpoint]) -> Result<(), ListenerError> {
    for (at, one) in listeners.iter().enumerate() {
        for other in &listeners[at + 1..] {
            if one.name == other.name {
                return Err(ListenerError::Twice(one.name.clone()));
            }
            if one.port == other.port && one.port != 0 && one.host == other.host {
                return Err(ListenerError::Twice(format!("port {}", one.port)));
            }
        }
    }
    Ok(())
}

fn check_protocol(name: &str, map: &str) -> Result<(), ListenerError> {
    let protocol = super::def::list(map)
        .filter_map(|pair| pair.split_once(':'))
        .find(|(listener, _)| listener.eq_ignore_ascii_case(name))
        .map(|(_, protocol)| protocol);
    match protocol {
        Some(protocol) if protocol.eq_ignore_ascii_case("PLAINTEXT") => Ok(()),
        Some(protocol) => Err(ListenerError::Protocol(name.to_owned(), protocol.to_owned())),
        None => Err(ListenerError::Unmapped(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    fn of(pairs: &[(&str, &str)]) -> Result<Vec<(Endpoint, Option<Endpoint>)>, ListenerError> {
        let mut layers = Layers::default();
        for (key, value) in pairs {
            layers.set(key, value, Origin::Override).unwrap();
        }
        resolve(&layers)
    }

    #[test]
    fn names_hosts_and_ports_are_read_and_matched() {
        let found = of(&[
            ("listeners", "INSIDE://[::1]:9092,OUTSIDE://:9093"),
            ("listener.security.protocol.map", "inside:PLAINTEXT,OUTSIDE:plaintext"),
            ("advertised.listeners", "OUTSIDE://kaas.example:19093"),
        ])
        .unwrap();
        assert_eq!(found[0].0.host, "::1");
        assert_eq!(found[0].1, None);
        assert_eq!(found[1].1.as_ref().unwrap().host, "kaas.example");
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        assert!(matches!(of(&[("listeners", "SSL://:9092")]), Err(ListenerError::Protocol(..))));
        assert!(matches!(of(&[("listeners", "X://:9092")]), Err(ListenerError::Unmapped(_))));
        assert!(matches!(of(&[("listeners", "localhost:9092")]), Err(ListenerError::Malformed(_))));
        assert!(matches!(of(&[("listeners", "")]), Err(ListenerError::Empty)));
        let twice = [("listeners", "PLAINTEXT://:1,PLAINTEXT://:2")];
        assert!(matches!(of(&twice), Err(ListenerError::Twice(_))));
        let lost = [("advertised.listeners", "SSL://a:1")];
        assert!(matches!(of(&lost), Err(ListenerError::NotListening(_))));
        let nowhere = [("advertised.listeners", "PLAINTEXT://0.0.0.0:1")];
        assert!(matches!(of(&nowhere), Err(ListenerError::NotReachable(_))));
    }
}
