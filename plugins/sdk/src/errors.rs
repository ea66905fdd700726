//! Errors of calls are decisions: handed on with `?`, they tell the host what to do next.

use std::fmt::Display;

use crate::{CallError, Failure, Problem, Readiness, Result};

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Invalid(vec![problem])
    }
}

impl Failure {
    /// The spec must change first; `path` is a JSON pointer into it.
    pub fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(vec![Problem::new(path, message)])
    }

    /// Will not pass by itself; a person must look.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self::Terminal(message.into())
    }
}

impl Problem {
    /// One thing wrong at a JSON pointer; empty for the whole document.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}

impl CallError {
    /// The sentence for people, without the name of the case.
    pub fn text(&self) -> String {
        match self {
            Self::Denied(text)
            | Self::Conflict(text)
            | Self::NotFound(text)
            | Self::Unavailable(text)
            | Self::Exhausted(text)
            | Self::Other(text) => text.clone(),
            Self::Invalid(problems) => {
                let line = |problem: &Problem| match problem.path.as_str() {
                    "" => problem.message.clone(),
                    path => format!("{path}: {}", problem.message),
                };
                problems.iter().map(line).collect::<Vec<_>>().join("; ")
            }
            Self::Fenced => "the host has taken this scope back".to_owned(),
        }
    }
}

impl Readiness {
    /// Ready, or nothing that says otherwise: a custom resource that tells nothing counts as ready.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready | Self::Unknown)
    }
}

/// All or nothing, for the results of a list: `on.apply_all(objects).all()?`.
pub trait All<T> {
    /// The values, if every item went well.
    ///
    /// # Errors
    /// `fenced` if it is among the errors, else the first error.
    fn all(self) -> Result<Vec<T>, CallError>;
}

impl<T> All<T> for Vec<Result<T, CallError>> {
    fn all(self) -> Result<Vec<T>, CallError> {
        if self.iter().any(|item| matches!(item, Err(CallError::Fenced))) {
            return Err(CallError::Fenced);
        }
        self.into_iter().collect()
    }
}

/// A document that could not be read or written as JSON.
pub(crate) fn unreadable(error: impl Display) -> CallError {
    CallError::Other(error.to_string())
}

/// The host promises lists of the same length.
pub(crate) fn length_differs() -> CallError {
    CallError::Other("the host answered fewer items than it was given".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_error_is_the_answer_of_all_and_fenced_comes_first() {
        let conflict = || Err(CallError::Conflict("c".into()));
        assert_eq!(vec![Ok(1), Ok(2)].all(), Ok(vec![1, 2]));
        assert_eq!(vec![Ok(1), conflict()].all(), Err(CallError::Conflict("c".into())));
        assert_eq!(
            vec![conflict(), Err(CallError::Fenced)].all().err(),
            Some(CallError::Fenced)
        );
    }

    #[test]
    fn a_call_error_becomes_a_failure_by_the_question_mark() {
        fn run() -> Result<()> {
            Err(CallError::Fenced)?
        }
        assert_eq!(run(), Err(Failure::Call(CallError::Fenced)));
    }
}
