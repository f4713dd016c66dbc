//! `timberline check`: reads all records of a store.

use std::path::PathBuf;

use serde_json::json;
use timberline_io::{Disk, Driver};
use timberline_store::{Check, Error, Options, Report, Shortened, Store, join};

use crate::say::{say, shown};
use crate::{Failure, folder};

#[derive(clap::Args)]
#[command(after_help = "\
Exit code 1: records are damaged, or gone with a segment that is cut off or missing. Otherwise it is 0: what was never complete, and checkpoints that \
were passed over, are reported and are no damage.

A store that was not closed is brought to its last complete write first, as by a server that \
starts. The folder is written to: segments are made, and empty ones erased. A store on a file \
system that is read-only can't be checked; copy it elsewhere first.

Keys are those of the store. In a server's store, their first letter is the server's (`skey77` is \
the string `key77`), and records of its own are there, too: one key more than DBSIZE says.")]
pub struct Args {
    /// Folder of the store, which no server has open
    folder: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Requests to the disk at once.
const DEPTH: usize = 32;
/// Lost keys that are shown for a damaged place.
const SHOWN: usize = 5;

pub fn run(args: &Args) -> Result<(), Failure> {
    let (disk, mut driver) = Disk::open(DEPTH);
    let options = folder::options_of(&disk, &args.folder)?;
    let opened = checked(&disk, &mut driver, args, options);
    let (report, check) = opened.map_err(|error| folder::unread(&error))?;
    match args.json {
        true => say(format_args!("{:#}", as_json(&report, &check)))?,
        false => print(&report, &check)?,
    }
    let found = [
        ("damaged places", check.damaged.len()),
        ("values that lack pieces", check.incomplete.len()),
        ("segments that lack records", report.shortened.len()),
    ];
    let found = found.iter().filter(|it| it.1 > 0);
    let found: Vec<_> = found
        .map(|(what, count)| format!("{what}: {count}"))
        .collect();
    match found.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(found.join("; "))),
    }
}

fn checked(
    disk: &Disk,
    driver: &mut Driver,
    args: &Args,
    options: Options,
) -> Result<(Report, Check), Error> {
    driver.block_on(async {
        let (store, report) = Store::open_on(disk, &args.folder, options).await?;
        let work = async {
            let check = store.check().await;
            store.close();
            check
        };
        let (check, maintained) = join(work, store.maintain()).await;
        maintained?;
        Ok((report, check?))
    })
}

fn print(report: &Report, check: &Check) -> Result<(), Failure> {
    say(format_args!(
        "{} keys, {} records read",
        report.keys, check.records
    ))?;
    for (path, reason) in &report.checkpoints {
        say(format_args!("passed over {}: {reason}", path.display()))?;
    }
    for shortened in &report.shortened {
        say(format_args!("{shortened}"))?;
    }
    for (path, byte) in &report.incomplete {
        let path = path.display();
        say(format_args!(
            "{path}: what was written from byte {byte} on was never complete"
        ))?;
    }
    for damage in &check.damaged {
        let (path, place) = (damage.path.display(), &damage.place);
        let keys = damage.keys.iter().take(SHOWN).map(|key| shown(key));
        let keys = keys.collect::<Vec<_>>().join(", ");
        let lost = match damage.keys.len() {
            0 if place.start == 0 => "it is the header, which is not needed".to_owned(),
            0 if check.incomplete.is_empty() => "no key has its value there".to_owned(),
            0 => "nothing is lost there but what is listed below".to_owned(),
            all @ 1..=SHOWN => format!("values lost: {all} ({keys})"),
            all => format!("values lost: {all} ({keys}, …)"),
        };
        say(format_args!(
            "{path}: bytes {} to {} are damaged; {lost}",
            place.start, place.end
        ))?;
    }
    for value in &check.incomplete {
        say(format_args!(
            "{}: the record at byte {} is whole, but {} of the {} pieces of its value are gone; \
             values lost: 1 ({})",
            value.path.display(),
            value.offset,
            value.missing,
            value.pieces,
            shown(&value.key)
        ))?;
    }
    Ok(())
}

fn shortened_json(shortened: &Shortened) -> serde_json::Value {
    match shortened {
        Shortened::CutOff(path, at, end) => json!({ "file": path, "byte": at, "end": end }),
        Shortened::Missing(path, keys) => json!({ "file": path, "lost_keys": keys }),
    }
}

fn as_json(report: &Report, check: &Check) -> serde_json::Value {
    let damaged = check.damaged.iter().map(|damage| {
        json!({
            "file": damage.path, "from": damage.place.start, "to": damage.place.end,
            "lost_keys": damage.keys.iter().map(|key| shown(key)).collect::<Vec<_>>(),
        })
    });
    let incomplete = check.incomplete.iter().map(|value| {
        json!({
            "file": value.path, "byte": value.offset, "lost_key": shown(&value.key),
            "missing_pieces": value.missing, "pieces": value.pieces,
        })
    });
    let places = |list: &[(PathBuf, u64)]| -> Vec<serde_json::Value> {
        list.iter()
            .map(|(path, byte)| json!({ "file": path, "byte": byte }))
            .collect()
    };
    let checkpoints = report.checkpoints.iter();
    let passed_over = checkpoints.map(|(path, why)| json!({ "file": path, "reason": why }));
    json!({
        "keys": report.keys, "records": check.records, "damaged": damaged.collect::<Vec<_>>(),
        "values_that_lack_pieces": incomplete.collect::<Vec<_>>(),
        "incomplete": places(&report.incomplete),
        "shortened": report.shortened.iter().map(shortened_json).collect::<Vec<_>>(),
        "checkpoints_passed_over": passed_over.collect::<Vec<_>>(),
    })
}
