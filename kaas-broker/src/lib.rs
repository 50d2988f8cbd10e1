//! The kaas broker: Kafka 3.7's protocol in front of [`kaas_core`].
//!
//! [`serve::serve`] starts one; [`stack`] is the request path; [`handlers`] has a file for each API; [`apis`] lists what is served.

pub mod api_matrix;
pub mod apis;
pub mod audit;
pub mod banner;
pub mod broker;
pub mod config;
mod coordinators;
pub mod data_folder;
pub mod error;
pub mod groups;
pub mod handlers;
pub mod inspect;
pub mod instance_lock;
pub mod listener_info;
#[cfg(feature = "mutants")]
mod mutants;
pub mod net;
pub mod request;
pub mod router;
pub mod serve;
pub mod stack;
pub mod transactions;
