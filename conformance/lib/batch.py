"""One batch of one record, as bytes: for what no client can be brought to send."""

import struct

TRANSACTIONAL = 0x10
MAGIC = 2
NO_EPOCH = -1


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), as record batches have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def transactional(producer_id: int, producer_epoch: int, timestamp_ms: int) -> bytes:
    """A transactional producer's first batch, in the format of KIP-98."""
    # Attributes, deltas of time and offset, no key, the value, no headers: zigzag numbers of one byte each.
    record = bytes([0, 0, 0, 1, 2]) + b"v" + bytes([0])
    record = bytes([2 * len(record)]) + record
    covered = struct.pack(
        ">hiqqqhii", TRANSACTIONAL, 0, timestamp_ms, timestamp_ms, producer_id, producer_epoch, 0, 1
    ) + record
    rest = struct.pack(">ibI", NO_EPOCH, MAGIC, crc32c(covered)) + covered
    return struct.pack(">qi", 0, len(rest)) + rest
