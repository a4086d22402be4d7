//! The figures of `host/docs/performance.md` that need the whole gateway. Run by `scripts/bench`.
//!
//! What is compared runs side by side in one process and in turns, so that a busy machine slows both alike: read the
//! ratios. No log is written, on either side. `bench preview`, `bench flows`, `bench custody`, `bench hostile`,
//! `bench activation` and `bench startup` run one part.

#![expect(clippy::print_stdout, reason = "a measuring tool")]

mod activation;
mod custody;
mod flows;
mod hostile;
mod http;
mod preview;
mod samples;
mod startup;
mod world;

use std::error::Error;

type Measured<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Measured<()> {
    let only = std::env::args().nth(1);
    let wanted = |section: &str| only.as_deref().is_none_or(|only| only == section);
    if wanted("preview") {
        preview::measure().await?;
    }
    if wanted("flows") {
        flows::measure().await?;
    }
    if wanted("custody") {
        custody::measure().await?;
    }
    if wanted("hostile") {
        hostile::measure().await?;
    }
    if wanted("activation") {
        activation::measure().await?;
    }
    if wanted("startup") {
        startup::measure()?;
    }
    Ok(())
}

/// The middle one.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
