//! Puts the plugin `objects` into the program if this variable says where it is, as `cargo xtask` does for a release. Without
//! it the program asks for the file.

use std::path::PathBuf;
use std::{env, fs, io};

const COMPONENT: &str = "CHANDLERY_OBJECTS_COMPONENT";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed={COMPONENT}");
    let mut bytes = Vec::new();
    if let Some(path) = env::var_os(COMPONENT).map(PathBuf::from) {
        println!("cargo::rerun-if-changed={}", path.display());
        bytes =
            fs::read(&path).map_err(|error| io::Error::other(format!("{COMPONENT}={}: {error}", path.display())))?;
    }
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("objects.wasm"), bytes)
}
