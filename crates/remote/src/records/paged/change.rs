//! A new root with changes, by copies of the pages on the way to them.

use std::sync::{Mutex, PoisonError};

use futures_util::future::{BoxFuture, join_all};

use super::super::Records;
use super::super::page::Page;
use super::node::{Child, Entry, View, bytes_of, encode};
use super::{AT_A_TIME, PAGE_BYTES, PagedMap, ROOT_BYTES};
use crate::error::Result;

/// A page with fewer bytes is joined with one beside it.
const LEAST_BYTES: usize = PAGE_BYTES / 3;

/// A map that was changed: what its root is to be, and the pages that one of both roots leads to.
#[must_use = "one of both roots has to be given up"]
pub struct Changed {
    /// The new root.
    pub map: PagedMap,
    added: Vec<Page>,
    dropped: Vec<Page>,
}

/// A key, and the value that it is to have.
pub type Wanted = (Vec<u8>, Option<Vec<u8>>);

impl Records {
    /// Makes a new root with changes, which are in the order of their keys and name each key once.
    /// The old root has what it had until it is given up, by [`accept`](Self::accept).
    ///
    /// # Errors
    /// The pool is full, or an entry too long: then no page is taken. Or a memory server does not
    /// answer.
    pub async fn change(&self, map: &PagedMap, changes: &[Wanted]) -> Result<Changed> {
        let work = Work {
            records: self,
            added: Mutex::default(),
            dropped: Mutex::default(),
        };
        match work.new_root(map, changes).await {
            Ok(map) => Ok(Changed {
                map,
                added: taken(work.added),
                dropped: taken(work.dropped),
            }),
            Err(error) => {
                for page in taken(work.added) {
                    self.free_page(page).await;
                }
                Err(error)
            }
        }
    }

    /// The new root is in the place of the old one: frees what only that led to.
    pub async fn accept(&self, changed: Changed) {
        for page in changed.dropped {
            self.free_page(page).await;
        }
    }

    /// The old root stays: frees what only the new one leads to.
    pub async fn give_up(&self, changed: Changed) {
        for page in changed.added {
            self.free_page(page).await;
        }
    }
}

fn taken(pages: Mutex<Vec<Page>>) -> Vec<Page> {
    pages.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn push(pages: &Mutex<Vec<Page>>, page: Page) {
    let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
    pages.push(page);
}

/// What becomes of a child.
enum Part {
    Kept(Child),
    /// It gets other entries.
    Open(Vec<Entry>),
}

impl Part {
    fn is_small(&self) -> bool {
        match self {
            Part::Kept(_) => false,
            Part::Open(entries) => entries.iter().map(bytes_of).sum::<usize>() < LEAST_BYTES,
        }
    }
}

/// Children that are to be, each with the least key that it may have.
type Parts = Vec<(Vec<u8>, Part)>;

struct Work<'a> {
    records: &'a Records,
    added: Mutex<Vec<Page>>,
    dropped: Mutex<Vec<Page>>,
}

impl Work<'_> {
    async fn new_root(&self, map: &PagedMap, changes: &[Wanted]) -> Result<PagedMap> {
        let mut level = View::of(map.bytes()).level;
        let mut entries = self.entries(map.bytes().into(), changes).await?;
        loop {
            if level > 0 && entries.len() <= 1 {
                let bytes = encode(level, &entries);
                let Some((_, child)) = View::of(&bytes).children().next() else {
                    return Ok(PagedMap::default());
                };
                let below = self.records.read_page(child.page).await?;
                if below.len() > ROOT_BYTES {
                    return Ok(PagedMap(bytes));
                }
                push(&self.dropped, child.page);
                level = View::of(&below).level;
                entries = owned(View::of(&below));
            } else if entries.iter().map(bytes_of).sum::<usize>() < ROOT_BYTES {
                return Ok(PagedMap(encode(level, &entries)));
            } else {
                entries = self.write(level, Vec::new(), entries, 2).await?;
                level += 1;
            }
        }
    }

    /// The entries of a node with changes. Those of an inner node lead to new pages.
    fn entries<'b>(
        &'b self,
        node: Vec<u8>,
        changes: &'b [Wanted],
    ) -> BoxFuture<'b, Result<Vec<Entry>>> {
        Box::pin(async move {
            let view = View::of(&node);
            match view.level.checked_sub(1) {
                None => Ok(merged(view, changes)),
                Some(below) => {
                    let parts = self.parts(view, changes).await?;
                    let parts = self.joined(below, parts).await?;
                    let mut entries = Vec::with_capacity(parts.len());
                    for (least, part) in parts {
                        match part {
                            Part::Kept(child) => entries.push((least, child.bytes())),
                            Part::Open(some) => {
                                entries.extend(self.write(below, least, some, 1).await?);
                            }
                        }
                    }
                    Ok(entries)
                }
            }
        })
    }

    /// What becomes of the children of a node.
    async fn parts(&self, node: View<'_>, mut changes: &[Wanted]) -> Result<Parts> {
        let mut children = node.children().peekable();
        let mut work = Vec::new();
        while let Some((least, child)) = children.next() {
            let end = match children.peek() {
                Some((next, _)) => changes.partition_point(|it| &it.0[..] < *next),
                None => changes.len(),
            };
            let (of_child, rest) = changes.split_at(end);
            changes = rest;
            work.push(async move {
                let part = match of_child.is_empty() {
                    true => Part::Kept(child),
                    false => Part::Open(self.entries(self.open(child).await?, of_child).await?),
                };
                Ok((least.to_vec(), part))
            });
        }
        let mut parts = Vec::with_capacity(work.len());
        let mut work = work.into_iter();
        loop {
            let some: Vec<_> = work.by_ref().take(AT_A_TIME).collect();
            if some.is_empty() {
                return Ok(parts);
            }
            // All end, so that what they wrote is known.
            for part in join_all(some).await {
                parts.push(part?);
            }
        }
    }

    /// The bytes of a child that the new root does not lead to.
    async fn open(&self, child: Child) -> Result<Vec<u8>> {
        let bytes = self.records.read_page(child.page).await?;
        push(&self.dropped, child.page);
        Ok(bytes)
    }

    /// Children without empty ones, and without small ones that have others beside them. `level`:
    /// that of the children.
    async fn joined(&self, level: u8, parts: Parts) -> Result<Parts> {
        let mut joined: Parts = Vec::with_capacity(parts.len());
        for (least, part) in parts {
            if matches!(&part, Part::Open(entries) if entries.is_empty()) {
                continue;
            }
            match joined.last_mut() {
                Some((_, last)) if last.is_small() || part.is_small() => {
                    let last_part = std::mem::replace(last, Part::Open(Vec::new()));
                    let mut entries = self.opened(last_part).await?;
                    let mut more = self.opened(part).await?;
                    // What an inner node's first child may have is what the node may have.
                    if level > 0
                        && let Some((first, _)) = more.first_mut()
                    {
                        *first = least;
                    }
                    entries.append(&mut more);
                    *last = Part::Open(entries);
                }
                _ => joined.push((least, part)),
            }
        }
        Ok(joined)
    }

    async fn opened(&self, part: Part) -> Result<Vec<Entry>> {
        match part {
            Part::Open(entries) => Ok(entries),
            Part::Kept(child) => Ok(owned(View::of(&self.open(child).await?))),
        }
    }

    /// Writes entries of a level to pages, at least so many if there are as many entries. Returns
    /// entries that lead to them.
    async fn write(
        &self,
        level: u8,
        least: Vec<u8>,
        mut entries: Vec<Entry>,
        pages: usize,
    ) -> Result<Vec<Entry>> {
        let mut bytes: usize = entries.iter().map(bytes_of).sum();
        let mut pages = bytes.div_ceil(PAGE_BYTES - 1).max(pages);
        let mut least = Some(least);
        let mut nodes = Vec::with_capacity(pages);
        let mut last_key = Vec::new();
        while !entries.is_empty() {
            let share = bytes.div_ceil(pages.max(1));
            let (mut end, mut taken) = (0, 0);
            while end < entries.len() {
                let more = bytes_of(&entries[end]);
                if end > 0 && (taken >= share || taken + more >= PAGE_BYTES) {
                    break;
                }
                taken += more;
                end += 1;
            }
            let rest = entries.split_off(end);
            let some = std::mem::replace(&mut entries, rest);
            bytes -= taken;
            pages = pages.saturating_sub(1);
            let first = &some[0].0;
            let least = least.take().unwrap_or_else(|| match level {
                0 => between(&last_key, first).into(),
                _ => first.clone(),
            });
            last_key.clone_from(&some[some.len() - 1].0);
            nodes.push((least, encode(level, &some)));
        }
        let mut written = Vec::with_capacity(nodes.len());
        for some in nodes.chunks(AT_A_TIME) {
            let some = some.iter().map(async |(least, node)| {
                let count = View::of(node).count();
                let page = self.records.write_page(node.clone()).await?;
                push(&self.added, page);
                Ok((least.clone(), Child { page, count }.bytes()))
            });
            for entry in join_all(some).await {
                written.push(entry?);
            }
        }
        Ok(written)
    }
}

fn owned(node: View) -> Vec<Entry> {
    let entries = node.entries();
    entries.map(|it| (it.0.to_vec(), it.1.to_vec())).collect()
}

/// The entries of a leaf with changes.
fn merged(leaf: View, changes: &[Wanted]) -> Vec<Entry> {
    let mut merged = Vec::new();
    let mut changes = changes.iter().peekable();
    let add = |merged: &mut Vec<Entry>, (key, value): &Wanted| {
        if let Some(value) = value {
            merged.push((key.clone(), value.clone()));
        }
    };
    for (key, value) in leaf.entries() {
        while let Some(change) = changes.next_if(|it| &it.0[..] < key) {
            add(&mut merged, change);
        }
        match changes.next_if(|it| it.0 == key) {
            Some(change) => add(&mut merged, change),
            None => merged.push((key.to_vec(), value.to_vec())),
        }
    }
    changes.for_each(|it| add(&mut merged, it));
    merged
}

/// The shortest key above one and at most another, which is above it.
fn between<'a>(below: &[u8], key: &'a [u8]) -> &'a [u8] {
    let shared = below.iter().zip(key).take_while(|(a, b)| a == b).count();
    &key[..(shared + 1).min(key.len())]
}
