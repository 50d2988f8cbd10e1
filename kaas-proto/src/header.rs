//! Which header precedes which body.
//!
//! The body's version decides: flexible requests have header version 2, others 1; flexible responses have header
//! version 1, others 0. Two exceptions: `ControlledShutdown` version 0 has request header 0, without a client id, and
//! every `ApiVersions` response has response header 0, because its reader does not yet know what the broker speaks.
//!
//! A broker reads the first four bytes (key and version), asks [`ApiInfo`](crate::ApiInfo) for the header version and
//! decodes the header with it.

pub use crate::headers::{RequestHeader, ResponseHeader};

#[cfg(test)]
mod tests {
    use crate::registry::{APIS, ApiKey};

    #[test]
    fn header_versions_have_kafkas_exceptions() {
        let shutdown = ApiKey::ControlledShutdown.info();
        assert_eq!([0, 1, 2, 3].map(|version| shutdown.request_header_version(version)), [0, 1, 1, 2]);
        let versions = ApiKey::ApiVersions.info();
        assert_eq!([0, 2, 3, 99].map(|version| versions.request_header_version(version)), [1, 1, 2, 2]);
        assert_eq!([0, 2, 3, 99].map(|version| versions.response_header_version(version)), [0, 0, 0, 0]);
        let fetch = ApiKey::Fetch.info();
        assert_eq!([0, 11, 12, 16].map(|version| fetch.request_header_version(version)), [1, 1, 2, 2]);
        assert_eq!([0, 11, 12, 16].map(|version| fetch.response_header_version(version)), [0, 0, 1, 1]);
        // An API that is never flexible keeps the old headers for ever.
        assert_eq!(ApiKey::SaslHandshake.info().request_header_version(1), 1);
        assert!(APIS.iter().all(|api| api.request_header_version(api.valid.max) <= 2));
    }
}
