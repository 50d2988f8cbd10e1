'use strict'
// The record file of lib/records.py: tabs between fields, `-` for null, `+` and base64 for bytes.

const fs = require('fs')
const readline = require('readline')

const parseField = field => (field === '-' ? null : Buffer.from(field.slice(1), 'base64'))
const printField = data => (data === null || data === undefined ? '-' : '+' + Buffer.from(data).toString('base64'))

/** A line as a message of kafkajs, whose headers are an object: one name, one value or an array of values. */
function toMessage(line) {
  const [timestamp, key, value, ...rest] = line.split('\t')
  const headers = {}
  for (let i = 0; i < rest.length; i += 2) {
    const name = parseField(rest[i]).toString()
    headers[name] = [...(headers[name] || []), parseField(rest[i + 1])]
  }
  for (const name of Object.keys(headers)) {
    if (headers[name].length === 1) headers[name] = headers[name][0]
  }
  const message = { key: parseField(key), value: parseField(value), headers }
  if (Number(timestamp) >= 0) message.timestamp = timestamp
  return message
}

function toLine({ timestamp, key, value, headers }) {
  const fields = [timestamp, printField(key), printField(value)]
  for (const [name, values] of Object.entries(headers || {})) {
    for (const one of Array.isArray(values) ? values : [values]) {
      fields.push(printField(name), printField(one))
    }
  }
  return fields.join('\t')
}

async function* readMessages(path) {
  for await (const line of readline.createInterface({ input: fs.createReadStream(path) })) yield toMessage(line)
}

module.exports = { readMessages, toLine }
