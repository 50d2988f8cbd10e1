'use strict'
// Transactional producers, by the name that the command gives them.

const { readMessages } = require('./records')

const producers = new Map()
// Transactions that were left open; the next command goes on with them.
const open = new Map()

async function transact(kafka, { handle, id, topic, partition, file, outcome }) {
  if (!producers.has(handle)) {
    const made = kafka.producer({ transactionalId: id, idempotent: true, maxInFlightRequests: 1, retry: { retries: 5 } })
    await made.connect()
    producers.set(handle, made)
  }
  const transaction = open.get(handle) || (await producers.get(handle).transaction())
  const messages = []
  for await (const message of readMessages(file)) messages.push({ ...message, partition })
  await transaction.send({ topic, messages })
  open.delete(handle)
  if (outcome === 'open') open.set(handle, transaction)
  if (outcome === 'commit') await transaction.commit()
  if (outcome === 'abort') await transaction.abort()
  return {}
}

module.exports = { transact }
