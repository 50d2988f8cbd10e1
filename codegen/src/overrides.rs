//! What the schemas do not say: which fields are secret, and which names read badly in Rust.

/// Fields that never show in `Debug`: (message, struct, field).
const SENSITIVE: &[(&str, &str, &str)] = &[
    ("AlterConfigsRequest", "AlterableConfig", "Value"),
    ("AlterUserScramCredentialsRequest", "ScramCredentialUpsertion", "Salt"),
    ("AlterUserScramCredentialsRequest", "ScramCredentialUpsertion", "SaltedPassword"),
    ("CreateDelegationTokenResponse", "CreateDelegationTokenResponse", "Hmac"),
    ("DescribeDelegationTokenResponse", "DescribedDelegationToken", "Hmac"),
    ("EnvelopeRequest", "EnvelopeRequest", "RequestData"),
    ("EnvelopeResponse", "EnvelopeResponse", "ResponseData"),
    ("ExpireDelegationTokenRequest", "ExpireDelegationTokenRequest", "Hmac"),
    ("IncrementalAlterConfigsRequest", "AlterableConfig", "Value"),
    ("RenewDelegationTokenRequest", "RenewDelegationTokenRequest", "Hmac"),
    ("SaslAuthenticateRequest", "SaslAuthenticateRequest", "AuthBytes"),
    ("SaslAuthenticateResponse", "SaslAuthenticateResponse", "AuthBytes"),
];

/// Fields that have another name in Rust: (message, field, name).
const RENAMED: &[(&str, &str, &str)] =
    &[("RequestHeader", "RequestApiKey", "api_key"), ("RequestHeader", "RequestApiVersion", "api_version")];

/// Whether `Debug` must hide a field.
pub(crate) fn is_sensitive(message: &str, owner: &str, field: &str) -> bool {
    SENSITIVE.contains(&(message, owner, field))
}

/// The name of a field in Rust when it is not the schema's in snake case.
pub(crate) fn renamed(message: &str, field: &str) -> Option<&'static str> {
    RENAMED.iter().find(|entry| (entry.0, entry.1) == (message, field)).map(|entry| entry.2)
}

/// The (message, field) pairs that the tables above speak of; each must exist.
pub(crate) fn mentioned() -> impl Iterator<Item = (&'static str, &'static str)> {
    SENSITIVE.iter().map(|entry| (entry.0, entry.2)).chain(RENAMED.iter().map(|entry| (entry.0, entry.1)))
}
