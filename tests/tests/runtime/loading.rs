//! What is loaded is what was pinned, compiled once, and never damaged machine code.

use chandlery_artifact::ArtifactError;
use chandlery_core::Digest;
use chandlery_runtime::{Compiler, Config, LoadError, Runtime};

use crate::component;

fn fresh(cache: &tempfile::TempDir, compiler: Compiler) -> Runtime {
    Runtime::new(Config {
        compiler,
        concurrent_calls: 2,
        ..Config::new(cache.path())
    })
    .unwrap()
}

/// The one file of machine code in the cache.
fn machine_code(cache: &tempfile::TempDir) -> std::path::PathBuf {
    let files: Vec<_> = std::fs::read_dir(cache.path().join("compiled"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let code: Vec<_> = files
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "cwasm"))
        .collect();
    assert_eq!((code.len(), files.len()), (1, 2), "{files:?}");
    code[0].clone()
}

#[tokio::test]
async fn other_bytes_than_those_pinned_are_refused() {
    let cache = tempfile::tempdir().unwrap();
    let loaded = fresh(&cache, Compiler::InProcess)
        .load(&Digest::of(b"other"), &component("traps"))
        .await;
    assert!(matches!(
        loaded,
        Err(LoadError::Artifact(ArtifactError::OtherDigest { .. }))
    ));
}

#[tokio::test]
async fn a_core_module_and_a_torn_component_are_told_apart() {
    let cache = tempfile::tempdir().unwrap();
    let runtime = fresh(&cache, Compiler::InProcess);
    let module = b"\0asm\x01\0\0\0";
    let loaded = runtime.load(&Digest::of(module), module).await;
    assert!(matches!(loaded, Err(LoadError::Artifact(ArtifactError::CoreModule))));
    // Sound on the outside: only the compiler finds it.
    let mut torn = component("traps");
    let middle = torn.len() / 2;
    torn[middle..middle + 64].fill(0xff);
    let loaded = runtime.load(&Digest::of(&torn), &torn).await;
    assert!(
        matches!(loaded, Err(LoadError::Artifact(_) | LoadError::Compile(_))),
        "{:?}",
        loaded.err()
    );
}

#[tokio::test]
async fn who_asks_at_once_shares_one_compilation_and_the_next_host_has_it_on_disk() {
    let cache = tempfile::tempdir().unwrap();
    let bytes = component("traps");
    let digest = Digest::of(&bytes);
    let runtime = fresh(&cache, Compiler::InProcess);
    let (one, other) = tokio::join!(runtime.load(&digest, &bytes), runtime.load(&digest, &bytes));
    assert!(std::sync::Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
    drop(runtime);
    // With a compiler that cannot work, only the cache can have answered.
    let broken = Compiler::Subprocess {
        program: "/nowhere".into(),
        arguments: Vec::new(),
    };
    assert!(fresh(&cache, broken).load(&digest, &bytes).await.is_ok());
}

#[tokio::test]
async fn damaged_machine_code_is_made_again() {
    let cache = tempfile::tempdir().unwrap();
    let bytes = component("traps");
    let digest = Digest::of(&bytes);
    fresh(&cache, Compiler::InProcess).load(&digest, &bytes).await.unwrap();
    let path = machine_code(&cache);
    let good = std::fs::read(&path).unwrap();
    for damage in [&good[..good.len() / 2], b"", &[&good[..good.len() - 1], b"x"].concat()] {
        std::fs::write(&path, damage).unwrap();
        fresh(&cache, Compiler::InProcess).load(&digest, &bytes).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == good, "what is damaged was used");
    }
}

#[tokio::test]
async fn a_process_of_its_own_makes_the_same_machine_code() {
    let cache = tempfile::tempdir().unwrap();
    let bytes = component("traps");
    let apart = Compiler::Subprocess {
        program: env!("CARGO_BIN_EXE_compile-component").into(),
        arguments: Vec::new(),
    };
    let runtime = fresh(&cache, apart);
    assert!(runtime.load(&Digest::of(&bytes), &bytes).await.is_ok());
    machine_code(&cache);
}

#[tokio::test]
async fn a_compiler_that_fails_is_told_with_its_words_and_leaves_nothing() {
    let cache = tempfile::tempdir().unwrap();
    let bytes = component("traps");
    let failing = Compiler::Subprocess {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), "echo no memory >&2; exit 1".into()],
    };
    let loaded = fresh(&cache, failing).load(&Digest::of(&bytes), &bytes).await;
    assert!(
        matches!(&loaded, Err(LoadError::Compile(text)) if text == "no memory"),
        "{:?}",
        loaded.err()
    );
    assert_eq!(std::fs::read_dir(cache.path().join("compiled")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_component_that_takes_more_memory_to_compile_than_there_is_fails_and_harms_nobody() {
    let cache = tempfile::tempdir().unwrap();
    let bytes = component("traps");
    let bounded = |bytes: u64| Compiler::Subprocess {
        program: env!("CARGO_BIN_EXE_compile-component").into(),
        arguments: vec![bytes.to_string(), "60".into()],
    };
    let loaded = fresh(&cache, bounded(8 << 20)).load(&Digest::of(&bytes), &bytes).await;
    assert!(matches!(&loaded, Err(LoadError::Compile(_))), "{:?}", loaded.err());
    let loaded = fresh(&cache, bounded(4 << 30)).load(&Digest::of(&bytes), &bytes).await;
    assert!(loaded.is_ok(), "{:?}", loaded.err());
}

#[test]
fn the_compiler_is_bounded_in_memory_and_processor_time_and_leaves_no_core() {
    let scratch = tempfile::tempdir().unwrap();
    let input = scratch.path().join("in.wasm");
    std::fs::write(&input, component("traps")).unwrap();
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_compile-component"))
        .args(["3000000000", "77"])
        .args([&input, &scratch.path().join("out.cwasm")])
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let told = String::from_utf8(ended.stdout).unwrap();
    for (bound, value) in [
        ("Max address space", "3000000000"),
        ("Max cpu time", "77"),
        ("Max core file size", "0"),
    ] {
        let line = told.lines().find_map(|line| line.strip_prefix(bound)).unwrap();
        let values: Vec<&str> = line.split_whitespace().take(2).collect();
        assert_eq!(values, [value, value], "{bound}, soft and hard");
    }
}
