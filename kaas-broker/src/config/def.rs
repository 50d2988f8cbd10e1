//! What a configuration key is: its name, type, default, check, scope and meaning.
//!
//! The two tables ([`broker`](super::broker) and [`topic`](super::topic)) are the only place where a key is described.
//! Parsing, DescribeConfigs, `kaas config explain` and the book's reference all read the same rows.

use std::fmt;

/// The type of a key, with the code that DescribeConfigs v3 and later carry for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`, in any case.
    Boolean,
    /// Any text.
    String,
    /// A signed 32-bit number.
    Int,
    /// A signed 16-bit number.
    Short,
    /// A signed 64-bit number.
    Long,
    /// A 64-bit floating-point number.
    Double,
    /// Comma-separated words.
    List,
    /// Text that is never shown.
    Password,
}

impl Kind {
    /// The code in a DescribeConfigs response (KIP-569).
    pub fn code(self) -> i8 {
        match self {
            Kind::Boolean => 1,
            Kind::String => 2,
            Kind::Int => 3,
            Kind::Short => 4,
            Kind::Long => 5,
            Kind::Double => 6,
            Kind::List => 7,
            Kind::Password => 9,
        }
    }
}

/// A condition on the parsed value of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    /// Every value of the type.
    Any,
    /// A whole number in the closed range.
    Range(i64, i64),
    /// A floating-point number in the closed range.
    Fraction(f64, f64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of these words.
    ListOf(&'static [&'static str]),
    /// Only this value: kaas does not do anything else yet and refuses to pretend.
    Only(&'static str, &'static str),
}

/// Whether a key changes what kaas does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The value is used.
    Live,
    /// The value is accepted and shown, and does nothing for the reason given.
    None(&'static str),
}

/// One key: a row of the definition table.
#[derive(Clone, Copy, Debug)]
pub struct Def {
    /// Kafka's property name.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// The value when nobody sets one; `None` is Kafka's null.
    pub default: Option<&'static str>,
    /// What else a value must satisfy.
    pub check: Check,
    /// Whether kaas acts on it.
    pub effect: Effect,
    /// What it means, in one or two sentences.
    pub doc: &'static str,
}

/// Why a value was refused; the message is what an operator or an admin client sees.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid value {value} for configuration {key}: {why}")]
pub struct InvalidValue {
    /// The key.
    pub key: String,
    /// The value as it was given.
    pub value: String,
    /// What is wrong with it.
    pub why: String,
}

impl Def {
    /// The canonical text of `raw`, once its type and its check hold.
    pub fn normalise(&self, raw: &str) -> Result<String, InvalidValue> {
        let refuse = |why: String| InvalidValue { key: self.name.to_owned(), value: raw.to_owned(), why };
        let text = raw.trim();
        let canonical = match self.kind {
            Kind::Boolean if text.eq_ignore_ascii_case("true") => "true".to_owned(),
            Kind::Boolean if text.eq_ignore_ascii_case("false") => "false".to_owned(),
            Kind::Boolean => return Err(refuse("Expected value to be either true or false".to_owned())),
            Kind::Int => integer::<i32>(text).ok_or_else(|| refuse("Not a number of type INT".to_owned()))?,
            Kind::Short => {
                integer::<i16>(text).ok_or_else(|| refuse("Not a number of type SHORT".to_owned()))?
            }
            Kind::Long => {
                integer::<i64>(text).ok_or_else(|| refuse("Not a number of type LONG".to_owned()))?
            }
            Kind::Double => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => format!("{number:?}").replace('e', "E"),
                _ => return Err(refuse("Not a number of type DOUBLE".to_owned())),
            },
            Kind::List => list(text).collect::<Vec<_>>().join(","),
            Kind::String | Kind::Password => text.to_owned(),
        };
        self.check.holds(&canonical).map_err(refuse)?;
        Ok(canonical)
    }

    /// Whether the value must not be shown.
    pub fn sensitive(&self) -> bool {
        self.kind == Kind::Password
    }
}

/// The words of a list value.
pub fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn integer<N: std::str::FromStr + fmt::Display>(text: &str) -> Option<String> {
    text.parse::<N>().ok().map(|number| number.to_string())
}

impl Check {
    fn holds(&self, value: &str) -> Result<(), String> {
        match *self {
            Check::Any => Ok(()),
            Check::Range(low, high) => within(value.parse::<i64>().ok(), low, high),
            Check::Fraction(low, high) => within(value.parse::<f64>().ok(), low, high),
            Check::OneOf(words) if words.contains(&value) => Ok(()),
            Check::OneOf(words) => Err(format!("String must be one of: {}", words.join(", "))),
            Check::ListOf(words) => match list(value).find(|word| !words.contains(word)) {
                None => Ok(()),
                Some(_) => Err(format!("String must be one of: {}", words.join(", "))),
            },
            Check::Only(word, _) if word == value => Ok(()),
            Check::Only(word, why) => Err(format!("Only {word} is supported: {why}")),
        }
    }
}

fn within<N: PartialOrd + fmt::Display>(number: Option<N>, low: N, high: N) -> Result<(), String> {
    match number {
        None => Err("Not a number".to_owned()),
        Some(number) if number < low => Err(format!("Value must be at least {low}")),
        Some(number) if number > high => Err(format!("Value must be no more than {high}")),
        Some(_) => Ok(()),
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Check::Any => write!(f, "any"),
            Check::Range(low, i64::MAX) => write!(f, "at least {low}"),
            Check::Range(low, high) => write!(f, "{low} to {high}"),
            Check::Fraction(low, high) => write!(f, "{low} to {high}"),
            Check::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Check::ListOf(words) => write!(f, "a list of {}", words.join(", ")),
            Check::Only(word, why) => write!(f, "only {word}: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: Def = Def {
        name: "n",
        kind: Kind::Int,
        default: None,
        check: Check::Range(1, i64::MAX),
        effect: Effect::Live,
        doc: "",
    };

    #[test]
    fn numbers_are_canonical_and_checked() {
        assert_eq!(INT.normalise(" 007 ").unwrap(), "7");
        assert!(INT.normalise("0").unwrap_err().why.contains("at least 1"));
        assert!(INT.normalise("4294967296").unwrap_err().why.contains("INT"));
        assert!(INT.normalise("").is_err());
    }

    #[test]
    fn lists_are_trimmed_and_checked_word_by_word() {
        let def = Def { kind: Kind::List, check: Check::ListOf(&["compact", "delete"]), ..INT };
        assert_eq!(def.normalise(" compact , delete ").unwrap(), "compact,delete");
        assert!(def.normalise("compact,burn").is_err());
    }

    #[test]
    fn what_is_not_done_is_refused_with_the_reason() {
        let def = Def { kind: Kind::String, check: Check::Only("producer", "no recompression"), ..INT };
        assert!(def.normalise("producer").is_ok());
        assert!(def.normalise("zstd").unwrap_err().to_string().contains("no recompression"));
    }
}
