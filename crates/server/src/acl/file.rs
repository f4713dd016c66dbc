//! The file of users: a line `user NAME RULES` for each, as `ACL LIST` shows it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::User;

/// The users of a file's text.
///
/// # Errors
/// What is wrong with which line.
pub(super) fn parse(text: &str) -> Result<BTreeMap<Box<[u8]>, User>, String> {
    let mut users = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |what: &str| format!("line {number}: {what}");
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            None => continue,
            Some(word) if word.starts_with('#') => continue,
            Some("user") => {}
            Some(_) => return Err(wrong("a line is `user NAME RULES`")),
        }
        let name = words.next().ok_or_else(|| wrong("a user without a name"))?;
        let mut user = User::no_rights();
        for rule in words {
            let applied = user.apply(rule.as_bytes());
            applied.map_err(|why| wrong(&format!("rule '{rule}': {why}")))?;
        }
        let name: Box<[u8]> = name.as_bytes().into();
        if users.insert(name, user).is_some() {
            return Err(wrong("a user that was there before"));
        }
    }
    Ok(users)
}

/// Writes a file of these lines: the old one stays until the new one is on the disk.
pub(super) fn write(to: &Path, lines: &[Vec<u8>]) -> io::Result<()> {
    let mut beside = to.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    let mut file = File::create(beside)?;
    for line in lines {
        file.write_all(line)?;
        file.write_all(b"\n")?;
    }
    file.sync_all()?;
    std::fs::rename(beside, to)?;
    let folder = to.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
