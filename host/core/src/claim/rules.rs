//! The rules of the protocol by name, so that each can be left out on purpose, and only in tests.

/// One rule. What breaks without it is told by the test of its name in `cargo xtask model claims`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The claims are listed after the fence is durable.
    ListAfterFence,
    /// Who uses a remote is read from claims, not counted in the memory of a process.
    NothingIsCounted,
    /// The claim is durable before holder and fence are read.
    ClaimBeforeFence,
    /// The registration that is deleted is the one read before the fence.
    RegistrationReadFirst,
    /// Who joins a claim reads the step's record again: it may have been emptied meanwhile.
    RecordReadAgain,
    /// C1: only a sole user takes away and releases; another is struck off only when observed gone.
    SoleUser,
    /// C2: a refused take leaves a claim that was used.
    UsedClaimStays,
    /// C3: a remote without our finalizer is not used.
    RemoteIsProtected,
    /// C4: the holder is read after its claim is durable, and must still want the step.
    HolderStillWants,
    /// C5: who writes a registration is on the remote's list while it does.
    RegistrarsAreListed,
    /// C6: a tear-down ends only at the version its fence was read at.
    EndAtTheFence,
    /// C7: a claim bears our finalizer from its first moment.
    ClaimIsProtected,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 12] = [
        Rule::ListAfterFence,
        Rule::NothingIsCounted,
        Rule::ClaimBeforeFence,
        Rule::RegistrationReadFirst,
        Rule::RecordReadAgain,
        Rule::SoleUser,
        Rule::UsedClaimStays,
        Rule::RemoteIsProtected,
        Rule::HolderStillWants,
        Rule::RegistrarsAreListed,
        Rule::EndAtTheFence,
        Rule::ClaimIsProtected,
    ];
}

/// The rules that a machine keeps: all of them, but for tests built with the feature `broken-rules`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rules {
    #[cfg(feature = "broken-rules")]
    left_out: Option<Rule>,
}

impl Rules {
    /// All but one.
    #[cfg(feature = "broken-rules")]
    #[must_use]
    pub const fn without(rule: Rule) -> Self {
        Self { left_out: Some(rule) }
    }

    /// Whether this rule is kept.
    #[must_use]
    pub fn keep(self, rule: Rule) -> bool {
        #[cfg(feature = "broken-rules")]
        let kept = self.left_out != Some(rule);
        #[cfg(not(feature = "broken-rules"))]
        let kept = {
            let _ = rule;
            true
        };
        kept
    }
}
