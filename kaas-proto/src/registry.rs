//! The APIs of Kafka 3.7 as constant data: keys, versions, headers, listeners.

use std::fmt;

include!(concat!(env!("OUT_DIR"), "/registry.rs"));

/// A range of versions, both ends included. `min > max` holds no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest version.
    pub min: i16,
    /// The highest version.
    pub max: i16,
}

impl VersionRange {
    /// Whether the range holds `version`.
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// Whether the range holds every version of `other`.
    pub const fn includes(self, other: Self) -> bool {
        self.min <= other.min && other.max <= self.max
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)
    }
}

/// An API key that Kafka 3.7 does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownApiKey(pub i16);

impl fmt::Display for UnknownApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not an API key", self.0)
    }
}

impl std::error::Error for UnknownApiKey {}

/// The kinds of listener that serve an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listeners {
    /// A broker of a ZooKeeper cluster.
    pub zk_broker: bool,
    /// A broker.
    pub broker: bool,
    /// A controller.
    pub controller: bool,
}

/// What the schemas say about an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiInfo {
    /// The key.
    pub key: ApiKey,
    /// The name, such as `Fetch`.
    pub name: &'static str,
    /// The versions that exist.
    pub valid: VersionRange,
    /// The first version with compact lengths and tagged fields.
    pub flexible_from: Option<i16>,
    /// The versions that Kafka calls deprecated.
    pub deprecated: Option<VersionRange>,
    /// The listeners that serve the API.
    pub listeners: Listeners,
    /// Whether the highest version may still change; it is not advertised then.
    pub latest_version_unstable: bool,
}

impl ApiInfo {
    /// Whether `version` is flexible; versions that do not exist yet are, once the API is.
    pub const fn is_flexible(&self, version: i16) -> bool {
        match self.flexible_from {
            Some(from) => version >= from,
            None => false,
        }
    }

    /// The version of the header before a request of `version`.
    pub const fn request_header_version(&self, version: i16) -> i16 {
        match (self.key, version) {
            (ApiKey::ControlledShutdown, 0) => 0,
            _ if self.is_flexible(version) => 2,
            _ => 1,
        }
    }

    /// The version of the header before a response of `version`.
    pub const fn response_header_version(&self, version: i16) -> i16 {
        match self.key {
            ApiKey::ApiVersions => 0,
            _ => self.is_flexible(version) as i16,
        }
    }
}

impl ApiKey {
    /// The number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The name, such as `Fetch`.
    pub const fn name(self) -> &'static str {
        self.info().name
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_infos_agree() {
        for api in APIS {
            assert_eq!(api.key.info(), api);
            assert_eq!(ApiKey::try_from(api.key.code()), Ok(api.key));
            assert!(api.valid.min <= api.valid.max);
        }
        assert_eq!(ApiKey::try_from(-1), Err(UnknownApiKey(-1)));
        assert_eq!(ApiKey::Fetch.info().valid, VersionRange { min: 0, max: 16 });
        assert_eq!(ApiKey::Fetch.info().deprecated, Some(VersionRange { min: 0, max: 3 }));
    }
}
