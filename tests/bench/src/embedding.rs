//! Vectors: the table called directly, and the extension behind the kernel.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use skillhost_home::{Home, HomeSource, Installation, Settings};
use skillhost_kernel::{BootOptions, Kernel};
use skillhost_payload::{CallContext, CallOrigin};
use word_vectors::VectorTable;

use crate::median;
use crate::quantile;

/// The costs of vectors.
#[derive(Debug, Serialize)]
pub(crate) struct Embedding {
    /// Making the table ready, in microseconds.
    embedding_start_us: f64,
    /// Copy, header check, dlopen and layout check of the extension, in microseconds.
    embedding_load_us: u64,
    /// The vector of a query, called directly, median in microseconds.
    vector_p50_us: f64,
    /// The same, 99th percentile in microseconds.
    vector_p99_us: f64,
    /// The same for a call from another extension, median in microseconds.
    asked_p50_us: f64,
    /// The same, 99th percentile in microseconds.
    asked_p99_us: f64,
}

/// Queries of the length that agents write; 11 words in the mean.
const QUERIES: [&str; 8] = [
    "extract the tables from a scanned PDF and save them as CSV",
    "review this pull request for security problems",
    "write a changelog entry for the release and tag it",
    "deploy a FastAPI service to Kubernetes with health checks and autoscaling",
    "my postgres query is slow, how do I find out which index is missing?",
    "translate the README into German but keep the code blocks",
    "build a slide deck from these meeting notes",
    "set up end-to-end tests with Playwright for the checkout flow",
];

pub(crate) fn measure() -> Result<Embedding, Box<dyn Error>> {
    let mut starts = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        black_box(VectorTable::static_minilm());
        starts.push(started.elapsed().as_secs_f64() * 1e6);
    }
    let table = VectorTable::static_minilm();
    let mut vectors = Vec::new();
    for round in 0..2_000 {
        for query in QUERIES {
            let started = Instant::now();
            black_box(table.embed(black_box(query)));
            // The first rounds bring the rows into the cache.
            if round >= 100 {
                vectors.push(started.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    let home = std::env::temp_dir().join(format!("skillhost-embed-{}", std::process::id()));
    let asked = ask(&home);
    fs::remove_dir_all(&home)?;
    let (embedding_load_us, mut asked) = asked?;
    Ok(Embedding {
        embedding_start_us: median(&mut starts),
        embedding_load_us,
        vector_p50_us: median(&mut vectors),
        vector_p99_us: quantile(&mut vectors, 0.99),
        asked_p50_us: median(&mut asked),
        asked_p99_us: quantile(&mut asked, 0.99),
    })
}

/// Loads the extension and a caller of it; returns the duration of the load and of each call.
fn ask(home: &Path) -> Result<(u64, Vec<f64>), Box<dyn Error>> {
    let manifest = |id: &str, rest: &str| {
        let folder = home.join("manifests").join(id);
        fs::create_dir_all(&folder)?;
        let text = format!("id: {id}\nname: {id}\nentrypoint: {id}\n{rest}");
        fs::write(folder.join("manifest.yaml"), text).map(|()| folder)
    };
    fs::create_dir_all(home.join("sandbox"))?;
    manifest("embedding", "config: {model: static-minilm-128}\n")?;
    let folder = manifest("asker", "depends_on: [embedding]\n")?;
    // Examples are next to the program, in a directory that the kernel does not search.
    let library = std::env::consts::DLL_PREFIX.to_owned() + "asker" + std::env::consts::DLL_SUFFIX;
    let built = std::env::current_exe()?.with_file_name("examples").join(&library);
    fs::copy(built, folder.join(&library))?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let installation: Option<Installation> = None;
        let found = Home::open(home, HomeSource::Argument)?;
        let options = BootOptions::new(found, Settings::default());
        let kernel = Kernel::boot(BootOptions { installation, ..options }).await;
        let report = kernel.report();
        let loaded = report.loaded.iter().find(|loaded| loaded.id == "embedding");
        let loaded = loaded.ok_or_else(|| format!("it was not loaded: {:?}", report.rejected))?;
        let timings = loaded.timings;
        let texts: Vec<_> = (0..1_000).flat_map(|_| QUERIES).collect();
        let context = CallContext { origin: CallOrigin::Operator, ..CallContext::default() };
        let arguments = serde_json::json!({ "texts": texts }).to_string();
        let output = kernel.agents().invoke_tool(context, "ask", &arguments).await?;
        kernel.shutdown().await;
        let times = output.structured.ok_or("the asker gives no times")?;
        Ok((timings.copy_us + timings.elf_us + timings.open_us, serde_json::from_str(times.get())?))
    })
}
