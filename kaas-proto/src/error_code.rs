//! The protocol's error codes.

use std::fmt;

include!(concat!(env!("OUT_DIR"), "/error_code.rs"));

impl ErrorCode {
    /// Whether there is no error.
    pub const fn is_none(self) -> bool {
        matches!(self, Self::None)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives() {
        for code in i16::MIN..=i16::MAX {
            assert_eq!(ErrorCode::from_code(code).code(), code);
        }
    }

    #[test]
    fn names_and_retriability_are_kafkas() {
        assert_eq!(ErrorCode::default(), ErrorCode::None);
        assert_eq!(ErrorCode::from_code(6), ErrorCode::NotLeaderOrFollower);
        assert!(ErrorCode::NotLeaderOrFollower.is_retriable());
        assert!(!ErrorCode::MessageTooLarge.is_retriable());
        assert_eq!(ErrorCode::from_code(-1).to_string(), "UNKNOWN_SERVER_ERROR (-1)");
        assert_eq!(ErrorCode::from_code(9999), ErrorCode::Other(9999));
    }
}
