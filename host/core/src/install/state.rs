//! Where an installation stands: a pure and total function of the stored plan, and of the clock for liveness only.

use jiff::Timestamp;

use super::plan::{JobResult, Plan};

/// Where an installation stands, in the order in which the function looks.
///
/// That the remote is out of reach changes what is said, never the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// There is no plan.
    Absent,
    /// The plan is another owner's of the same name: nothing of it is touched.
    Foreign,
    /// Deleted, and everything of it is shut.
    DeletedDone,
    /// Being deleted. No start wins any more.
    Deleting,
    /// The namespace is somebody else's. For good; nothing was done.
    Refused,
    /// Somebody prepares an attempt.
    PrepLive,
    /// Somebody prepared an attempt, and its lease has passed.
    PrepExpired,
    /// The Job is stored, and has no result.
    Running,
    /// It succeeded; its credential may still be good, or a pod run.
    SuccDirty,
    /// It failed; the same.
    FailDirty,
    /// It succeeded, and everything of it is shut.
    Succeeded,
    /// It failed, and everything of it is shut: it may be tried again.
    FailedClean,
}

impl State {
    /// All of them.
    pub const ALL: [State; 12] = [
        State::Absent,
        State::Foreign,
        State::DeletedDone,
        State::Deleting,
        State::Refused,
        State::PrepLive,
        State::PrepExpired,
        State::Running,
        State::SuccDirty,
        State::FailDirty,
        State::Succeeded,
        State::FailedClean,
    ];

    /// Of a stored plan, for the Installation of this UID.
    ///
    /// A lease does not say that a Job runs, and its end does not say that none does: what has a Job, or a result, is prepared
    /// no more. (Without that a running plan would read as one whose lease has passed, and could be taken over.)
    pub fn of(stored: Option<&Plan>, owner: &str, now: Timestamp) -> Self {
        let Some(plan) = stored else {
            return State::Absent;
        };
        if plan.owner != owner {
            return State::Foreign;
        }
        if plan.deleting {
            return if plan.cleaned_up {
                State::DeletedDone
            } else {
                State::Deleting
            };
        }
        if plan.namespace_admission_known && !plan.namespace_admitted {
            return State::Refused;
        }
        match plan.job_result {
            None if plan.job_uid.is_empty() => match plan.preparation_expires_at {
                Some(end) if end > now => State::PrepLive,
                _ => State::PrepExpired,
            },
            None => State::Running,
            Some(JobResult::Succeeded) if plan.cleaned_up => State::Succeeded,
            Some(JobResult::Succeeded) => State::SuccDirty,
            Some(_) if plan.cleaned_up => State::FailedClean,
            Some(_) => State::FailDirty,
        }
    }
}
