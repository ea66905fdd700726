//! Several callers on one world, and who of them may send next.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// A turn that its caller does not take for this long goes to the next: it waits for something that the other must do first,
/// or has nothing more to ask.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whose turn it is. Clones are the same.
///
/// Each entry of the order lets one caller send one request and have its answer. When the order is used up, everybody may
/// send at any time.
#[derive(Clone, Debug)]
pub struct Turns {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    order: Vec<usize>,
    /// How many turns are over.
    next: watch::Sender<usize>,
    /// What callers did, in the order in which they did it.
    taken: Mutex<Vec<usize>>,
}

/// Held while a request is under way; the turn is over when it is dropped.
pub(super) struct Turn {
    turns: Turns,
    /// Which turn this is; none when there are no more.
    at: Option<usize>,
}

impl Turns {
    /// An order of callers, by the number each has in [`super::Faults::in_turn`].
    #[must_use]
    pub fn new(order: Vec<usize>) -> Self {
        Self {
            shared: Arc::new(Shared {
                order,
                next: watch::channel(0).0,
                taken: Mutex::default(),
            }),
        }
    }

    /// All orders in which two callers with so many requests each can follow one another, each once.
    #[must_use]
    pub fn all_of_two(first: usize, second: usize) -> Vec<Vec<usize>> {
        if first == 0 || second == 0 {
            return vec![[vec![0; first], vec![1; second]].concat()];
        }
        let led_by = |caller: usize, rest: Vec<Vec<usize>>| {
            rest.into_iter().map(move |mut order| {
                order.insert(0, caller);
                order
            })
        };
        led_by(0, Self::all_of_two(first - 1, second))
            .chain(led_by(1, Self::all_of_two(first, second - 1)))
            .collect()
    }

    /// Who sent, in the order in which they did; it is an order that does the same again.
    #[must_use]
    pub fn taken(&self) -> Vec<usize> {
        self.shared.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the caller may send.
    pub(super) async fn take(&self, caller: usize) -> Turn {
        let mut next = self.shared.next.subscribe();
        loop {
            let at = *next.borrow_and_update();
            let whose = self.shared.order.get(at).copied();
            if whose.is_none_or(|whose| whose == caller) {
                self.shared
                    .taken
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(caller);
                return Turn {
                    turns: self.clone(),
                    at: whose.map(|_| at),
                };
            }
            if tokio::time::timeout(PATIENCE, next.changed()).await.is_err() {
                self.end(at);
            }
        }
    }

    fn end(&self, at: usize) {
        self.shared.next.send_if_modified(|next| {
            let ends = *next == at;
            if ends {
                *next += 1;
            }
            ends
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            self.turns.end(at);
        }
    }
}
