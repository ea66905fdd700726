//! Puts the plugin `objects` into the program if somebody built it: `cargo xtask` does for a release, and says so by this
//! variable. Without it the program asks for the file.

use std::path::PathBuf;
use std::{env, fs};

const COMPONENT: &str = "CHANDLERY_OBJECTS_COMPONENT";

fn main() {
    println!("cargo::rerun-if-env-changed={COMPONENT}");
    let bytes = env::var_os(COMPONENT).map_or_else(Vec::new, |path| {
        println!("cargo::rerun-if-changed={}", PathBuf::from(&path).display());
        fs::read(&path).unwrap_or_else(|error| panic!("{COMPONENT}: reading {}: {error}", path.display()))
    });
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("objects.wasm"), bytes).unwrap_or_else(|error| panic!("writing the component: {error}"));
}
