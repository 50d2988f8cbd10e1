'use strict'
// Members of consumer groups: kafkajs runs them by itself and tells what they have.

const SESSION_MS = 6000
// kafkajs cannot be told to let records alone until they are asked for, so they wait here.
const members = new Map()

async function join(kafka, { handle, group, topic }) {
  const consumer = kafka.consumer({
    groupId: group,
    sessionTimeout: SESSION_MS,
    heartbeatInterval: SESSION_MS / 12,
    metadataMaxAge: 1000,
    maxWaitTimeInMs: 500,
  })
  const member = { consumer, topic, assigned: [], received: [], rebalances: 0 }
  members.set(handle, member)
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.assigned = payload.memberAssignment[topic] || []
    member.rebalances++
  })
  consumer.on(consumer.events.REBALANCING, () => {
    member.assigned = []
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      member.received.push([partition, Number(message.offset)])
    },
  })
  return {}
}

async function poll({ handle, ms, commit }) {
  const member = members.get(handle)
  // The member goes on by itself; this only lets time pass before it is looked at.
  await new Promise(resolve => setTimeout(resolve, ms))
  const records = member.received.splice(0)
  if (commit && records.length > 0) {
    const next = new Map()
    for (const [partition, offset] of records) next.set(partition, Math.max(next.get(partition) || 0, offset + 1))
    const offsets = [...next].map(([partition, offset]) => ({ topic: member.topic, partition, offset: String(offset) }))
    await member.consumer.commitOffsets(offsets)
  }
  return { assigned: member.assigned, records, rebalances: member.rebalances }
}

async function leave({ handle }) {
  await members.get(handle).consumer.disconnect()
  members.delete(handle)
  return {}
}

const partitions = count => [...Array(count).keys()]

async function committed(admin, { group, topic, partitions: count }) {
  const [{ partitions: found }] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
  const offset = partition => Number((found.find(one => one.partition === partition) || { offset: -1 }).offset)
  return { offsets: partitions(count).map(offset).map(found => (found < 0 ? null : found)) }
}

async function resetOffsets(admin, { group, topic, partitions: count, offset }) {
  const to = partitions(count).map(partition => ({ partition, offset: String(offset) }))
  await admin.setOffsets({ groupId: group, topic, partitions: to })
  return {}
}

module.exports = { join, poll, leave, committed, resetOffsets }
