//! Jobs that run at the same time.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;

/// How many. CI has two cores.
const AT_A_TIME: usize = 2;

/// Calls `each` with every item; they begin in order.
pub fn for_each<T: Send>(items: Vec<T>, each: impl Fn(T) + Sync) {
    let left = Mutex::new(VecDeque::from(items));
    let next = || left.lock().expect("no panic").pop_front();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(item) = next() {
                    each(item);
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_has_its_turn_once() {
        let seen = Mutex::new(Vec::new());
        for_each((0..100).collect(), |item| seen.lock().unwrap().push(item));
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..100));
    }
}
