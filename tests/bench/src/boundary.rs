//! The registry as a library behind the kernel, against the same functions called directly.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use skill_catalog::{Audience, Store, SystemClock};
use skill_service::{ReadSkillArgs, read_skill};
use skillhost_control::LoadedExtension;
use skillhost_home::{Home, HomeSource, Installation, Settings};
use skillhost_kernel::{BootOptions, Kernel};
use skillhost_payload::{CallContext, CallOrigin};

use crate::median;
use crate::quantile;
use crate::registry::options;

/// The costs of the boundary.
#[derive(Debug, Serialize)]
pub(crate) struct Boundary {
    /// Copy, header check, dlopen and layout check of the skill registry, median in microseconds.
    load_us: f64,
    /// The sha256 of the library, which a manifest may pin, in microseconds.
    sha256_us: u64,
    /// `get_context` through the boundary, in microseconds.
    get_context_us: f64,
    /// Bytes of the block it returned.
    context_bytes: usize,
    /// `read_skill` through the boundary, median in microseconds.
    read_p50_us: f64,
    /// `read_skill` through the boundary, 99th percentile in microseconds.
    read_p99_us: f64,
    /// The same function called directly, median in microseconds.
    direct_p50_us: f64,
    /// The same function called directly, 99th percentile in microseconds.
    direct_p99_us: f64,
}

const REGISTRY: &str = "skill_registry";

/// The number of timed loads; a single load mostly measures the machine.
const LOADS: usize = 9;

pub(crate) fn measure(folder: &Path) -> Result<Boundary, Box<dyn Error>> {
    let home = std::env::temp_dir().join(format!("skillhost-bench-{}", std::process::id()));
    let result = measure_in(&home, folder);
    fs::remove_dir_all(&home)?;
    result
}

fn measure_in(home: &Path, folder: &Path) -> Result<Boundary, Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    fs::create_dir_all(home.join("sandbox"))?;
    write_manifest(home, "")?;
    let loaded =
        (0..LOADS).map(|_| runtime.block_on(load(home, folder))).collect::<Result<Vec<_>, _>>()?;
    // One more, pinned: the hash is timed apart.
    let library = fs::read(&loaded[0].library)?;
    let pin = skill_format::Digest::compute(&library);
    write_manifest(home, &format!("sha256: {pin}\n"))?;
    let pinned = runtime.block_on(load(home, folder))?;
    write_manifest(home, "")?;
    let mut numbers = runtime.block_on(calls(home, folder))?;
    let timings = loaded.iter().map(|loaded| loaded.timings);
    let mut times: Vec<f64> =
        timings.map(|steps| (steps.copy_us + steps.elf_us + steps.open_us) as f64).collect();
    numbers.load_us = median(&mut times);
    numbers.sha256_us = pinned.timings.sha256_us;
    Ok(numbers)
}

fn write_manifest(home: &Path, pin: &str) -> std::io::Result<()> {
    let folder = home.join("manifests").join(REGISTRY);
    fs::create_dir_all(&folder)?;
    let text = format!("id: {REGISTRY}\nname: Registry\nentrypoint: {REGISTRY}\n{pin}");
    fs::write(folder.join("manifest.yaml"), text)
}

async fn boot(home: &Path, folder: &Path) -> Result<Kernel, Box<dyn Error>> {
    let roots = serde_json::json!([{ "label": "root", "path": folder, "trust": "operator" }]);
    let mut settings = Settings::default();
    let config = serde_json::Map::from_iter([("roots".to_owned(), roots)]);
    settings.extensions.insert(REGISTRY.to_owned(), config);
    let home = Home::open(home, HomeSource::Argument)?;
    // Only the registry: the manifests of the source tree must not be loaded here.
    let installation: Option<Installation> = None;
    Ok(Kernel::boot(BootOptions { installation, ..BootOptions::new(home, settings) }).await)
}

async fn load(home: &Path, folder: &Path) -> Result<LoadedExtension, Box<dyn Error>> {
    let kernel = boot(home, folder).await?;
    let report = kernel.report();
    kernel.shutdown().await;
    match report.loaded.first() {
        Some(loaded) => Ok(loaded.clone()),
        None => Err(format!("the registry was not loaded: {:?}", report.rejected).into()),
    }
}

async fn calls(home: &Path, folder: &Path) -> Result<Boundary, Box<dyn Error>> {
    let kernel = boot(home, folder).await?;
    let store = Store::open(options(folder), Arc::new(SystemClock))?;
    let snapshot = store.snapshot();
    let ids: Vec<String> = snapshot.skills().iter().map(|s| s.id().to_string()).take(100).collect();
    let operator = CallContext { origin: CallOrigin::Operator, ..CallContext::default() };
    let (mut through, mut direct) = (Vec::new(), Vec::new());
    for round in 0..60 {
        for id in &ids {
            let arguments = format!("{{\"skill_id\":\"{id}\"}}");
            let context = operator.clone();
            let started = Instant::now();
            let output = kernel.agents().invoke_tool(context, "read_skill", &arguments).await?;
            let elapsed = started.elapsed().as_secs_f64() * 1e6;
            let started = Instant::now();
            let args: ReadSkillArgs = serde_json::from_str(&arguments)?;
            let answer = read_skill(&store, &snapshot, Audience::Operator, &args)?;
            let called = started.elapsed().as_secs_f64() * 1e6;
            if answer.text != output.text {
                return Err(format!("{id}: the two answers differ").into());
            }
            // The first rounds warm both up.
            if round >= 10 {
                through.push(elapsed);
                direct.push(called);
            }
        }
    }
    let agent = CallContext { agent_id: "bench".to_owned(), ..CallContext::default() };
    let (mut blocks, mut context_bytes) = (Vec::new(), 0);
    for _ in 0..20_000 {
        let started = Instant::now();
        let block = kernel.extensions().context_block(REGISTRY, &agent, "hello").await?;
        blocks.push(started.elapsed().as_secs_f64() * 1e6);
        context_bytes = block.map_or(0, |text| text.len());
    }
    kernel.shutdown().await;
    Ok(Boundary {
        load_us: 0.0,
        sha256_us: 0,
        get_context_us: median(&mut blocks),
        context_bytes,
        read_p50_us: median(&mut through),
        read_p99_us: quantile(&mut through, 0.99),
        direct_p50_us: median(&mut direct),
        direct_p99_us: quantile(&mut direct, 0.99),
    })
}
