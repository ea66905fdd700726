//! Waiting for a state instead of for a time.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Everything here takes a second or two on a quiet machine; a build beside it makes that tenfold.
pub const DEADLINE: Duration = Duration::from_secs(90);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(40);

/// Asks again and again until there is an answer, and gives it back.
///
/// # Panics
/// If there is none within [`DEADLINE`]; `what` completes the sentence "not within …: ".
pub fn wait_until<T>(what: impl AsRef<str>, mut answer: impl FnMut() -> Option<T>) -> T {
    let told = wait_for(|| answer().ok_or(()));
    told.unwrap_or_else(|()| panic!("not within {} s: {}", DEADLINE.as_secs(), what.as_ref()))
}

/// The same for a question whose last unwelcome answer is worth telling.
///
/// # Errors
/// The last unwelcome answer.
pub fn wait_for<T, E: Debug>(mut answer: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match answer() {
            Err(last) if Instant::now() > deadline => return Err(last),
            Err(_) => std::thread::sleep(ASK_AGAIN_AFTER),
            done => return done,
        }
    }
}
