//! Writes the list of bad guests as a macro, so that one without a test does not compile.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let guests = Path::new("fixtures/bad-guests/guests");
    println!("cargo::rerun-if-changed={}", guests.display());
    let mut names: Vec<String> = fs::read_dir(guests)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    let calls: String = names.iter().map(|name| format!("        $mac!({name});\n")).collect();
    let list = format!("macro_rules! foreach_bad_guest {{\n    ($mac:ident) => {{\n{calls}    }};\n}}\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("foreach_bad_guest.rs"), list)
}
