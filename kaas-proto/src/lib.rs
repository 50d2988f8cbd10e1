//! Kafka 3.7 wire protocol.
