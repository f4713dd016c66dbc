//! Unions, intersections and differences of sorted sets and sets.

use std::collections::BTreeMap;

use super::sorted::reply;
use super::{Call, Done, Failure, number};
use crate::keyspace::{Kind, score_of, sortable};
use crate::resp::integer;

type Scores = BTreeMap<Vec<u8>, f64>;

/// A member's score in two of the sources, made one.
type Aggregate = fn(f64, f64) -> f64;

/// Two scores added; infinities of both signs make zero, as in Redis.
fn sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if sum.is_nan() { 0.0 } else { sum }
}

/// How sources are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Union,
    Intersection,
    Difference,
}

/// What a command asks for.
struct Request<'a> {
    keys: Vec<&'a [u8]>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

/// The keys of a command whose argument here is their number, and where its options begin.
fn keys<'a>(call: &Call<'a>, at: usize) -> Result<(Vec<&'a [u8]>, usize), Failure> {
    let number = match call.command.name {
        "sintercard" => call.integer(at).unwrap_or(0),
        _ => call.integer(at)?,
    };
    if number < 1 {
        return Err(match call.command.name {
            "sintercard" => Failure::fixed("ERR numkeys should be greater than 0"),
            name => Failure::said(format!(
                "ERR at least 1 input key is needed for '{name}' command"
            )),
        });
    }
    let count = usize::try_from(number).unwrap_or(usize::MAX);
    if count > call.args.len() - at - 1 {
        return Err(match call.command.name == "sintercard" {
            true => Failure::fixed("ERR Number of keys can't be greater than number of args"),
            false => Failure::SYNTAX,
        });
    }
    let options = at + 1 + count;
    Ok(((at + 1..options).map(|it| call.arg(it)).collect(), options))
}

impl<'a> Request<'a> {
    fn parse(call: &Call<'a>, at: usize, how: How) -> Result<Request<'a>, Failure> {
        let (keys, mut at) = keys(call, at)?;
        let is_store = call.command.name.ends_with("store");
        let is_card = call.command.name.ends_with("card");
        let mut request = Request {
            weights: vec![1.0; keys.len()],
            keys,
            aggregate: sum,
            with_scores: false,
            limit: usize::MAX,
        };
        while at < call.args.len() {
            let more = call.args.len() - 1 - at;
            if is_card {
                if !call.is(at, "limit") || more < 1 {
                    return Err(Failure::SYNTAX);
                }
                let limit = integer(call.arg(at + 1)).filter(|it| *it >= 0);
                let limit = limit.ok_or(Failure::fixed("ERR LIMIT can't be negative"))?;
                request.limit = if limit == 0 {
                    usize::MAX
                } else {
                    limit as usize
                };
                at += 2;
            } else if how != How::Difference && call.is(at, "weights") && more >= request.keys.len()
            {
                for (index, weight) in request.weights.iter_mut().enumerate() {
                    let given = number::float(call.arg(at + 1 + index));
                    *weight = given.ok_or(Failure::fixed("ERR weight value is not a float"))?;
                }
                at += 1 + request.keys.len();
            } else if how != How::Difference && call.is(at, "aggregate") && more >= 1 {
                request.aggregate = match call.arg(at + 1).to_ascii_lowercase().as_slice() {
                    b"sum" => sum,
                    b"min" => f64::min,
                    b"max" => f64::max,
                    _ => return Err(Failure::SYNTAX),
                };
                at += 2;
            } else if !is_store && call.is(at, "withscores") {
                request.with_scores = true;
                at += 1;
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(request)
    }

    /// The members of all sources, in order of their scores.
    async fn combine(&self, call: &Call<'_>, how: How) -> Result<Vec<(f64, Vec<u8>)>, Failure> {
        let mut result: Option<Scores> = None;
        for (key, weight) in self.keys.iter().zip(&self.weights) {
            let members = members(call, key, *weight).await?;
            result = Some(match (result, how) {
                (None, _) => members,
                (Some(mut result), How::Union) => {
                    for (member, score) in members {
                        let both = result.get(&member).map(|old| (self.aggregate)(*old, score));
                        result.insert(member, both.unwrap_or(score));
                    }
                    result
                }
                (Some(mut result), How::Intersection) => {
                    result.retain(|member, score| {
                        let other = members.get(member);
                        *score = other.map_or(*score, |other| (self.aggregate)(*score, *other));
                        other.is_some()
                    });
                    result
                }
                (Some(mut result), How::Difference) => {
                    result.retain(|member, _| !members.contains_key(member));
                    result
                }
            });
        }
        let members = result.unwrap_or_default().into_iter();
        let mut members: Vec<(f64, Vec<u8>)> = members.map(|(name, score)| (score, name)).collect();
        // Members of one score stay in the order of their bytes.
        members.sort_by_key(|it| sortable(it.0));
        Ok(members)
    }
}

/// The members of a set or, but for `SINTERCARD`, a sorted set; those of a set have the score 1.
async fn members(call: &Call<'_>, key: &[u8], weight: f64) -> Result<Scores, Failure> {
    let keyspace = call.keyspace();
    let weighted = |score: f64| {
        let score = score * weight;
        if score.is_nan() { 0.0 } else { score }
    };
    let is_of_sets = call.command.name == "sintercard";
    match call.find(key).await? {
        None => Ok(Scores::new()),
        Some(entry) if entry.kind == Kind::Set => {
            let names = keyspace
                .element_names(&entry, None)
                .names(usize::MAX, &call.held)
                .await?;
            let names = names.into_iter();
            Ok(names.map(|it| (it, weighted(1.0))).collect())
        }
        Some(entry) if entry.kind == Kind::SortedSet && !is_of_sets => {
            let members = keyspace.by_score(&entry, &[], None, false);
            let members = members.take(0, usize::MAX, &call.held).await?.into_iter();
            Ok(members
                .map(|(score, name)| (name, weighted(score)))
                .collect())
        }
        Some(_) => Err(Failure::WRONG_TYPE),
    }
}

async fn answer(call: &mut Call<'_>, how: How) -> Done {
    let request = Request::parse(call, 1, how)?;
    let members = request.combine(call, how).await?;
    reply(call, &members, request.with_scores);
    Ok(())
}

async fn store(call: &mut Call<'_>, how: How) -> Done {
    let request = Request::parse(call, 2, how)?;
    let members = request.combine(call, how).await?;
    let mut edit = call
        .keyspace()
        .replace(call.arg(1), Kind::SortedSet, call.now)
        .await?;
    for (score, member) in &members {
        edit.put(member, &score_bytes(*score)).await?;
    }
    edit.commit().await?;
    call.out.count(members.len());
    Ok(())
}

fn score_bytes(score: f64) -> [u8; 8] {
    let bytes = score.to_bits().to_le_bytes();
    debug_assert_eq!(score_of(&bytes).to_bits(), score.to_bits());
    bytes
}

pub(super) async fn zunion(call: &mut Call<'_>) -> Done {
    answer(call, How::Union).await
}

pub(super) async fn zinter(call: &mut Call<'_>) -> Done {
    answer(call, How::Intersection).await
}

pub(super) async fn zdiff(call: &mut Call<'_>) -> Done {
    answer(call, How::Difference).await
}

pub(super) async fn zunionstore(call: &mut Call<'_>) -> Done {
    store(call, How::Union).await
}

pub(super) async fn zinterstore(call: &mut Call<'_>) -> Done {
    store(call, How::Intersection).await
}

pub(super) async fn zdiffstore(call: &mut Call<'_>) -> Done {
    store(call, How::Difference).await
}

/// `ZINTERCARD` and `SINTERCARD`.
pub(super) async fn intercard(call: &mut Call<'_>) -> Done {
    let request = Request::parse(call, 1, How::Intersection)?;
    let members = request.combine(call, How::Intersection).await?;
    call.out.count(members.len().min(request.limit));
    Ok(())
}
