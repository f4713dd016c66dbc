//! `--live`: shows a run on a page while it goes on.

use timberline_bench::live::Live;
use timberline_bench::report::Progress;

use crate::Failure;
use crate::say::tell;

/// The `--live` option.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub struct LiveView {
    /// Show the run live on a local page, at PORT or any free port; stderr shows its address
    #[arg(
        long,
        value_name = "PORT",
        num_args = 0..=1,
        default_missing_value = "0"
    )]
    live: Option<u16>,
}

impl LiveView {
    /// Serves the page if asked to, and prints its address. The page shows the events of
    /// `progress`.
    pub fn beside(&self, progress: Box<dyn Progress>) -> Result<Box<dyn Progress>, Failure> {
        let Some(port) = self.live else {
            return Ok(progress);
        };
        let live = Live::start(port, progress).map_err(|error| {
            Failure::Impossible(format!(
                "--live {port}: {error}; give another port, or none for any free port"
            ))
        })?;
        tell(format_args!("live view: {}", live.url()));
        Ok(Box::new(live))
    }
}
