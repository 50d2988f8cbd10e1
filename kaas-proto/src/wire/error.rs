//! Why bytes could not be read or a value not be written: small, without allocation, with the field's path.

use std::fmt;

/// The segments that a path keeps, the innermost first; schemas rarely nest deeper.
const PATH_LENGTH_MAX: usize = 4;

/// The path of a field, without the message's name: the innermost four segments.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FieldPath {
    segments: [&'static str; PATH_LENGTH_MAX],
}

impl FieldPath {
    fn push_outer(&mut self, segment: &'static str) {
        if let Some(free) = self.segments.iter_mut().find(|segment| segment.is_empty()) {
            *free = segment;
        }
    }

    fn outermost_first(&self) -> impl Iterator<Item = &'static str> {
        self.segments.into_iter().rev().filter(|segment| !segment.is_empty())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.outermost_first().enumerate() {
            f.write_str(if index == 0 { "" } else { "." })?;
            f.write_str(segment)?;
        }
        Ok(())
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Bytes that are not the message that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// What is wrong.
    pub kind: DecodeErrorKind,
    /// Where.
    pub path: FieldPath,
}

/// What is wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeErrorKind {
    /// The message has no such version.
    UnsupportedVersion(i16),
    /// The bytes end before the value does.
    Truncated,
    /// A varint has more than five bytes, more than 32 bits, or a byte that it does not need.
    BadVarint,
    /// A length below -1.
    NegativeLength,
    /// Null where the version does not allow it.
    UnexpectedNull,
    /// A string of more than 32767 bytes.
    StringTooLong,
    /// A string that is not UTF-8.
    NotUtf8,
    /// An array of more elements than the remaining bytes can hold.
    ArrayTooLong,
    /// Arrays that would take more memory than a frame of this size may.
    TooMuchMemory,
    /// A tag that is not above the one before it.
    TagOutOfOrder,
    /// A tagged field that does not take exactly the bytes that it claims.
    TaggedFieldSize,
    /// Bytes after the end of a message that must take all of them.
    TrailingBytes,
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnsupportedVersion(version) => return write!(f, "version {version} does not exist"),
            Self::Truncated => "the bytes end too early",
            Self::BadVarint => "malformed varint",
            Self::NegativeLength => "negative length",
            Self::UnexpectedNull => "null is not allowed here",
            Self::StringTooLong => "string longer than 32767 bytes",
            Self::NotUtf8 => "string is not UTF-8",
            Self::ArrayTooLong => "array longer than the bytes that remain",
            Self::TooMuchMemory => "arrays out of proportion to the size of the frame",
            Self::TagOutOfOrder => "tagged field twice or out of order",
            Self::TaggedFieldSize => "tagged field of another size than it claims",
            Self::TrailingBytes => "bytes after the end",
        })
    }
}

/// A value that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// What is wrong.
    pub kind: EncodeErrorKind,
    /// Where.
    pub path: FieldPath,
}

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeErrorKind {
    /// The message has no such version.
    UnsupportedVersion(i16),
    /// A value other than the default in a field that this version lacks and that may not be dropped.
    NotInVersion(i16),
    /// Null where the version does not allow it.
    UnexpectedNull,
    /// A string of more than 32767 bytes.
    StringTooLong,
    /// More bytes or elements than a length can say.
    TooLong,
    /// A file's bytes where bytes in memory are needed.
    FileInside,
}

impl fmt::Display for EncodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnsupportedVersion(version) => return write!(f, "version {version} does not exist"),
            Self::NotInVersion(version) => return write!(f, "version {version} cannot carry the value"),
            Self::UnexpectedNull => "null is not allowed here",
            Self::StringTooLong => "string longer than 32767 bytes",
            Self::TooLong => "longer than its length field can say",
            Self::FileInside => "part of the bytes are in a file",
        })
    }
}

macro_rules! error {
    ($error:ident, $kind:ident) => {
        impl From<$kind> for $error {
            #[cold]
            fn from(kind: $kind) -> Self {
                Self { kind, path: FieldPath::default() }
            }
        }

        impl fmt::Display for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.path.outermost_first().next() {
                    Some(_) => write!(f, "{}: {}", self.path, self.kind),
                    None => write!(f, "{}", self.kind),
                }
            }
        }

        impl std::error::Error for $error {}

        impl<T> At<T> for Result<T, $kind> {
            type Error = $error;
            #[inline]
            fn at(self, segment: &'static str) -> Result<T, $error> {
                self.map_err($error::from).at(segment)
            }
        }

        impl<T> At<T> for Result<T, $error> {
            type Error = $error;
            #[inline]
            fn at(self, segment: &'static str) -> Result<T, $error> {
                match self {
                    Ok(value) => Ok(value),
                    Err(mut error) => {
                        error.path.push_outer(segment);
                        Err(error)
                    }
                }
            }
        }
    };
}

error!(DecodeError, DecodeErrorKind);
error!(EncodeError, EncodeErrorKind);

/// Says in which field an error happened.
pub(crate) trait At<T> {
    /// The error with a path.
    type Error;
    /// Puts `segment` before the path so far.
    fn at(self, segment: &'static str) -> Result<T, Self::Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_from_the_outside() {
        let result: Result<(), DecodeErrorKind> = Err(DecodeErrorKind::NotUtf8);
        let error = result.at("name").at("topics").unwrap_err();
        assert_eq!(error.to_string(), "topics.name: string is not UTF-8");
        let deep = Err::<(), _>(error).at("c").at("b").at("a").unwrap_err();
        assert_eq!(deep.path.to_string(), "b.c.topics.name");
    }

    #[test]
    fn errors_are_small() {
        assert!(size_of::<DecodeError>() <= 72);
        assert!(size_of::<DecodeErrorKind>() <= 4);
    }
}
