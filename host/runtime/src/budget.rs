//! What is left of a call's limits. A limit that is reached is an answer to the guest, which can still end in good order.

use chandlery_core::cluster::{CallError, Problem};
use chandlery_core::limits::Limits;

pub(crate) struct Budget {
    limits: Limits,
    calls: u32,
    items: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            calls: 0,
            items: 0,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// Admits one host call with this many items and bytes. What was not admitted costs nothing but the call.
    ///
    /// # Errors
    /// `exhausted`, naming the limit.
    pub(crate) fn admit(&mut self, items: usize, bytes: u64) -> Result<(), CallError> {
        let Limits {
            host_calls,
            items: most_items,
            bytes_in,
            ..
        } = self.limits;
        self.calls = self.calls.saturating_add(1);
        if self.calls > host_calls {
            return Err(used_up(format!("{host_calls} host calls")));
        }
        let items = self.items.saturating_add(items as u64);
        if items > u64::from(most_items) {
            return Err(used_up(format!("{most_items} items in lists")));
        }
        let bytes = self.bytes_in.saturating_add(bytes);
        if bytes > bytes_in {
            return Err(used_up(format!("{} to the host", mebibytes(bytes_in))));
        }
        (self.items, self.bytes_in) = (items, bytes);
        Ok(())
    }

    /// Whether one document may be this large.
    ///
    /// # Errors
    /// `invalid`, of the whole document: the spec must ask for less.
    pub(crate) fn admit_object(&self, bytes: usize) -> Result<(), CallError> {
        let limit = self.limits.object_bytes;
        if bytes as u64 <= limit {
            return Ok(());
        }
        let message = format!(
            "the object is {bytes} bytes as JSON, and one object may be {} at most",
            mebibytes(limit)
        );
        Err(CallError::Invalid(vec![Problem {
            path: String::new(),
            message,
        }]))
    }

    /// How much more can be handed to the guest, in bytes.
    pub(crate) fn left_out(&self) -> u64 {
        self.limits.bytes_out.saturating_sub(self.bytes_out)
    }

    /// Nothing more can be handed to the guest.
    pub(crate) fn used_up_out(&self) -> CallError {
        used_up(format!("{} from the host", mebibytes(self.limits.bytes_out)))
    }

    /// Charges what is handed to the guest.
    ///
    /// # Errors
    /// `exhausted`: it is not handed over.
    pub(crate) fn charge_out(&mut self, bytes: usize) -> Result<(), CallError> {
        let sum = self.bytes_out.saturating_add(bytes as u64);
        if sum > self.limits.bytes_out {
            return Err(self.used_up_out());
        }
        self.bytes_out = sum;
        Ok(())
    }
}

fn used_up(what: String) -> CallError {
    CallError::Exhausted(format!("this call has used up its limit of {what}"))
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / (1024 * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget::new(Limits {
            host_calls: 3,
            items: 10,
            bytes_in: 100,
            bytes_out: 100,
            object_bytes: 50,
            ..Limits::default()
        })
    }

    #[test]
    fn each_limit_holds_for_the_sum_and_what_is_refused_is_not_counted() {
        let mut of = budget();
        assert!(of.admit(10, 90).is_ok());
        assert!(of.admit(1, 0).unwrap_err().to_string().contains("10 items"));
        assert!(of.admit(0, 10).is_ok());
        assert!(of.admit(0, 0).unwrap_err().to_string().contains("3 host calls"));
        let mut of = budget();
        assert!(of.admit(0, 101).is_err() && of.admit(0, 100).is_ok());
        assert!(of.charge_out(101).is_err() && of.charge_out(100).is_ok() && of.charge_out(1).is_err());
        assert!(of.admit_object(50).is_ok() && of.admit_object(51).is_err());
    }
}
