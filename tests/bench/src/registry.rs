//! The registry without a kernel: polls, the catalog, memory.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{AtFlags, statat};
use serde::Serialize;
use skill_catalog::{
    AgentScope, CatalogScope, SkillRoot, Snapshot, Store, StoreOptions, SystemClock, TrustLevel,
};
use skill_service::{BlockRequest, CatalogBlocks};

use crate::median;

/// The costs of the registry alone.
#[derive(Debug, Serialize)]
pub(crate) struct Registry {
    skills: usize,
    /// One unchanged poll, in microseconds.
    poll_us: f64,
    /// fstatat of the same SKILL.md files, in microseconds.
    fstatat_us: f64,
    /// SKILL.md files and directories the poll looked at.
    poll_stats: usize,
    /// Files the unchanged poll opened.
    poll_opened: usize,
    /// The full catalog of an unchanged snapshot, in nanoseconds: the slower of that of every skill
    /// and that of an agent whose scope is a list of globs.
    catalog_ns: f64,
    /// Allocations of one call of each, after the first one.
    catalog_allocations: u64,
    /// Bytes the store holds after its first scan.
    metadata_bytes: i64,
}

pub(crate) fn options(folder: &Path) -> StoreOptions {
    let root = SkillRoot {
        label: "root".to_owned(),
        path: folder.to_owned(),
        trust: TrustLevel::Operator,
    };
    StoreOptions { roots: vec![root], ..StoreOptions::default() }
}

pub(crate) fn measure(folder: &Path) -> Result<Registry, Box<dyn Error>> {
    let mut opened = None;
    let held = allocation_counter::measure(|| {
        opened = Some(Store::open(options(folder), Arc::new(SystemClock)));
    });
    let store = opened.ok_or("not opened")??;
    let names: Vec<String> =
        store.snapshot().skills().iter().map(|s| format!("{}/SKILL.md", s.id())).collect();
    let root = File::open(folder)?;

    // Stamps are young for two seconds; afterwards a poll without changes opens no file.
    let mut settled = store.poll();
    while settled.opened > 0 || settled.changed {
        std::thread::sleep(std::time::Duration::from_millis(500));
        settled = store.poll();
    }
    let (mut polls, mut stats) = (Vec::new(), Vec::new());
    for _ in 0..21 {
        let started = Instant::now();
        settled = store.poll();
        polls.push(started.elapsed().as_secs_f64() * 1e6);
        let started = Instant::now();
        for name in &names {
            black_box(statat(&root, name.as_str(), AtFlags::SYMLINK_NOFOLLOW)?);
        }
        stats.push(started.elapsed().as_secs_f64() * 1e6);
    }

    let (catalog_ns, catalog_allocations) = catalog(&store.snapshot());
    Ok(Registry {
        skills: names.len(),
        poll_us: median(&mut polls),
        fstatat_us: median(&mut stats),
        poll_stats: settled.stats,
        poll_opened: settled.opened,
        catalog_ns,
        catalog_allocations,
        metadata_bytes: held.bytes_current,
    })
}

/// Times repeated blocks of two agents.
fn catalog(snapshot: &Snapshot) -> (f64, u64) {
    let (include, exclude) = (["*".to_owned()], ["*-9".to_owned(), "draft-*".to_owned()]);
    let globs = CatalogScope::Globs { include: &include, exclude: &exclude };
    // Without a limit on the number of listed skills.
    let blocks = CatalogBlocks::new(usize::MAX);
    let (mut slowest, mut allocations) = (0_f64, 0);
    for catalog in [CatalogScope::All, globs] {
        let scope = AgentScope { catalog, bound: &[], hidden: &[] };
        black_box(snapshot.catalog(scope, 8_000));
        let turn = BlockRequest {
            scope,
            session_id: "session",
            agent_id: "agent",
            prompt: "hello",
            budget_chars: 8_000,
        };
        let ask = || black_box(blocks.cached_block(snapshot, black_box(&turn)));
        // The first turn of an agent creates the counter of its block.
        drop(ask());
        allocations += allocation_counter::measure(|| drop(ask())).count_total;
        let rounds = 10_000;
        let mut times: Vec<f64> = (0..21)
            .map(|_| {
                let started = Instant::now();
                for _ in 0..rounds {
                    ask();
                }
                started.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
            })
            .collect();
        slowest = slowest.max(median(&mut times));
    }
    (slowest, allocations)
}
