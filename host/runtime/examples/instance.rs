//! Measures a fresh instance, one typed call in it, and its end: `instance COMPONENT CACHE-DIRECTORY`.
//!
//! Prints nanoseconds as JSON: median and 99th percentile. `cargo xtask bench path` runs it.

#![allow(clippy::print_stdout, reason = "this is the answer of the program")]

use std::error::Error;
use std::time::Instant;

use chandlery_core::Digest;
use chandlery_core::limits::Limits;
use chandlery_runtime::{Config, Runtime};
use serde_json::json;

/// The first calls touch memory that was never used.
const WARM_UP: usize = 500;
const CALLS: usize = 5_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(component), Some(cache)) = (arguments.next(), arguments.next()) else {
        return Err("usage: instance COMPONENT CACHE-DIRECTORY".into());
    };
    let bytes = std::fs::read(component)?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let runtime = Runtime::new(Config::new(cache))?;
    let (spec, limits) = (json!({"objects": []}), Limits::default());
    let mut nanoseconds = tokio.block_on(async {
        let plugin = runtime.load(&Digest::of(&bytes), &bytes).await?;
        let mut nanoseconds = Vec::with_capacity(WARM_UP + CALLS);
        for _ in 0..WARM_UP + CALLS {
            let started = Instant::now();
            let problems = runtime
                .check(&plugin, &spec, &limits)
                .await
                .map_err(|failure| format!("{failure:?}"))?;
            nanoseconds.push(started.elapsed().as_nanos());
            if !problems.is_empty() {
                return Err(format!("the plugin finds {problems:?}").into());
            }
        }
        Ok::<_, Box<dyn Error>>(nanoseconds.split_off(WARM_UP))
    })?;
    nanoseconds.sort_unstable();
    let at = |share: usize| nanoseconds.get(CALLS * share / 100).copied().unwrap_or_default();
    println!(
        "{}",
        json!({"calls": CALLS, "median": at(50) as u64, "p99": at(99) as u64})
    );
    Ok(())
}
