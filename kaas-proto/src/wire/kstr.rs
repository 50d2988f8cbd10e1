//! Text that is a checked view of a frame.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use bytes::Bytes;

/// UTF-8 text over shared bytes: a clone costs a reference count, and reading one from a frame copies nothing.
///
/// A `KStr` keeps the whole frame alive; what lives long should hold a `String` or a [`KStr::detached`] copy.
#[derive(Clone, Default)]
pub struct KStr {
    // Always UTF-8: every constructor checks it or starts from a str.
    bytes: Bytes,
}

impl KStr {
    /// Text that needs no allocation.
    pub const fn from_static(text: &'static str) -> Self {
        Self { bytes: Bytes::from_static(text.as_bytes()) }
    }

    /// The text, if `bytes` is UTF-8.
    pub fn from_utf8(bytes: Bytes) -> Result<Self, std::str::Utf8Error> {
        std::str::from_utf8(&bytes)?;
        Ok(Self { bytes })
    }

    /// The text as a str.
    pub fn as_str(&self) -> &str {
        unchecked::str(&self.bytes)
    }

    /// The bytes of the text.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// A copy that keeps no frame alive.
    pub fn detached(&self) -> Self {
        Self { bytes: Bytes::copy_from_slice(&self.bytes) }
    }
}

#[allow(unsafe_code)]
mod unchecked {
    /// The bytes of a `KStr` as a str.
    pub(super) fn str(bytes: &[u8]) -> &str {
        // SAFETY: only `KStr::as_str` calls this, with the private bytes of a `KStr`. Every constructor either takes
        // them from a str or String or has run `std::str::from_utf8` on them, and nothing changes them: `Bytes` is
        // immutable and the field is private.
        unsafe { std::str::from_utf8_unchecked(bytes) }
    }
}

impl Deref for KStr {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for KStr {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for KStr {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for KStr {
    /// Copies the text; [`KStr::from_static`] does not.
    fn from(text: &str) -> Self {
        Self { bytes: Bytes::copy_from_slice(text.as_bytes()) }
    }
}

impl From<String> for KStr {
    fn from(text: String) -> Self {
        Self { bytes: Bytes::from(text) }
    }
}

impl From<&String> for KStr {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<KStr> for String {
    fn from(text: KStr) -> Self {
        text.as_str().to_owned()
    }
}

impl PartialEq for KStr {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for KStr {}

impl PartialEq<str> for KStr {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for KStr {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for KStr {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl PartialOrd for KStr {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KStr {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for KStr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for KStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for KStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn only_utf8_becomes_text() {
        assert_eq!(KStr::from_utf8(Bytes::from_static("dé".as_bytes())).unwrap(), "dé");
        assert!(KStr::from_utf8(Bytes::from_static(b"\xff")).is_err());
        // The UTF-8 form of a surrogate is not UTF-8.
        assert!(KStr::from_utf8(Bytes::from_static(b"\xed\xa0\x80")).is_err());
    }

    #[test]
    fn text_is_a_key_like_str() {
        let map = HashMap::from([(KStr::from("a"), 1)]);
        assert_eq!(map.get("a"), Some(&1));
        let (a, b) = (KStr::from("a"), KStr::from_static("b"));
        assert!(a < b);
        assert_eq!(format!("{} {:?}", KStr::from("a"), KStr::from("b")), "a \"b\"");
    }

    #[test]
    fn a_view_shares_the_frame_and_a_detached_copy_does_not() {
        let frame = Bytes::from(vec![b'x'; 8]);
        let text = KStr::from_utf8(frame.slice(2..5)).unwrap();
        assert_eq!(text.as_bytes().as_ptr(), frame[2..].as_ptr());
        assert_ne!(text.detached().as_bytes().as_ptr(), text.as_bytes().as_ptr());
    }
}
