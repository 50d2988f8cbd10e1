//! The batches of a produce request: one a partition, grouped by topic.

use std::collections::HashMap;

use bytes::Bytes;
use kaas_core::Compression;
use kaas_core::record::{BatchHeader, CompressionCodec};
use kaas_proto::messages::ProduceRequest;
use kaas_proto::{ErrorCode, KStr};

/// The first version that carries record batches only.
pub(super) const BATCHES_FROM: i16 = 3;

/// The first version whose consumers know zstd (KIP-110).
const ZSTD_FROM: i16 = 7;

/// The longest compressed batch that is looked through without ado.
const QUICK_BYTES_MAX: usize = 16 * 1024;

/// What a partition shall append.
pub(super) struct Batch {
    pub(super) index: i32,
    /// The records as they arrived.
    pub(super) bytes: Option<Bytes>,
}

/// What a topic's partitions shall append.
pub(super) struct TopicBatches {
    pub(super) name: KStr,
    pub(super) batches: Vec<Batch>,
}

/// The batches of a request. As in Kafka, a topic that comes twice is answered once, and of a partition that comes twice the last
/// entry counts.
pub(super) fn of(request: ProduceRequest) -> Vec<TopicBatches> {
    let mut topics: Vec<TopicBatches> = Vec::with_capacity(request.topic_data.len());
    let mut places: HashMap<KStr, usize> = HashMap::new();
    for topic in request.topic_data {
        if topic.partition_data.is_empty() {
            continue;
        }
        let at = *places.entry(topic.name.clone()).or_insert(topics.len());
        if at == topics.len() {
            topics.push(TopicBatches {
                name: topic.name,
                batches: Vec::with_capacity(topic.partition_data.len()),
            });
        }
        for data in topic.partition_data {
            let bytes = data.records.and_then(|records| records.as_bytes().cloned());
            topics[at].put(Batch { index: data.index, bytes });
        }
    }
    topics
}

impl TopicBatches {
    fn put(&mut self, batch: Batch) {
        // Clients list partitions in rising order, so a repetition is looked for only where the order breaks.
        let rising = self.batches.last().is_none_or(|last| last.index < batch.index);
        match self.batches.iter_mut().find(|before| !rising && before.index == batch.index) {
            Some(before) => *before = batch,
            None => self.batches.push(batch),
        }
    }
}

impl Batch {
    /// The header, when the bytes begin with one of format 2.
    pub(super) fn header(&self) -> Option<BatchHeader> {
        BatchHeader::parse(self.bytes.as_ref()?).ok()
    }

    /// Whether the bytes are one batch of format 2 by its own length.
    pub(super) fn is_whole(&self) -> bool {
        self.header().is_some_and(|header| header.size == self.len())
    }

    /// Bytes that arrived.
    pub(super) fn len(&self) -> usize {
        self.bytes.as_ref().map_or(0, Bytes::len)
    }

    /// Whether an append takes so long that other connections would feel it: the records are decompressed, compressed or converted,
    /// and may be hundreds of times as long as they came.
    pub(super) fn takes_long(&self, stored: Compression) -> bool {
        let worked_on = || {
            self.header().is_none_or(|header| {
                header.codec() != CompressionCodec::None || stored.target(header.codec()) != header.codec()
            })
        };
        self.len() > QUICK_BYTES_MAX && worked_on()
    }

    pub(super) fn is_transactional(&self) -> bool {
        self.header().is_some_and(|header| header.is_transactional())
    }

    /// Whether a producer of this version may send such a batch. Of the versions that still have message sets, Kafka checks nothing.
    pub(super) fn check_version(&self, version: i16) -> Result<(), ErrorCode> {
        let zstd = || self.header().is_some_and(|header| header.codec() == CompressionCodec::Zstd);
        if (BATCHES_FROM..ZSTD_FROM).contains(&version) && zstd() {
            return Err(ErrorCode::UnsupportedCompressionType);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kaas_proto::Records;
    use kaas_proto::messages::produce_request::{PartitionProduceData, TopicProduceData};

    use super::*;

    fn topic(name: &'static str, partitions: &[(i32, &'static [u8])]) -> TopicProduceData {
        let data = |&(index, bytes): &(i32, &'static [u8])| PartitionProduceData {
            index,
            records: Some(Records::Bytes(Bytes::from_static(bytes))),
        };
        TopicProduceData { name: name.into(), partition_data: partitions.iter().map(data).collect() }
    }

    #[test]
    fn topics_are_grouped_and_the_last_entry_of_a_partition_counts() {
        let topic_data = vec![
            topic("a", &[(0, b"first"), (2, b"two"), (0, b"second")]),
            topic("none", &[]),
            topic("a", &[(1, b"one")]),
        ];
        let topics = of(ProduceRequest { topic_data, ..Default::default() });
        assert_eq!(topics.len(), 1);
        let found: Vec<_> =
            topics[0].batches.iter().map(|batch| (batch.index, &batch.bytes.as_ref().unwrap()[..])).collect();
        assert_eq!(found, [(0, &b"second"[..]), (2, b"two"), (1, b"one")]);
    }
}
