//! How fast a world answers on one core, beside what it is meant to reach. Run with `--release`; nothing is asserted.

#![allow(clippy::print_stdout, reason = "a program's answers go to standard output")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use chandlery_simulator::{Settings, Simulator};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let simulator = Simulator::new(Settings {
        controllers: false,
        ..Settings::default()
    });
    let body = |round: u64| {
        let data: serde_json::Map<String, serde_json::Value> = (0..30)
            .map(|key| (format!("key-{key}"), json!(format!("{round:050}"))))
            .collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}).to_string()
    };
    let apply = |round: u64| {
        send(
            &simulator,
            Method::PATCH,
            &format!("{MAPS}/a?fieldManager=speed"),
            APPLY,
            body(round),
        )
    };
    let size = body(0).len();
    apply(0)?;

    let path = format!("{MAPS}/a");
    let gets = per_second(|_| send(&simulator, Method::GET, &path, "", String::new()).map(drop))?;
    show("gets", gets, "50,000/s");
    let applies = per_second(|round| apply(round).map(drop))?;
    show(
        &format!("applies that change an object of {size} bytes"),
        applies,
        "20,000/s",
    );
    let same = per_second(|_| apply(1).map(drop))?;
    show("applies that change nothing", same, "");

    for number in 0..1_000 {
        create(&simulator, number, 1_000)?;
    }
    let forks = per_second(|_| {
        std::hint::black_box(simulator.with_world(|world| world.clone()));
        Ok(())
    })?;
    println!("fork of a world of 1,000 objects: {:.2} µs (goal 20 µs)", 1e6 / forks);

    let before = resident()?;
    for number in 1_000..101_000 {
        create(&simulator, number, 1_000)?;
    }
    println!(
        "100,000 ConfigMaps of 1 KiB: {} MiB (goal 400 MiB)",
        (resident()? - before) / 1024
    );
    Ok(())
}

fn create(simulator: &Simulator, number: u32, bytes: usize) -> Result<(), Failed> {
    let body = json!({"metadata": {"name": format!("map-{number}")}, "data": {"text": "x".repeat(bytes)}});
    send(simulator, Method::POST, MAPS, JSON, body.to_string()).map(drop)
}

fn send(
    simulator: &Simulator,
    method: Method,
    path: &str,
    media_type: &'static str,
    body: String,
) -> Result<StatusCode, Failed> {
    let mut headers = HeaderMap::new();
    if !media_type.is_empty() {
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    let uri: Uri = path.parse()?;
    let code = simulator.respond(&method, &uri, &headers, Bytes::from(body)).status();
    if code.is_success() {
        Ok(code)
    } else {
        Err(format!("{method} {path}: {code}").into())
    }
}

/// The best of five rounds: other work on the machine only ever slows one down.
fn per_second(mut one: impl FnMut(u64) -> Result<(), Failed>) -> Result<f64, Failed> {
    let mut best = 0.0_f64;
    let mut count = 0;
    for _ in 0..5 {
        let started = Instant::now();
        let mut done = 0_u32;
        while started.elapsed() < Duration::from_millis(400) {
            for _ in 0..64 {
                count += 1;
                one(count)?;
            }
            done += 64;
        }
        best = best.max(f64::from(done) / started.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn show(what: &str, per_second: f64, goal: &str) {
    let goal = if goal.is_empty() {
        String::new()
    } else {
        format!(" (goal {goal})")
    };
    println!("{what}: {per_second:.0}/s{goal}");
}

/// Resident memory in KiB.
fn resident() -> Result<u64, Failed> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
