//! Version ranges and the conditions that test for them.

use std::fmt;

/// A range of versions, both ends included; empty when `lowest > highest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The lowest version in the range.
    pub lowest: i16,
    /// The highest version in the range; `i16::MAX` stands for "and all later ones".
    pub highest: i16,
}

/// A version range in a schema that is not `none`, `N`, `N-M` or `N+`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version range")]
pub struct BadVersions(String);

impl Versions {
    /// The range that holds no version.
    pub const NONE: Self = Self { lowest: 0, highest: -1 };

    /// Parses `none`, `3`, `3-5` or `3+`.
    pub fn parse(text: &str) -> Result<Self, BadVersions> {
        let bad = || BadVersions(text.to_owned());
        let number = |text: &str| match text.parse::<i16>() {
            Ok(number) if number >= 0 => Ok(number),
            _ => Err(bad()),
        };
        let versions = if text == "none" {
            return Ok(Self::NONE);
        } else if let Some(lowest) = text.strip_suffix('+') {
            Self { lowest: number(lowest)?, highest: i16::MAX }
        } else if let Some((lowest, highest)) = text.split_once('-') {
            Self { lowest: number(lowest)?, highest: number(highest)? }
        } else {
            Self { lowest: number(text)?, highest: number(text)? }
        };
        if versions.is_empty() { Err(bad()) } else { Ok(versions) }
    }

    /// Whether no version is in the range.
    pub fn is_empty(self) -> bool {
        self.lowest > self.highest
    }

    /// Whether `version` is in the range.
    pub fn contains(self, version: i16) -> bool {
        self.lowest <= version && version <= self.highest
    }

    /// The versions that are in both ranges.
    pub fn intersect(self, other: Self) -> Self {
        let both = Self { lowest: self.lowest.max(other.lowest), highest: self.highest.min(other.highest) };
        if both.is_empty() { Self::NONE } else { both }
    }

    /// The versions of the range in order.
    pub fn iter(self) -> impl Iterator<Item = i16> {
        self.lowest..=self.highest
    }

    /// The cheapest test that tells, for a version of `possible`, whether it is in this range.
    pub fn condition(self, possible: Self) -> Condition {
        let wanted = self.intersect(possible);
        if wanted.is_empty() {
            return Condition::Never;
        }
        match (wanted.lowest > possible.lowest, wanted.highest < possible.highest) {
            (false, false) => Condition::Always,
            (true, false) => Condition::AtLeast(wanted.lowest),
            (false, true) => Condition::AtMost(wanted.highest),
            (true, true) => Condition::Between(wanted.lowest, wanted.highest),
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.lowest, self.highest) {
            _ if self.is_empty() => f.write_str("none"),
            (lowest, i16::MAX) => write!(f, "{lowest}+"),
            (lowest, highest) if lowest == highest => write!(f, "{lowest}"),
            (lowest, highest) => write!(f, "{lowest}-{highest}"),
        }
    }
}

/// A test on the version, as data for the emitters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// True for every version that can occur here.
    Always,
    /// False for every version that can occur here.
    Never,
    /// `version >= n`.
    AtLeast(i16),
    /// `version <= n`.
    AtMost(i16),
    /// `a <= version <= b`.
    Between(i16, i16),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Condition {
        fn holds(self, version: i16) -> bool {
            match self {
                Self::Always => true,
                Self::Never => false,
                Self::AtLeast(lowest) => version >= lowest,
                Self::AtMost(highest) => version <= highest,
                Self::Between(lowest, highest) => lowest <= version && version <= highest,
            }
        }
    }

    fn versions() -> impl Strategy<Value = Versions> {
        (-1i16..20, -1i16..20).prop_map(|(lowest, highest)| Versions { lowest, highest })
    }

    proptest! {
        #[test]
        fn a_condition_agrees_with_the_range_on_every_possible_version(wanted in versions(), possible in versions()) {
            let condition = wanted.condition(possible);
            for version in possible.iter() {
                prop_assert_eq!(condition.holds(version), wanted.contains(version));
            }
        }

        #[test]
        fn an_intersection_holds_what_both_hold(a in versions(), b in versions(), version in -2i16..22) {
            prop_assert_eq!(a.intersect(b).contains(version), a.contains(version) && b.contains(version));
        }
    }

    #[test]
    fn ranges_print_as_they_are_read() {
        for text in ["none", "0", "3", "3-5", "0+"] {
            assert_eq!(Versions::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "5-3", "-1", "a", "1-", "+", "3 +"] {
            assert!(Versions::parse(text).is_err(), "{text}");
        }
    }
}
