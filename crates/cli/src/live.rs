//! `--live`: a run that is shown on a page as it goes.

use timberline_bench::live::Live;
use timberline_bench::report::Progress;

use crate::Failure;
use crate::say::tell;

/// Whether to show a run, and where.
#[derive(clap::Args)]
pub struct LiveView {
    /// Show the run as it goes on a page of this machine, at PORT or any free one; its address is
    /// told on stderr
    #[arg(
        long,
        value_name = "PORT",
        num_args = 0..=1,
        default_missing_value = "0"
    )]
    live: Option<u16>,
}

impl LiveView {
    /// Serves the page, if that was asked for, and says where. It shows what `progress` hears.
    pub fn beside(&self, progress: Box<dyn Progress>) -> Result<Box<dyn Progress>, Failure> {
        let Some(port) = self.live else {
            return Ok(progress);
        };
        let live = Live::start(port, progress).map_err(|error| {
            Failure::Impossible(format!(
                "--live {port}: {error}; give another port, or none for any that is free"
            ))
        })?;
        tell(format_args!("live view: {}", live.url()));
        Ok(Box::new(live))
    }
}
