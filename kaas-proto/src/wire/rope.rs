//! What a writer gives: bytes and file ranges in the order of sending.

use bytes::{Bytes, BytesMut};

use super::error::{EncodeError, EncodeErrorKind};
use super::records::FileSlice;

/// A piece of a rope.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of a file.
    File(FileSlice),
}

impl Piece {
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
}

/// Bytes and file ranges in the order of sending; no piece is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rope {
    /// The pieces.
    pub pieces: Vec<Piece>,
}

impl Rope {
    /// The length of all pieces in bytes.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Piece::len).sum()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The bytes of all pieces in one buffer; copies unless there is one piece.
    ///
    /// # Errors
    /// [`EncodeErrorKind::FileInside`] when a piece is in a file.
    pub fn to_bytes(&self) -> Result<Bytes, EncodeError> {
        if let [Piece::Bytes(only)] = self.pieces.as_slice() {
            return Ok(only.clone());
        }
        let mut all = BytesMut::with_capacity(self.len());
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(bytes) => all.extend_from_slice(bytes),
                Piece::File(_) => return Err(EncodeErrorKind::FileInside.into()),
            }
        }
        Ok(all.freeze())
    }
}
