//! Why something is not so, apart from what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why something is not so, and what to do. As a text it is both, with a semicolon between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// What is wrong, on one line. In records it has the key that older ones have for both in one text.
    #[serde(rename = "reason")]
    pub problem: String,
    /// What to do, if that can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<String>,
}

impl Reason {
    /// What is wrong, and what to do about it.
    pub fn new(problem: impl Into<String>, repair: impl Into<String>) -> Reason {
        Reason { problem: problem.into(), repair: Some(repair.into()) }
    }

    /// The same of something in particular, which stands before the problem.
    #[must_use]
    pub fn of(self, what: impl fmt::Display) -> Reason {
        Reason { problem: format!("{what}: {}", self.problem), ..self }
    }

    /// What is wrong, where nothing can be said of what to do.
    pub fn without_repair(problem: impl Into<String>) -> Reason {
        Reason { problem: problem.into(), repair: None }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.problem)?;
        self.repair.as_ref().map_or(Ok(()), |repair| write!(formatter, "; {repair}"))
    }
}
