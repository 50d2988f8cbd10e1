//! Turns Kafka message schemas into the kaas-proto codec.
