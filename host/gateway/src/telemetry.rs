//! The log: to standard error, pretty for people, JSON for machines. No body, secret or credential is ever logged.

use crate::settings::LogFormat;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts the log of this process. A second call changes nothing.
///
/// # Errors
/// The filter's own word for what is wrong with it.
pub(crate) fn start(filter: &str, format: LogFormat) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let pretty = match format {
        LogFormat::Pretty => true,
        LogFormat::Json => false,
        LogFormat::Auto => std::io::stderr().is_terminal(),
    };
    let _already_started =
        if pretty { builder.try_init() } else { builder.json().flatten_event(true).try_init() };
    Ok(())
}
