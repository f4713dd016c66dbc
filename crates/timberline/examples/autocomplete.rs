//! Autocomplete: the most frequent words with a typed prefix.
//!
//! Pass a text to take the words from: `cargo run --example autocomplete -- FILE tre`

use std::cmp::Reverse;
use std::error::Error;

use timberline::Masstree;

const TEXT: &str = "the trees of the timberline are the last trees before the treeless tundra: \
    a tree that treads where no tree trespasses";

/// How often each word is in a text.
pub fn count(text: &str) -> Result<Masstree<str, u64>, timberline::Error> {
    let words: Masstree<str, u64> = Masstree::new();
    for word in text.split(|c: char| !c.is_alphabetic()) {
        if !word.is_empty() {
            let once_more = |times: Option<u64>| times.unwrap_or(0) + 1;
            words.upsert_with(&word.to_lowercase(), once_more)?;
        }
    }
    Ok(words)
}

/// Up to `most` words that begin with `typed`, the most frequent first.
pub fn complete(words: &Masstree<str, u64>, typed: &str, most: usize) -> Vec<String> {
    let mut found: Vec<(String, u64)> = words.prefix(typed).collect();
    found.sort_by_key(|(_, times)| Reverse(*times));
    found.into_iter().map(|(word, _)| word).take(most).collect()
}

/// Prints the completions of the second argument in the file that the first one names.
pub fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let text = match arguments.next() {
        Some(file) => std::fs::read_to_string(file)?,
        None => TEXT.into(),
    };
    let typed = arguments.next().unwrap_or_else(|| "tre".into());
    let words = count(&text)?;
    let completions = complete(&words, &typed, 5);
    println!("{} words; {typed}… {completions:?}", words.len());
    Ok(())
}
