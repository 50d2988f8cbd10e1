'use strict'
// kafkajs has no public consumer without a group, so this one drives its Cluster and Broker classes: the
// requests, the decoding and the retries are the library's, only the choice of partition and offset is ours.

const Cluster = require('kafkajs/src/cluster')
const Batch = require('kafkajs/src/consumer/batch')
const ISOLATION_LEVEL = require('kafkajs/src/protocol/isolationLevel')
const defaultSocketFactory = require('kafkajs/src/network/socketFactory')

const FETCH_MAX_WAIT_MS = 500
const FETCH_BYTES = 1 << 20
const RETRY_MS = 200
const METADATA_MAX_AGE_MS = 1000

class PartitionConsumer {
  constructor({ bootstrap, logger, topic, partition, offset, fetchBytes }) {
    this.topic = topic
    this.partition = partition
    this.offset = String(offset)
    this.fetchBytes = fetchBytes || FETCH_BYTES
    this.cluster = new Cluster({
      logger,
      brokers: [bootstrap],
      clientId: 'kafkajs',
      connectionTimeout: 10000,
      requestTimeout: 60000,
      enforceRequestTimeout: true,
      metadataMaxAge: METADATA_MAX_AGE_MS,
      allowAutoTopicCreation: false,
      isolationLevel: ISOLATION_LEVEL.READ_UNCOMMITTED,
      socketFactory: defaultSocketFactory(),
      offsets: new Map(),
      retry: { retries: 10 },
    })
  }

  async connect() {
    await this.cluster.connect()
    await this.cluster.addTargetTopic(this.topic)
  }

  /** The messages of one fetch; what can be retried is, after new metadata. */
  async fetch() {
    try {
      await this.cluster.refreshMetadataIfNecessary()
      const leaders = this.cluster.findLeaderForPartitions(this.topic, [this.partition])
      const broker = await this.cluster.findBroker({ nodeId: Object.keys(leaders)[0] })
      const { responses } = await broker.fetch({
        maxWaitTime: FETCH_MAX_WAIT_MS,
        minBytes: 1,
        maxBytes: Math.max(this.fetchBytes, FETCH_BYTES),
        isolationLevel: ISOLATION_LEVEL.READ_UNCOMMITTED,
        topics: [
          {
            topic: this.topic,
            partitions: [{ partition: this.partition, fetchOffset: this.offset, maxBytes: this.fetchBytes }],
          },
        ],
      })
      if (responses.length === 0) return []
      const batch = new Batch(this.topic, this.offset, responses[0].partitions[0])
      if (!batch.isEmptyIncludingFiltered()) this.offset = (BigInt(batch.lastOffset()) + 1n).toString()
      return batch.messages
    } catch (failure) {
      if (!failure.retriable && failure.name !== 'KafkaJSConnectionError') throw failure
      await new Promise(resolve => setTimeout(resolve, RETRY_MS))
      await this.cluster.connect()
      await this.cluster.refreshMetadata()
      return []
    }
  }

  async close() {
    await this.cluster.disconnect()
  }
}

module.exports = { PartitionConsumer }
