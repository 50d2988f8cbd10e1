'use strict'
// kafkajs as a client program: one JSON command a line in, one JSON answer a line out.

const fs = require('fs')
const readline = require('readline')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const { createLogger } = require('kafkajs/src/loggers')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const zstd = require('@mongodb-js/zstd')
const { PartitionConsumer } = require('./consumer')
const group = require('./group')
const { transact } = require('./transactions')
const { readMessages, toLine } = require('./records')

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: ({ buffer }) => lz4.compressFrame(buffer),
  decompress: data => lz4.decompressFrame(data),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: ({ buffer }) => zstd.compress(buffer),
  decompress: data => zstd.decompress(data),
})

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const ACKS = { 0: 0, 1: 1, all: -1 }
// kafkajs makes one batch of whatever one send holds.
const BATCH_BYTES = 512 << 10

const bootstrap = process.argv[2]
const toStderr = () => ({ log }) => process.stderr.write(`${log.message} ${log.error || ''}\n`)
const kafka = new Kafka({
  brokers: [bootstrap],
  clientId: 'kafkajs',
  logLevel: logLevel.ERROR,
  logCreator: toStderr,
  connectionTimeout: 10000,
  requestTimeout: 60000,
  retry: { retries: 10, initialRetryTime: 200, maxRetryTime: 2000 },
})
const logger = createLogger({ level: logLevel.ERROR, logCreator: toStderr })
const producers = new Map()
const consumers = new Map()

async function kept(handles, name, make) {
  if (name === undefined) return make()
  if (!handles.has(name)) handles.set(name, await make())
  return handles.get(name)
}

async function produce({ topic, partition, file, codec, acks, idempotent, handle }) {
  const producer = await kept(producers, handle, async () => {
    const made = kafka.producer({ idempotent: Boolean(idempotent), metadataMaxAge: 1000, allowAutoTopicCreation: true })
    await made.connect()
    return made
  })
  const send = messages => producer.send({ topic, acks: ACKS[acks], compression: CODECS[codec], messages })
  let [batch, bytes, records] = [[], 0, 0]
  try {
    for await (const message of readMessages(file)) {
      batch.push({ ...message, partition })
      bytes += (message.value || '').length
      records++
      if (bytes >= BATCH_BYTES) {
        await send(batch)
        batch = []
        bytes = 0
      }
    }
    if (batch.length > 0) await send(batch)
  } finally {
    if (handle === undefined) await producer.disconnect()
  }
  return { records }
}

async function newConsumer({ topic, partition, offset, fetch_bytes: fetchBytes }) {
  const consumer = new PartitionConsumer({ bootstrap, logger, topic, partition, offset, fetchBytes })
  await consumer.connect()
  return consumer
}

async function consume(command) {
  const consumer = await kept(consumers, command.handle, () => newConsumer(command))
  const out = fs.createWriteStream(command.file)
  const deadline = Date.now() + command.timeout_ms
  let records = 0
  try {
    while (records < command.count) {
      if (Date.now() > deadline) throw new Error(`${command.count - records} of ${command.count} records missing`)
      const messages = await consumer.fetch()
      records += messages.length
      if (!out.write(messages.map(message => toLine(message) + '\n').join(''))) {
        await new Promise(resolve => out.once('drain', resolve))
      }
    }
  } finally {
    if (command.handle === undefined) await consumer.close()
    await new Promise(resolve => out.end(resolve))
  }
  return { records }
}

async function idle(command) {
  const consumer = await newConsumer(command)
  const deadline = Date.now() + command.ms
  let records = 0
  while (Date.now() < deadline) records += (await consumer.fetch()).length
  await consumer.close()
  return { records }
}

async function withAdmin(work) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

const watermarks = ({ topic, partition }) =>
  withAdmin(async admin => {
    const found = (await admin.fetchTopicOffsets(topic)).find(one => one.partition === partition)
    return { low: Number(found.low), high: Number(found.high) }
  })

// The admin's own search by time answers the end of the partition when no record is that late.
const times = ({ topic, partition, timestamps }) =>
  withAdmin(async admin => {
    const end = Number((await admin.fetchTopicOffsets(topic)).find(one => one.partition === partition).high)
    const offsets = []
    for (const timestamp of timestamps) {
      const all = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)
      const offset = Number(all.find(one => one.partition === partition).offset)
      offsets.push(offset < 0 || offset >= end ? null : offset)
    }
    return { offsets }
  })

const topics = () =>
  withAdmin(async admin => {
    const metadata = await admin.fetchTopicMetadata()
    return { topics: Object.fromEntries(metadata.topics.map(topic => [topic.name, topic.partitions.length])) }
  })

const create = ({ topic, partitions, configs }) =>
  withAdmin(async admin => {
    const configEntries = Object.entries(configs || {}).map(([name, value]) => ({ name, value }))
    await admin.createTopics({ topics: [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }] })
    return {}
  })

const remove = ({ topic }) =>
  withAdmin(async admin => {
    await admin.deleteTopics({ topics: [topic] })
    return {}
  })

const verbs = {
  produce, consume, idle, watermarks, times, topics, create, delete: remove,
  member: command => group.join(kafka, command),
  transact: command => transact(kafka, command),
  poll: group.poll,
  leave: group.leave,
  committed: command => withAdmin(admin => group.committed(admin, command)),
  reset_offsets: command => withAdmin(admin => group.resetOffsets(admin, command)),
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line)
    let answer
    try {
      if (!verbs[command.op]) throw new Error(`unknown op ${command.op}`)
      answer = await verbs[command.op](command)
    } catch (failure) {
      answer = { error: `${failure.name}: ${failure.message}` }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  }
  process.exit(0)
}

main()
