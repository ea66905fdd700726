//! A guest's log lines: one line each, clean, within the call's budget, and tied to who wrote them by the host alone.

use chandlery_bindings::log::{Host, Level};

use crate::call::Labels;
use crate::state::State;

/// Longest line; what is beyond is cut. A guest could fill the log with a few lines otherwise.
const LINE_BYTES: usize = 4 * 1024;
/// Most fields of a line.
const FIELDS: usize = 16;
/// Longest value of a field.
const FIELD_BYTES: usize = 256;
/// Name of the field by which an SDK marks the text of a panic; its value is the place.
const PANIC_FIELD: &str = "panic";

pub(crate) struct LogBook {
    labels: Labels,
    bytes_left: u64,
    dropped: u64,
    /// Text and place of the last panic that the guest reported: the trap that follows has neither.
    pub(crate) panic: Option<String>,
}

impl LogBook {
    pub(crate) fn new(labels: Labels, bytes: u64) -> Self {
        Self {
            labels,
            bytes_left: bytes,
            dropped: 0,
            panic: None,
        }
    }

    fn write(&mut self, level: Level, message: &str, fields: &[(String, String)]) {
        let message = one_line(message, LINE_BYTES);
        if let Some((_, place)) = fields.iter().find(|(name, _)| name == PANIC_FIELD) {
            let place = one_line(place, FIELD_BYTES);
            self.panic = Some(if place.is_empty() {
                message.clone()
            } else {
                format!("{message} at {place}")
            });
        }
        let clean =
            |(name, value): &(String, String)| format!("{}={:?}", one_line(name, 64), one_line(value, FIELD_BYTES));
        let fields = fields.iter().take(FIELDS).map(clean).collect::<Vec<_>>().join(" ");
        let size = (message.len() + fields.len()) as u64;
        match self.bytes_left.checked_sub(size) {
            Some(left) => self.bytes_left = left,
            None => {
                // Shorter lines that would still fit are dropped, too: a log with holes misleads.
                self.bytes_left = 0;
                self.dropped += 1;
                return;
            }
        }
        let Labels {
            plugin,
            provision,
            step,
            cluster,
        } = &self.labels;
        macro_rules! emit {
            ($level:ident) => {
                tracing::$level!(target: "plugin", %plugin, %provision, %step, %cluster, fields, "{message}")
            };
        }
        match level {
            Level::Debug => emit!(debug),
            Level::Info => emit!(info),
            Level::Warn => emit!(warn),
            Level::Error => emit!(error),
        }
    }
}

impl Drop for LogBook {
    fn drop(&mut self) {
        if self.dropped > 0 {
            let Labels {
                plugin,
                provision,
                step,
                cluster,
            } = &self.labels;
            let dropped = self.dropped;
            tracing::warn!(target: "plugin", %plugin, %provision, %step, %cluster, dropped,
                "{dropped} more lines of this call were dropped: its log budget is used up");
        }
    }
}

impl Host for State {
    async fn write(&mut self, level: Level, message: String, fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        self.log.write(level, &message, &fields);
        Ok(())
    }
}

/// A guest's text as one line without control characters, cut to a length.
pub(crate) fn one_line(text: &str, longest: usize) -> String {
    // Direction marks and their likes could make a line read as something else than it is.
    let is_hidden =
        |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    let mut line = String::with_capacity(text.len().min(longest));
    for c in text.chars() {
        if line.len() + c.len_utf8() > longest {
            line.push('…');
            break;
        }
        if c == '\n' || c == '\t' {
            line.push(' ');
        } else if !c.is_control() && !is_hidden(c) {
            line.push(c);
        }
    }
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_cannot_forge_a_line_or_colour_a_terminal() {
        assert_eq!(
            one_line("ok\n2026-01-01 ERROR other\u{1b}[31m \u{202e}x\r", 100),
            "ok 2026-01-01 ERROR other[31m x"
        );
        assert_eq!(one_line("äöü", 3), "ä…");
    }

    #[test]
    fn the_text_of_a_panic_is_kept_even_when_the_budget_is_used_up() {
        let mut book = LogBook::new(Labels::default(), 0);
        book.write(
            Level::Error,
            "panicked: no",
            &[("panic".into(), "src/lib.rs:1:2".into())],
        );
        assert_eq!(book.panic.as_deref(), Some("panicked: no at src/lib.rs:1:2"));
        assert_eq!(book.dropped, 1);
    }
}
