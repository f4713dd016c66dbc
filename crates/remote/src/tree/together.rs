//! Many operations under way at a time.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::error::Result;

/// How many.
const AT_A_TIME: usize = 64;

/// Does something with each item. After an error nothing more is begun, and what is under way ends
/// before this does.
///
/// # Errors
/// The first.
pub(super) async fn together<T, W>(
    mut items: impl Iterator<Item = T>,
    work: impl Fn(T) -> W,
) -> Result<()>
where
    W: Future<Output = Result<()>>,
{
    let mut under_way = FuturesUnordered::new();
    let mut result = Ok(());
    loop {
        while result.is_ok() && under_way.len() < AT_A_TIME {
            let Some(item) = items.next() else { break };
            under_way.push(work(item));
        }
        match under_way.next().await {
            Some(ended) => result = result.and(ended),
            None => return result,
        }
    }
}
