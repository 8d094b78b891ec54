//! YAML 1.1 as PyYAML's `safe_load` reads it, which is how the configuration of a store
//! is read by the program that writes its leaves.
//!
//! In: the text of one document. Out: a [`Yaml`] value, keys in order. The parser gives
//! events; what a plain scalar means is decided in [`scalar`], what `<<` and an alias
//! mean in [`load`].

use std::fmt;

mod load;
mod scalar;
#[cfg(test)]
mod tests;

pub(crate) use load::parse;

/// A value of a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Yaml {
    /// `null`, `~`, or nothing at all.
    Null,
    /// `yes`, `no`, `on`, `off`, `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number with a dot; also `.nan` and `.inf`.
    Float(f64),
    /// A string.
    Text(String),
    /// A date or a time, as Python's `isoformat` writes it.
    Time(String),
    /// A list.
    List(Vec<Yaml>),
    /// A mapping, keys in order, each once. Keys are scalars.
    Map(Vec<(Yaml, Yaml)>),
}

impl Yaml {
    /// The value under a text key of a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries()
            .iter()
            .find(|(found, _)| found.as_str() == Some(key))
            .map(|(_, value)| value)
    }

    /// As [`Yaml::get`], where null counts as absent.
    pub(crate) fn present(&self, key: &str) -> Option<&Self> {
        self.get(key).filter(|value| **value != Self::Null)
    }

    /// The text, of a string.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The pairs, of a mapping; none of anything else.
    pub(crate) fn entries(&self) -> &[(Self, Self)] {
        match self {
            Self::Map(entries) => entries,
            _ => &[],
        }
    }

    /// What kind of value it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::Time(_) => "a date",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// Why a document cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct YamlError {
    /// Line of the document, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}
