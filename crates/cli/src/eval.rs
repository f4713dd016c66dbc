//! `timberline eval`: measures published figures again on this machine, beside the published
//! values.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use timberline_bench::eval::{
    Figure, Ground, Matrix, ResultCache, Scale, Summary, all, choose, span,
};
use timberline_bench::report::Meta;
use timberline_bench::run;
use timberline_tier::topology::Topology;

use crate::known::known;
use crate::say::{say, tell};
use crate::setup::{Emulation, available, cores, interrupts};
use crate::{Failure, bars};

/// Some figures use an eighth of the records, or put a tenth of them in fast memory. Below this
/// number, placements have no memory for their tables.
const FEWEST_RECORDS: u64 = 1000;

/// Width of the list of figures.
const COLUMNS: usize = 80;

#[derive(clap::Args)]
pub struct Args {
    /// Figures to measure and show, e.g. 14a, 16, dex, table; --list shows them [default: all]
    #[arg(
        value_parser = known(all(&Scale::quick()).iter().map(|figure| figure.id)),
        hide_possible_values = true
    )]
    figures: Vec<String>,
    /// All figures in seven minutes: 200k records, fewer points per figure, short rounds
    #[arg(long, help_heading = "Scale")]
    quick: bool,
    /// List the figures with their runs and estimated time, and measure nothing
    #[arg(long, help_heading = "Output")]
    list: bool,
    /// Folder for results and the report (`eval.html`, `eval.json`); existing results are reused
    #[arg(
        long,
        default_value = "timberline-eval",
        value_name = "FOLDER",
        help_heading = "Output"
    )]
    out: PathBuf,
    /// Records of a map, unless the figure varies them [default: 2M; quick: 200k]
    #[arg(long, value_parser = run::count, value_name = "N", help_heading = "Scale")]
    records: Option<u64>,
    /// Request threads, unless the figure varies them [default: one a core]
    #[arg(long, value_name = "N", help_heading = "Scale")]
    threads: Option<usize>,
    /// Use this map in all figures: btree, art, masstree [default: each paper's own]
    #[arg(
        long,
        value_parser = known(run::INDEXES),
        hide_possible_values = true,
        value_name = "NAME",
        help_heading = "Scale"
    )]
    index: Option<String>,
    #[command(flatten, next_help_heading = "Memory")]
    emulation: Emulation,
    /// Rounds, in each of which all placements take turns [default: 6; quick: 3]
    #[arg(long, value_name = "N", help_heading = "Scale")]
    rounds: Option<usize>,
    /// Seconds of a round of each placement [default: 5, and 1 of those that do not adapt; quick:
    /// 0.1]
    #[arg(long, value_name = "S", help_heading = "Scale")]
    slice: Option<f64>,
    /// File whose lines are the keys of the figure on long keys
    #[arg(long, value_name = "FILE", help_heading = "Inputs")]
    urls: Option<PathBuf>,
    /// Trace for the figures on traces; may be given more than once
    #[arg(long, value_name = "FILE", help_heading = "Inputs")]
    trace: Vec<PathBuf>,
    /// Format of the traces [default: by their names], e.g. `alibaba`
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "trace",
        help_heading = "Inputs"
    )]
    trace_format: Option<String>,
    /// Seed of all requests
    #[arg(long, default_value_t = 42, value_name = "N", help_heading = "Scale")]
    seed: u64,
    /// Show no progress
    #[arg(long, help_heading = "Output")]
    quiet: bool,
}

impl Args {
    fn scale(&self) -> Result<Scale, Failure> {
        let scale = if self.quick {
            Scale::quick()
        } else {
            Scale::default()
        };
        let threads = self.threads.unwrap_or_else(cores);
        let rounds = self.rounds.unwrap_or(scale.rounds);
        let records = self.records.unwrap_or(scale.records);
        if records < FEWEST_RECORDS {
            return Err(Failure::Impossible(format!(
                "--records {records}: give {FEWEST_RECORDS} or more"
            )));
        }
        let urls = self.urls.iter().map(|path| ("--urls", path));
        let traces = self.trace.iter().map(|path| ("--trace", path));
        for (flag, path) in urls.chain(traces) {
            File::open(path).map_err(|error| {
                let path = path.display();
                Failure::Impossible(format!("{flag} {path}: {error}; give a readable file"))
            })?;
        }
        if let Some(index) = &self.index {
            run::indexes(std::slice::from_ref(index)).map_err(Failure::impossible)?;
        }
        self.emulation.profile()?;
        let (slice_s, static_slice_s) = match self.slice {
            Some(slice) => (slice, None),
            None => (scale.slice_s, scale.static_slice_s),
        };
        Ok(Scale {
            records,
            threads,
            rounds,
            slice_s,
            static_slice_s,
            index: self.index.clone(),
            profile: self.emulation.profile.clone(),
            seed: self.seed,
            urls: self.urls.clone(),
            traces: self.trace.clone(),
            trace_format: self.trace_format.clone(),
            ..scale
        })
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let figures = choose(all(&args.scale()?), &args.figures)
        .map_err(|unknown| Failure::Impossible(format!("{unknown}; --list describes them")))?;
    if args.list {
        return list(&figures);
    }
    let missing: Vec<String> = missing(&figures).collect();
    if missing.len() == figures.len() {
        return Err(Failure::Impossible(missing.join("; ")));
    }
    let given = args.emulation.base()?;
    let topology = Topology::discover(Path::new("/")).map_err(Failure::failed)?;
    let mut matrix = Matrix::of(&figures);
    matrix
        .check(available(&topology))
        .map_err(Failure::impossible)?;
    let elsewhere = |error| Failure::Impossible(format!("{error}; give another folder with --out"));
    let cache = ResultCache::open(&args.out.join("runs")).map_err(elsewhere)?;
    let all = matrix.runs();
    let kept = matrix.take_kept(&cache);
    let interrupted = interrupts()?;

    let meta = Meta {
        profile: args.emulation.profile.clone(),
        base_latency_ns: given.map_or(0.0, |base| base.latency_ns),
        emulated: true,
        seed: args.seed,
        ..Meta::here(env!("CARGO_PKG_VERSION"))
    };
    let mut summary = Summary::new(meta.clone(), figures);
    kept.into_iter().for_each(|run| summary.add(run));
    let write = |summary: &Summary| {
        summary.write_json(&args.out.join("eval.json"))?;
        summary.write_html(&args.out.join("eval.html"))
    };
    // Before the first run, so that an unwritable report path is reported at once.
    write(&summary).map_err(elsewhere)?;
    let progress = bars::for_stderr(args.quiet);
    if !args.quiet {
        let left = span(matrix.estimate().as_secs_f64());
        let (kept, all, out) = (all - matrix.runs(), runs(all), args.out.display());
        tell(format_args!(
            "{all}, {kept} of them cached in {out}; the rest takes about {left}"
        ));
        missing.iter().for_each(tell);
    }
    if matrix.runs() > 0 {
        let ground = Ground {
            base: given,
            meta,
            folder: args.out.clone(),
        };
        let kept = |run| {
            summary.add(run);
            write(&summary).map_err(|error| error.to_string())
        };
        let done = matrix.run(&ground, &cache, &*progress, &interrupted, kept);
        done.map_err(Failure::Failed)?;
    }
    say(format_args!(
        "The report: {}",
        args.out.join("eval.html").display()
    ))?;
    match interrupted.load(Relaxed) {
        true => Err(Failure::Interrupted(
            "Interrupted. Finished runs are cached; the same command resumes.".into(),
        )),
        false => Ok(()),
    }
}

/// One line for each figure that cannot be made.
fn missing(figures: &[Figure]) -> impl Iterator<Item = String> {
    let of = |figure: &Figure| {
        let why = figure.missing?;
        Some(match why.starts_with("not rebuilt") {
            true => format!("figure {} is {why}", figure.id),
            false => format!("figure {} cannot be made: {why}", figure.id),
        })
    };
    figures.iter().filter_map(of)
}

fn list(figures: &[Figure]) -> Result<(), Failure> {
    for figure in figures {
        let effort = match figure.missing {
            Some(missing) => missing.to_string(),
            None => effort(std::slice::from_ref(figure)),
        };
        let (line, effort) = (
            format!("{:<10} {}", figure.id, figure.title),
            format!("({effort})"),
        );
        let gap = match line.chars().count() + 1 + effort.chars().count() > COLUMNS {
            true => "\n           ",
            false => " ",
        };
        say(format_args!("{line}{gap}{effort}"))?;
    }
    say(format_args!("Total: {}", effort(figures)))
}

fn effort(figures: &[Figure]) -> String {
    let matrix = Matrix::of(figures);
    let time = span(matrix.estimate().as_secs_f64());
    format!("{}, {time}", runs(matrix.runs()))
}

fn runs(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} run{plural}")
}
