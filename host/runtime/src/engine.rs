//! The engine's configuration: one for running, and one that makes the same machine code without reserving memory.

use std::hash::{DefaultHasher, Hash, Hasher};

use chandlery_core::limits::Limits;
use wasmtime::{Config, Engine, PoolingAllocationConfig, Strategy};

/// Core instances that one component may consist of; an author could have the host make thousands. A Rust guest has 3, a Go
/// guest with its adapter 4.
pub(crate) const INSTANCES: u32 = 8;
/// Memories, and tables, of one component.
pub(crate) const MEMORIES: u32 = 4;
/// Entries of one table.
pub(crate) const TABLE_ENTRIES: usize = 20_000;

/// What decides about machine code. Both engines must agree on it.
fn common() -> Config {
    let mut config = Config::new();
    config.strategy(Strategy::Cranelift);
    config.wasm_component_model(true);
    config.epoch_interruption(true);
    // One guest, one task: without concurrency in the component a call is some microseconds shorter.
    config.concurrency_support(false);
    config.wasm_memory64(false);
    config
}

/// For running: slots for this many calls are set aside at once, so that a fresh instance is a matter of microseconds.
pub(crate) fn running(concurrent_calls: u32) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(concurrent_calls)
        .total_core_instances(concurrent_calls * INSTANCES)
        .total_memories(concurrent_calls * 2)
        .total_tables(concurrent_calls * MEMORIES)
        .total_stacks(concurrent_calls)
        .max_core_instances_per_component(INSTANCES)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(MEMORIES)
        .table_elements(TABLE_ENTRIES)
        .max_memory_size(usize::try_from(Limits::ceiling().memory_bytes).unwrap_or(usize::MAX))
        // What stays resident in a slot after a call: idle memory against the cost of the next call.
        .linear_memory_keep_resident(64 * 1024)
        .table_keep_resident(16 * 1024)
        .max_unused_warm_slots(8);
    let mut config = common();
    config.allocation_strategy(pool);
    config
}

/// For compiling in a process of its own.
pub(crate) fn compiling() -> Config {
    let mut config = common();
    // The process is bounded; it need not be quick.
    config.parallel_compilation(false);
    config
}

/// Names wasmtime's version and all of the configuration that decides about machine code.
pub(crate) fn key(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_engine_compiles_the_other_runs() {
        let running = Engine::new(&running(1)).unwrap();
        assert_eq!(key(&running), key(&Engine::new(&compiling()).unwrap()));
    }
}
