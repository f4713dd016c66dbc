//! The stores that are compared.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use redb::{Durability, ReadableDatabase, TableDefinition};
use timberline_bench::store::{Engine, Key, Setting};
use timberline_store::Store;

/// Ours with futures, as `timberline bench --store` runs it: maintained by a thread of its own.
pub const OURS: &str = "timberline";

type Opener = fn(&Path, &Setting) -> Result<Box<dyn Engine>, String>;

/// Name, how it reaches the disk, how it is opened.
const ENGINES: &[(&str, &str, Opener)] = &[
    ("timberline-threads", "O_DIRECT", ours),
    ("fjall", "page cache", fjall),
    ("redb", "page cache", redb),
    #[cfg(feature = "rocksdb")]
    ("rocksdb", "O_DIRECT", crate::rocksdb::open),
];

/// All names.
pub fn names() -> Vec<&'static str> {
    let engines = ENGINES.iter().map(|it| it.0);
    [OURS].into_iter().chain(engines).collect()
}

/// How a store that threads wait for reaches the disk, and is opened.
pub fn opener(name: &str) -> Option<(&'static str, &'static Opener)> {
    let found = ENGINES.iter().find(|it| it.0 == name)?;
    Some((found.1, &found.2))
}

/// What a store with a cache of its own gives it. The rest is for its buffers and tables, and the
/// page cache where it reads through that.
pub fn cache_bytes(setting: &Setting) -> u64 {
    setting.memory_bytes / 2
}

/// Bytes of writes that stores which sort them in memory collect.
pub fn write_buffer_bytes(setting: &Setting) -> u64 {
    setting.memory_bytes / 16
}

pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn ours(folder: &Path, setting: &Setting) -> Result<Box<dyn Engine>, String> {
    let (store, _) = Store::open(folder, setting.options()).map_err(text)?;
    Ok(Box::new(Ours(store)))
}

struct Ours(Store);

impl Engine for Ours {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.0.blocking().put(key, value).map_err(text)
    }

    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let value = self.0.blocking().get(key).map_err(text)?;
        Ok(value.map(|value| show(&value)).is_some())
    }

    fn sync(&self) -> Result<(), String> {
        self.0.blocking().sync().map_err(text)
    }
}

fn fjall(folder: &Path, setting: &Setting) -> Result<Box<dyn Engine>, String> {
    let database = Database::builder(folder)
        .cache_size(cache_bytes(setting))
        .open()
        .map_err(text)?;
    let memtable = write_buffer_bytes(setting);
    let options = || KeyspaceCreateOptions::default().max_memtable_size(memtable);
    let records = database.keyspace("records", options).map_err(text)?;
    Ok(Box::new(Fjall(database, records)))
}

struct Fjall(Database, Keyspace);

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.1.insert(key, value).map_err(text)
    }

    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let value = self.1.get(key).map_err(text)?;
        Ok(value.map(|value| show(&value)).is_some())
    }

    fn sync(&self) -> Result<(), String> {
        self.0.persist(PersistMode::SyncData).map_err(text)
    }
}

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");
/// Records of one transaction while `redb` is loaded.
const BATCH: usize = 10_000;

fn redb(folder: &Path, setting: &Setting) -> Result<Box<dyn Engine>, String> {
    let mut builder = redb::Database::builder();
    builder.set_cache_size(cache_bytes(setting) as usize);
    let database = builder.create(folder.join("redb")).map_err(text)?;
    Ok(Box::new(Redb(database)))
}

struct Redb(redb::Database);

impl Redb {
    fn write<'a>(
        &self,
        durability: Durability,
        records: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), String> {
        let mut write = self.0.begin_write().map_err(text)?;
        write.set_durability(durability).map_err(text)?;
        {
            let mut table = write.open_table(RECORDS).map_err(text)?;
            for (key, value) in records {
                table.insert(key, value).map_err(text)?;
            }
        }
        write.commit().map_err(text)
    }
}

impl Engine for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.write(Durability::None, [(key, value)].into_iter())
    }

    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let read = self.0.begin_read().map_err(text)?;
        let table = read.open_table(RECORDS).map_err(text)?;
        let value = table.get(key).map_err(text)?;
        Ok(value.map(|value| show(value.value())).is_some())
    }

    fn sync(&self) -> Result<(), String> {
        self.write(Durability::Immediate, std::iter::empty())
    }

    fn load(&self, records: &mut dyn Iterator<Item = (Key, Vec<u8>)>) -> Result<(), String> {
        loop {
            let batch: Vec<_> = (0..BATCH).map_while(|_| records.next()).collect();
            if batch.is_empty() {
                return Ok(());
            }
            let batch = batch.iter().map(|(key, value)| (&key[..], &value[..]));
            self.write(Durability::Immediate, batch)?;
        }
    }
}
