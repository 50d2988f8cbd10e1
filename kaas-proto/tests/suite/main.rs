//! The codec against Apache Kafka's bytes, against another codec, and against hostile bytes.

mod corpus;
mod golden;
mod hostile;
mod oracle;
mod random;
mod round_trip;
mod vectors;
