//! Lines to the host's log. The host ties them to plugin, step and cluster, and keeps to the call's budget.

use crate::Level;

/// Writes one line with short fields; the macros [`info!`](crate::info) and its likes are shorter.
pub fn write(level: Level, message: &str, fields: &[(&str, String)]) {
    #[cfg(target_family = "wasm")]
    {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        crate::bindings::chandlery::provision::log::write(level, message, &fields);
    }
    #[cfg(not(target_family = "wasm"))]
    eprintln!("{level:?} {message} {fields:?}");
}

/// In a panic nothing can be caught: its text goes to the host's log before the trap.
pub(crate) fn report_panics() {
    #[cfg(target_family = "wasm")]
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.payload_as_str().unwrap_or("(no text)");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        write(Level::Error, &format!("panicked: {text}"), &[("panic", place)]);
    }));
}

/// Logs one line at a level: format arguments, perhaps after fields, as in `log_at!(Level::Info, count = 3; "applied")`.
#[doc(hidden)]
#[macro_export]
macro_rules! log_at {
    ($level:expr, $($name:ident = $value:expr),+ ; $($format:tt)+) => {
        $crate::write_log($level, &::std::format!($($format)+), &[$((::std::stringify!($name), ::std::string::ToString::to_string(&$value))),+])
    };
    ($level:expr, $($format:tt)+) => {
        $crate::write_log($level, &::std::format!($($format)+), &[])
    };
}

/// Logs for who is looking for a fault: `debug!("{count} objects")` or `debug!(object = name; "applied")`.
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => { $crate::log_at!($crate::Level::Debug, $($line)+) };
}

/// Logs what an operator may want to know.
#[macro_export]
macro_rules! info {
    ($($line:tt)+) => { $crate::log_at!($crate::Level::Info, $($line)+) };
}

/// Logs what an operator should look at.
#[macro_export]
macro_rules! warn {
    ($($line:tt)+) => { $crate::log_at!($crate::Level::Warn, $($line)+) };
}

/// Logs what went wrong.
#[macro_export]
macro_rules! error {
    ($($line:tt)+) => { $crate::log_at!($crate::Level::Error, $($line)+) };
}
