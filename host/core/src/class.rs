//! Every error in the system has one of four classes; one table says what each means.

use std::fmt;

/// What an error asks of the host. The table is [`Class::effect`]; nothing matches on error text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Expected and no error: something else must happen first.
    Wait,
    /// May pass by itself: tried again with growing delays.
    Retry,
    /// Passes only when a person changes the spec or something it stands on.
    UserFix,
    /// The plugin or the host broke its contract: a trap, a limit, an invalid answer.
    Bug,
}

/// What one class brings about, everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// Whether `Stalled` becomes true.
    pub stalled: bool,
    /// Whether the delays before the next try grow.
    pub backs_off: bool,
    /// Value of the metric label `class`.
    pub label: &'static str,
    /// Exit code of a command that ends with it.
    pub exit_code: u8,
}

impl Class {
    /// The one table.
    pub const fn effect(self) -> Effect {
        match self {
            Class::Wait => Effect {
                stalled: false,
                backs_off: false,
                label: "wait",
                exit_code: 3,
            },
            Class::Retry => Effect {
                stalled: false,
                backs_off: true,
                label: "retry",
                exit_code: 4,
            },
            Class::UserFix => Effect {
                stalled: true,
                backs_off: true,
                label: "user-fix",
                exit_code: 5,
            },
            Class::Bug => Effect {
                stalled: true,
                backs_off: true,
                label: "bug",
                exit_code: 6,
            },
        }
    }
}

/// Why a step cannot go on now: what a port answers instead of a result.
///
/// Its text is for people and names what was being done to which object. Rooms with errors worth telling apart keep
/// enums of their own and end in this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setback {
    /// What it asks of the host.
    pub class: Class,
    /// One CamelCase word, as in a condition.
    pub reason: String,
    /// One sentence: what, on which object, what would help.
    pub message: String,
}

impl Setback {
    /// A setback of this class.
    pub fn new(class: Class, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            class,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Setback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl std::error::Error for Setback {}
