//! The figures of `host/docs/performance.md` that need the whole gateway. Run by `scripts/bench`.
//!
//! The compared programs run in turns in one process, so that a busy machine slows both: rely on the ratios. Neither side
//! writes a log. To run one part: `cargo bench -p operation-gateway --bench gateway -- PART`, with `preview`, `flows`,
//! `custody`, `hostile`, `activation` or `startup`. `load` makes flows alone, for a profile.

#![expect(clippy::print_stdout, reason = "it prints measurements")]

mod custody;
mod flows;
mod hostile;
mod http;
mod preview;
mod startup;
mod world;

use std::error::Error;

type Measured<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Measured<()> {
    // Cargo adds the flag `--bench`.
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let wanted = |section: &str| only.as_deref().is_none_or(|only| only == section);
    if wanted("preview") {
        preview::measure().await?;
    }
    if wanted("flows") {
        flows::measure().await?;
    }
    if only.as_deref() == Some("load") {
        flows::load().await?;
    }
    if wanted("custody") {
        custody::measure().await?;
    }
    if wanted("hostile") {
        hostile::measure().await?;
    }
    if wanted("activation") {
        startup::measure_reading().await?;
    }
    if wanted("startup") {
        startup::measure()?;
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
