//! The cache of results, one file for each run: a cached run need not run again.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::report::{Report, write_file};
use crate::run::Setting;

#[derive(Clone, Debug)]
pub struct ResultCache {
    folder: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CachedRun {
    pub setting: Setting,
    /// The results of the run.
    pub report: Report,
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
        let (index, hash) = (setting.indexes.join("-"), hasher.finish());
        let workload = setting.workload();
        self.folder
            .join(format!("{index}-{workload}-{hash:016x}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;
    use crate::run::tests::tiny;

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
            setting: tiny(),
            report: Report {
                results,
                ..Report::default()
            },
        };
        assert!(cache.find(&tiny()).is_none());
        cache.keep(&kept).unwrap();
        assert_eq!(cache.find(&tiny()).unwrap().report.results[0].records, 7);
        assert!(cache.find(&Setting { seed: 8, ..tiny() }).is_none());
        fs::write(cache.path(&tiny()), "{").unwrap();
        assert!(cache.find(&tiny()).is_none());
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
