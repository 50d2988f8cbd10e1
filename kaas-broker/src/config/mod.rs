//! Configuration by definition table: one row a key, with layers and the provenance of every value.
//!
//! Layers, the later wins: default < `server.properties` < `KAAS_*` variables < `--override`.

pub mod broker;
pub mod def;
pub mod explain;
pub mod ignored;
pub mod layers;
pub mod listeners;
pub mod reasons;
pub mod resolve;
pub mod suggest;
pub mod topic;
pub mod typed;

pub use layers::{ConfigError, Layers, Origin};
pub use listeners::{Endpoint, ListenerError};
pub use typed::BrokerConfig;
