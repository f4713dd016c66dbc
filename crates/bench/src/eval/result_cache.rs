//! The cache of results, one file for each run: a cached run need not run again.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use super::results::CachedRun;
use super::setting::Setting;
use crate::report::write_file;

#[derive(Clone, Debug)]
pub struct ResultCache {
    folder: PathBuf,
}

impl ResultCache {
    /// The cache in this folder, which is created if missing.
    ///
    /// # Errors
    /// The folder cannot be created or written to. The error's text names it.
    pub fn open(folder: &Path) -> io::Result<ResultCache> {
        let named = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("can't keep results in {}: {error}", folder.display()),
            )
        };
        fs::create_dir_all(folder).map_err(named)?;
        // Checked here, so that a lack of permission shows before a run of minutes, not after it.
        let probe = folder.join("probe.unfinished");
        fs::write(&probe, "").map_err(named)?;
        fs::remove_file(&probe).map_err(named)?;
        Ok(ResultCache {
            folder: folder.into(),
        })
    }

    /// The cached results of a setting. A file that is unreadable or of another setting counts as a
    /// miss.
    pub fn find(&self, setting: &Setting) -> Option<CachedRun> {
        let text = fs::read_to_string(self.path(setting)).ok()?;
        let kept: CachedRun = serde_json::from_str(&text).ok()?;
        (kept.setting == *setting).then_some(kept)
    }

    /// Caches a run atomically: its file is written completely or not at all.
    ///
    /// # Errors
    /// The file can't be written. The error's text names it.
    pub fn keep(&self, kept: &CachedRun) -> io::Result<()> {
        let text = serde_json::to_string(kept).expect("plain figures and strings");
        write_file(&self.path(&kept.setting), &text)
    }

    fn path(&self, setting: &Setting) -> PathBuf {
        // The hash only needs to tell settings apart; the content of the file decides.
        let mut hasher = DefaultHasher::new();
        let text = serde_json::to_string(setting).expect("plain figures and strings");
        text.hash(&mut hasher);
        let (name, hash) = (setting.name(), hasher.finish());
        self.folder.join(format!("{name}-{hash:016x}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::measure::Measure;
    use crate::eval::results::{Results, Substitute, Table};
    use crate::eval::setting::tests::{cluster, maps};
    use crate::eval::subject::{Row, Values};
    use crate::report::{Meta, Outcome, Report};
    use crate::run;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("timberline-cache-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_is_kept_is_found_under_its_setting_alone() {
        let folder = scratch("found");
        let cache = ResultCache::open(&folder).unwrap();
        let results = vec![Outcome {
            records: 7,
            ..Outcome::default()
        }];
        let kept = CachedRun {
            setting: maps(),
            results: Results::Report(Report {
                results,
                ..Report::default()
            }),
        };
        assert!(cache.find(&maps()).is_none());
        cache.keep(&kept).unwrap();
        let Results::Report(report) = cache.find(&maps()).unwrap().results else {
            panic!("it was a report");
        };
        assert_eq!(report.results[0].records, 7);
        let Setting::Maps(tiny) = maps() else {
            panic!("maps have such a setting");
        };
        let other = Setting::Maps(run::Setting { seed: 8, ..tiny });
        assert!(cache.find(&other).is_none());
        assert!(cache.find(&cluster()).is_none());
        fs::write(cache.path(&maps()), "{").unwrap();
        assert!(cache.find(&maps()).is_none());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn tables_are_kept_as_reports_are() {
        let folder = scratch("tables");
        let cache = ResultCache::open(&folder).unwrap();
        let row = Row::new("dex")
            .with(Measure::Reads, Values::Exact(0.1 + 0.2))
            .with(Measure::Throughput, Values::Rounds(vec![1.5, 2.5]));
        let kept = CachedRun {
            setting: cluster(),
            results: Results::Table(Table {
                meta: Meta::default(),
                substitute: Substitute::Simulated,
                rows: vec![row.clone()],
            }),
        };
        cache.keep(&kept).unwrap();
        let Results::Table(table) = cache.find(&cluster()).unwrap().results else {
            panic!("it was a table");
        };
        assert_eq!(table.rows, [row]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_can_not_be_is_named() {
        let error = ResultCache::open(Path::new("/dev/null/cache")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("can't keep results in /dev/null/cache:")
        );
    }
}
