//! Sockets: accepting, framing, memory for requests, and sending.

pub mod admission;
pub mod budget;
pub mod conn;
pub mod frame;
pub mod listener;
pub mod outbox;
