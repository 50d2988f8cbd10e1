//! The 61-byte header of a v2 record batch.
//!
//! ```text
//!  0 baseOffset i64 | 8 batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8 | 17 crc u32
//! 21 attributes i16 | 23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64
//! 43 producerId i64 | 51 producerEpoch i16 | 53 baseSequence i32 | 57 count i32 | 61 records
//! ```
//! batchLength counts from byte 12; the CRC-32C covers byte 21 to the end.

/// Bytes of a batch before its records.
pub const BATCH_OVERHEAD: usize = 61;
/// Bytes of a batch that its length field does not count.
pub(crate) const LOG_OVERHEAD: usize = 12;

pub(crate) const BASE_OFFSET_AT: usize = 0;
pub(crate) const LEADER_EPOCH_AT: usize = 12;
pub(crate) const MAGIC_AT: usize = 16;
pub(crate) const CRC_AT: usize = 17;
pub(crate) const ATTRIBUTES_AT: usize = 21;
pub(crate) const MAX_TIMESTAMP_AT: usize = 35;

const CODEC_MASK: i16 = 0x07;
pub(crate) const LOG_APPEND_TIME_BIT: i16 = 0x08;
pub(crate) const TRANSACTIONAL_BIT: i16 = 0x10;
pub(crate) const CONTROL_BIT: i16 = 0x20;
pub(crate) const DELETE_HORIZON_BIT: i16 = 0x40;

/// The codec of a batch's records, by its attribute bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionCodec {
    /// Not compressed.
    None,
    /// RFC 1952.
    Gzip,
    /// Raw blocks, or blocks in xerial's frame.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// RFC 8878.
    Zstd,
    /// A value that Kafka has not given a meaning.
    Unknown(u8),
}

impl CompressionCodec {
    /// The codec in the lowest bits of a batch's or a message's attributes.
    pub(crate) fn of(attributes: i16) -> Self {
        match attributes & CODEC_MASK {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            other => Self::Unknown(other as u8),
        }
    }

    /// Its attribute bits.
    pub(crate) fn bits(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
            Self::Unknown(bits) => i16::from(bits),
        }
    }
}

/// The fields of a batch header, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// First offset.
    pub base_offset: i64,
    /// Bytes of the whole batch, header and length field included.
    pub size: usize,
    /// Epoch of the leader that stored it.
    pub leader_epoch: i32,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Codec (bits 0-2), timestamp type (3), transactional (4), control (5), delete horizon (6).
    pub attributes: i16,
    /// Last offset minus base offset.
    pub last_offset_delta: i32,
    /// Timestamp that the records' deltas add to, milliseconds.
    pub base_timestamp: i64,
    /// Greatest timestamp, milliseconds.
    pub max_timestamp: i64,
    /// Producer id, or -1.
    pub producer_id: i64,
    /// Producer epoch, or -1.
    pub producer_epoch: i16,
    /// First sequence number, or -1.
    pub base_sequence: i32,
    /// Number of records.
    pub record_count: i32,
}

/// Bytes that do not start with a v2 batch header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    #[error("fewer bytes than a batch header")]
    Short,
    /// A length field that is smaller than a header.
    #[error("batch length {0} is too small")]
    Length(i32),
    /// Another format.
    #[error("magic {0}")]
    Magic(i8),
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`; looks at no byte past it.
    ///
    /// # Errors
    /// [`HeaderError`]; the checksum is not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let head: &[u8; BATCH_OVERHEAD] = bytes.first_chunk().ok_or(HeaderError::Short)?;
        let magic = i8::from_be_bytes(field(head, MAGIC_AT));
        if magic != 2 {
            return Err(HeaderError::Magic(magic));
        }
        let length = i32::from_be_bytes(field(head, 8));
        let size = usize::try_from(length).map_err(|_| HeaderError::Length(length))? + LOG_OVERHEAD;
        if size < BATCH_OVERHEAD {
            return Err(HeaderError::Length(length));
        }
        Ok(Self {
            base_offset: i64::from_be_bytes(field(head, BASE_OFFSET_AT)),
            size,
            leader_epoch: i32::from_be_bytes(field(head, LEADER_EPOCH_AT)),
            crc: u32::from_be_bytes(field(head, CRC_AT)),
            attributes: i16::from_be_bytes(field(head, ATTRIBUTES_AT)),
            last_offset_delta: i32::from_be_bytes(field(head, 23)),
            base_timestamp: i64::from_be_bytes(field(head, 27)),
            max_timestamp: i64::from_be_bytes(field(head, MAX_TIMESTAMP_AT)),
            producer_id: i64::from_be_bytes(field(head, 43)),
            producer_epoch: i16::from_be_bytes(field(head, 51)),
            base_sequence: i32::from_be_bytes(field(head, 53)),
            record_count: i32::from_be_bytes(field(head, 57)),
        })
    }

    /// The bytes that [`parse`](Self::parse) reads, with the checksum as it is in the field.
    pub(crate) fn to_bytes(self) -> [u8; BATCH_OVERHEAD] {
        let mut head = [0; BATCH_OVERHEAD];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(BASE_OFFSET_AT, &self.base_offset.to_be_bytes());
        put(8, &((self.size - LOG_OVERHEAD) as i32).to_be_bytes());
        put(LEADER_EPOCH_AT, &self.leader_epoch.to_be_bytes());
        put(MAGIC_AT, &[2]);
        put(CRC_AT, &self.crc.to_be_bytes());
        put(ATTRIBUTES_AT, &self.attributes.to_be_bytes());
        put(23, &self.last_offset_delta.to_be_bytes());
        put(27, &self.base_timestamp.to_be_bytes());
        put(MAX_TIMESTAMP_AT, &self.max_timestamp.to_be_bytes());
        put(43, &self.producer_id.to_be_bytes());
        put(51, &self.producer_epoch.to_be_bytes());
        put(53, &self.base_sequence.to_be_bytes());
        put(57, &self.record_count.to_be_bytes());
        head
    }

    /// The header with the size and the checksum that belong to it before `records`.
    pub(crate) fn sealed(self, records: &[u8]) -> Self {
        let unsealed = Self { size: BATCH_OVERHEAD + records.len(), ..self };
        let crc = crc32c::crc32c_append(crc32c::crc32c(&unsealed.to_bytes()[ATTRIBUTES_AT..]), records);
        Self { crc, ..unsealed }
    }

    /// Last offset; saturates on a header that lies.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// The offset after the last.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// The codec of the records.
    pub fn codec(&self) -> CompressionCodec {
        CompressionCodec::of(self.attributes)
    }

    /// The header with another codec.
    pub(crate) fn with_codec(self, codec: CompressionCodec) -> Self {
        Self { attributes: self.attributes & !CODEC_MASK | codec.bits(), ..self }
    }

    /// Whether all records carry [`max_timestamp`](Self::max_timestamp), the broker's time.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME_BIT != 0
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Whether the batch is a broker's marker.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// When the batch's tombstones and markers may go (KIP-534), if compaction has met them: then the base timestamp
    /// is that time.
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.attributes & DELETE_HORIZON_BIT != 0).then_some(self.base_timestamp)
    }

    /// The timestamp of a record of this batch whose stored delta is `delta`.
    pub fn record_timestamp(&self, delta: i64) -> i64 {
        if self.is_log_append_time() { self.max_timestamp } else { self.base_timestamp.wrapping_add(delta) }
    }
}

/// The checksum that belongs in a batch: `batch` is the whole of it.
pub(crate) fn batch_crc(batch: &[u8]) -> u32 {
    crc32c::crc32c(batch.get(ATTRIBUTES_AT..).unwrap_or_default())
}

fn field<const N: usize>(head: &[u8; BATCH_OVERHEAD], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&head[at..at + N]);
    bytes
}
