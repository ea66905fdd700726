//! A simulated cluster on a loopback port until Ctrl-C: prints a kubeconfig of its administrator.

#![allow(clippy::print_stdout, reason = "a program's answers go to standard output")]

use chandlery_simulator::{Clock, Server, Settings, Simulator, User, World};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings {
        start: jiff::Timestamp::now(),
        ..Settings::default()
    };
    let simulator = Simulator::of(World::new(settings), Clock::Wall);
    let port = std::env::args()
        .nth(1)
        .and_then(|port| port.parse().ok())
        .unwrap_or_default();
    let server = Server::start(&simulator, port).await?;
    print!("{}", server.kubeconfig("simulator", User::admin())?);
    tokio::signal::ctrl_c().await?;
    Ok(())
}
