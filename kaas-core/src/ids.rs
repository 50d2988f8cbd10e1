//! Checked names.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The longest topic name that Kafka accepts, in bytes.
pub const TOPIC_NAME_BYTES_MAX: usize = 249;

/// A legal topic name: 1 to 249 of `[a-zA-Z0-9._-]`, and neither `.` nor `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

/// A topic name that Kafka's naming rule refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Topic name is invalid: {reason}")]
pub struct InvalidTopicName {
    /// The rule that was broken, in the words that Kafka's tools show.
    pub reason: String,
}

impl TopicName {
    /// Checks `name` by Kafka's rule.
    ///
    /// # Errors
    /// [`InvalidTopicName`] with the rule that was broken.
    pub fn new(name: &str) -> Result<Self, InvalidTopicName> {
        let refuse = |reason: String| Err(InvalidTopicName { reason });
        if name.is_empty() {
            return refuse("the empty string is not allowed".to_owned());
        }
        if name == "." || name == ".." {
            return refuse("'.' or '..' is not allowed".to_owned());
        }
        if name.len() > TOPIC_NAME_BYTES_MAX {
            return refuse(format!(
                "the length of '{name}' is longer than the max allowed length {TOPIC_NAME_BYTES_MAX}"
            ));
        }
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if !name.bytes().all(legal) {
            return refuse(format!(
                "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
            ));
        }
        Ok(Self(Arc::from(name)))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for TopicName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kafkas_rule() {
        for good in ["a", "orders.v1", "__x-Y_9", &"x".repeat(249)] {
            assert_eq!(TopicName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "a~b", "é", "a b", "a\0", &"x".repeat(250)] {
            assert!(TopicName::new(bad).is_err(), "{bad:?}");
        }
    }
}
