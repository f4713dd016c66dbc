//! Maps as serde's maps, and values of any type in postcard's format.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::thread;

use serde::{Deserialize, Serialize};
use timberline::{Art, BTree, Error, MAX_VALUE, Masstree, Postcard};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct User {
    name: String,
    scores: Vec<i32>,
    born: Option<u16>,
}

fn user(number: usize) -> User {
    User {
        name: format!("user {number}"),
        scores: (0..number as i32).map(|score| -score).collect(),
        born: number.is_multiple_of(2).then_some(1900),
    }
}

/// A map comes back from JSON and from postcard, and the standard library's map reads it too.
macro_rules! comes_back {
    ($map:ty, $model:expr) => {{
        let model = $model;
        let map: $map = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        let json = serde_json::to_string(&map).unwrap();
        assert_eq!(json, serde_json::to_string(&model).unwrap());
        let read: $map = serde_json::from_str(&json).unwrap();
        assert!(read.iter().eq(model.clone()));
        let bytes = postcard::to_allocvec(&map).unwrap();
        assert_eq!(bytes, postcard::to_allocvec(&model).unwrap());
        let read: $map = postcard::from_bytes(&bytes).unwrap();
        assert!(read.iter().eq(model));
    }};
}

#[test]
fn maps_come_back_from_formats_with_and_without_names() {
    for records in [0, 1, 3_000] {
        let words: BTreeMap<u64, i32> = (0..records).map(|n| (n * 7, -(n as i32))).collect();
        comes_back!(BTree<u64, i32>, words.clone());
        comes_back!(Art<u64, i32>, words);
        let strings = (0..records).map(|n| (format!("{n:x}/key"), n.to_string()));
        let strings: BTreeMap<String, String> = strings.collect();
        comes_back!(Art<str, String>, strings.clone());
        comes_back!(Masstree<String, String>, strings);
    }
}

#[test]
fn a_map_of_encoded_values_reads_as_one_of_the_values() {
    let model: BTreeMap<u64, User> = (0..50).map(|n| (n, user(n as usize))).collect();
    let users: BTree<u64, Postcard<User>> = BTree::new();
    for (key, user) in &model {
        users
            .insert(key, Postcard::new(user).unwrap().lend())
            .unwrap();
    }
    let json = serde_json::to_string(&users).unwrap();
    assert_eq!(json, serde_json::to_string(&model).unwrap());
    let read: Art<u64, Postcard<User>> = serde_json::from_str(&json).unwrap();
    for (key, user) in &model {
        assert_eq!(&read.get(key).unwrap().decode().unwrap(), user);
    }
    assert_eq!(format!("{read:?}"), format!("{model:?}"));
}

#[test]
fn what_can_not_be_read_is_an_error_of_one_line() {
    fn line<M: for<'a> Deserialize<'a> + Debug>(json: &str) -> String {
        let line = serde_json::from_str::<M>(json).unwrap_err().to_string();
        assert!(!line.contains('\n'), "{line}");
        line
    }
    let expected = "invalid type: integer `7`, expected a map";
    assert!(line::<BTree<u64, u64>>("7").starts_with(expected));
    assert!(line::<BTree<u64, u64>>(r#"{"1": "one"}"#).contains("expected u64"));
    let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(MAX_VALUE + 1));
    assert!(line::<Art<str, String>>(&long).contains("65537 bytes; at most 65536"));
    // Cut off in its middle.
    let map: BTree<u64, u64> = (0..100).map(|key| (key, key)).collect();
    let bytes = postcard::to_allocvec(&map).unwrap();
    for end in [0, 1, 50, bytes.len() - 1] {
        assert!(postcard::from_bytes::<BTree<u64, u64>>(&bytes[..end]).is_err());
    }
}

#[test]
fn an_encoded_value_is_a_value_like_others() {
    let (one, two) = (
        Postcard::new(&user(1)).unwrap(),
        Postcard::new(&user(2)).unwrap(),
    );
    let users: Art<str, Postcard<User>> = Art::new();
    assert_eq!(users.insert("a", one.lend()), Ok(None));
    let exchanged = users.compare_exchange("a", Some(one.lend()), Some(two.lend()));
    assert_eq!(exchanged, Ok(Ok(Some(one))));
    let older = |user: timberline::PostcardRef<'_, User>| {
        let mut user = user.decode().unwrap();
        user.born = user.born.map(|year| year - 1);
        Some(Postcard::new(&user).unwrap())
    };
    assert_eq!(users.modify("a", older), Ok(Some(two)));
    assert_eq!(users.get("a").unwrap().decode().unwrap().born, Some(1899));
    // Too long as bytes, and the record stays.
    let long = Postcard::new(&User {
        scores: vec![1; MAX_VALUE],
        ..user(3)
    })
    .unwrap();
    assert!(matches!(
        users.insert("a", long.lend()),
        Err(Error::ValueTooLong(_))
    ));
    assert_eq!(
        users.remove("a").unwrap().decode().unwrap().born,
        Some(1899)
    );
}

#[test]
fn a_map_is_written_while_others_change_it() {
    let map: BTree<u64, u64> = (0..1_000).map(|key| (2 * key, key)).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            for key in (1..2_000).step_by(2) {
                map.insert(&key, key).unwrap();
                map.remove(&key);
            }
        });
        for _ in 0..20 {
            let bytes = postcard::to_allocvec(&map).unwrap();
            let read: BTreeMap<u64, u64> = postcard::from_bytes(&bytes).unwrap();
            let stayed = read.into_iter().filter(|(key, _)| key % 2 == 0);
            assert!(stayed.eq((0..1_000).map(|key| (2 * key, key))));
        }
    });
}
