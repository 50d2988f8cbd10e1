//! Record batches as a field: bytes of the frame, or a range of a file for the transport to send.

use std::fmt;
use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;

/// A range of a file that the transport sends in place of bytes.
#[derive(Clone)]
pub struct FileSlice {
    /// The file.
    pub file: Arc<File>,
    /// Where the range begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// Record batches, as they lie on the wire. Decoding always gives `Bytes`.
#[derive(Clone)]
pub enum Records {
    /// In memory.
    Bytes(Bytes),
    /// In a file.
    File(FileSlice),
}

impl Records {
    /// The length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(slice) => slice.len as usize,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, unless they are in a file.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::File(_) => None,
        }
    }
}

impl Default for Records {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl From<Bytes> for Records {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<FileSlice> for Records {
    fn from(slice: FileSlice) -> Self {
        Self::File(slice)
    }
}

impl PartialEq for Records {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::File(a), Self::File(b)) => a == b,
            _ => false,
        }
    }
}

/// Ranges are equal when they are the same bytes of the same open file.
impl PartialEq for FileSlice {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && (self.offset, self.len) == (other.offset, other.len)
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "<{} bytes>", bytes.len()),
            Self::File(slice) => write!(f, "{slice:?}"),
        }
    }
}

impl fmt::Debug for FileSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes of a file at {}>", self.len, self.offset)
    }
}
