//! Ranges of sorted sets: by rank, by score, and by the bytes of members.

use super::{Call, Failure, number};
use crate::keyspace::{Elements, Entry, score_of, sortable};
use crate::resp::integer;

/// More bytes than a member has.
const LONGER: usize = 1 << 16;

/// What a range's ends are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Lex,
}

/// A range, parsed.
enum Range {
    Rank(i64, i64),
    /// From this key of the order of scores on, up to that one.
    Score([u8; 8], [u8; 8]),
    Lex(Lexical),
}

/// A request for a range of a sorted set.
pub(super) struct Request {
    range: Range,
    reverse: bool,
    offset: usize,
    count: usize,
    pub with_scores: bool,
}

/// A range of members by their bytes: from this name on, and below that one.
#[derive(Debug, PartialEq)]
pub(super) struct Lexical {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
}

impl Lexical {
    /// The members of a sorted set in it.
    pub fn names<'a>(&self, call: &Call<'a>, entry: &Entry, backwards: bool) -> Elements<'a> {
        let to = self.to.as_deref();
        let keyspace = call.keyspace();
        keyspace.names_between(entry, &self.from, to, backwards)
    }
}

/// A range of members by their bytes, from its ends as they are written.
pub(super) fn lexical(low: &[u8], high: &[u8]) -> Result<Lexical, Failure> {
    let (Some(from), Some(to)) = (lexical_end(low, false), lexical_end(high, true)) else {
        let invalid = "ERR min or max not valid string range item";
        return Err(Failure::fixed(invalid));
    };
    let from = from.unwrap_or_default();
    // From the end, or to the start: nothing.
    let to = match low == b"+" || high == b"-" {
        true => Some(from.clone()),
        false => to.map(|to| to.max(from.clone())),
    };
    Ok(Lexical { from, to })
}

/// The first name behind an end of a range; none if no name is outside of it.
fn lexical_end(text: &[u8], is_high: bool) -> Option<Option<Vec<u8>>> {
    let (name, excluded) = match text {
        b"-" | b"+" => return Some(None),
        [b'[', rest @ ..] => (rest, false),
        [b'(', rest @ ..] => (rest, true),
        _ => return None,
    };
    // To a member, none of which is as long, a longer name is as good as all of it.
    let mut name = name[..name.len().min(LONGER)].to_vec();
    if is_high != excluded {
        name.push(0);
    }
    Some(Some(name))
}

/// A range of scores, from its ends as they are written, as keys of their order.
pub(super) fn scored(low: &[u8], high: &[u8]) -> Result<([u8; 8], [u8; 8]), Failure> {
    let end = |text: &[u8], is_high: bool| {
        let (text, excluded) = match text {
            [b'(', rest @ ..] => (rest, true),
            _ => (text, false),
        };
        let score = match text {
            // C's `strtod` makes it of nothing.
            [] => 0.0,
            _ => number::float(text)?,
        };
        // What lies behind all members of this score, if that is the range's end.
        let behind = u64::from(is_high != excluded);
        Some((u64::from_be_bytes(sortable(score)) + behind).to_be_bytes())
    };
    match (end(low, false), end(high, true)) {
        (Some(low), Some(high)) => Ok((low, high)),
        _ => Err(Failure::fixed("ERR min or max is not a float")),
    }
}

impl Request {
    /// Parses a range whose ends are at this argument and the next one. Where the command's name
    /// says by what the range is, options don't.
    pub fn parse(
        call: &Call,
        at: usize,
        by: Option<By>,
        reverse: bool,
    ) -> Result<Request, Failure> {
        let is_general = by.is_none();
        let (mut by, mut reverse, mut limit, mut with_scores) = (by, reverse, None, false);
        let mut option = at + 2;
        while option < call.args.len() {
            let more = call.args.len() - 1 - option;
            if call.is(option, "withscores") {
                with_scores = true;
            } else if call.is(option, "limit") && more >= 2 {
                limit = Some((call.integer(option + 1)?, call.integer(option + 2)?));
                option += 2;
            } else if by.is_none() && call.is(option, "byscore") {
                by = Some(By::Score);
            } else if by.is_none() && call.is(option, "bylex") {
                by = Some(By::Lex);
            } else if is_general && !reverse && call.is(option, "rev") {
                reverse = true;
            } else {
                return Err(Failure::SYNTAX);
            }
            option += 1;
        }
        let by = by.unwrap_or(By::Rank);
        // As in Redis, which takes this count for no limit, whatever the offset.
        if limit.is_some_and(|it| it.1 != -1) && by == By::Rank {
            return Err(Failure::fixed(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX",
            ));
        }
        if with_scores && by == By::Lex {
            return Err(Failure::fixed(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (first, second) = (call.arg(at), call.arg(at + 1));
        let (low, high) = if reverse {
            (second, first)
        } else {
            (first, second)
        };
        let range = match by {
            By::Rank => {
                let ranks = (integer(first), integer(second));
                let (Some(start), Some(end)) = ranks else {
                    return Err(Failure::NOT_INTEGER);
                };
                Range::Rank(start, end)
            }
            By::Score => {
                let (low, high) = scored(low, high)?;
                Range::Score(low, high)
            }
            By::Lex => Range::Lex(lexical(low, high)?),
        };
        let (offset, count) = limit.unwrap_or((0, -1));
        Ok(Request {
            range,
            reverse,
            offset: usize::try_from(offset).unwrap_or(usize::MAX),
            count: usize::try_from(count).unwrap_or(usize::MAX),
            with_scores,
        })
    }
}

/// The members of a range in the order that is asked for, with their scores.
pub(super) async fn fetch(
    call: &Call<'_>,
    entry: &Entry,
    request: &Request,
) -> Result<Vec<(f64, Vec<u8>)>, Failure> {
    let keyspace = call.keyspace();
    Ok(match &request.range {
        Range::Rank(start, end) => {
            let len = entry.elements() as i64;
            let absolute = |rank: i64| if rank < 0 { (len + rank).max(0) } else { rank };
            let last = if *end < 0 {
                len + end
            } else {
                (*end).min(len - 1)
            };
            let start = absolute(*start);
            let count = usize::try_from(last.saturating_sub(start).saturating_add(1)).unwrap_or(0);
            let members = keyspace.by_score(entry, &[], None, request.reverse);
            members.take(start as u64, count, &call.held).await?
        }
        Range::Score(low, high) => {
            let members = keyspace.by_score(entry, low, Some(high), request.reverse);
            let (behind, most) = (request.offset as u64, request.count);
            members.take(behind, most, &call.held).await?
        }
        Range::Lex(range) => {
            let mut all = range.names(call, entry, request.reverse);
            all.pass(request.offset as u64).await?;
            let names = all.names(request.count, &call.held).await?;
            let mut members = Vec::with_capacity(names.len());
            for name in names {
                if let Some(score) = keyspace.element(entry, &name).await? {
                    members.push((score_of(&score), name));
                }
            }
            members
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(low: &str, high: &str) -> (String, Option<String>) {
        let range = lexical(low.as_bytes(), high.as_bytes()).unwrap();
        let text = |name: Vec<u8>| String::from_utf8(name).unwrap();
        (text(range.from), range.to.map(text))
    }

    #[test]
    fn ranges_of_names_have_both_ends() {
        let to = |name: &str| Some(name.to_owned());
        assert_eq!(between("-", "+"), (String::new(), None));
        assert_eq!(between("[b", "[d"), ("b".into(), to("d\0")));
        assert_eq!(between("(b", "(d"), ("b\0".into(), to("d")));
        assert_eq!(between("(b", "+"), ("b\0".into(), None));
        // Nothing is in these.
        for (low, high) in [("[d", "[b"), ("(b", "(b"), ("+", "[b"), ("[b", "-")] {
            let (from, to) = between(low, high);
            assert_eq!(Some(from), to, "{low} {high}");
        }
        assert!(lexical(b"b", b"+").is_err() && lexical(b"-", b"").is_err());
        let long = [b"[", &[b'x'; 1 << 17][..]].concat();
        let range = lexical(&long, &long).unwrap();
        assert_eq!(
            (range.from.len(), range.to.unwrap().len()),
            (LONGER, LONGER + 1)
        );
    }
}
