//! Looks at the server's memory, its store and its clients, and tells when they become too little
//! or fail.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use crate::shared::Shared;

/// How often.
const EVERY: Duration = Duration::from_millis(100);

/// Over how many of them the rate of commands is taken, as in Redis.
const SAMPLES: usize = 16;

/// How many commands there were, and when.
struct Rate(VecDeque<(Instant, u64)>);

impl Rate {
    /// Commands a second since the oldest sample. Fewer than before are those since a reset.
    fn sample(&mut self, now: Instant, commands: u64) -> u64 {
        if self.0.back().is_some_and(|it| it.1 > commands) {
            self.0.clear();
        }
        self.0.push_back((now, commands));
        if self.0.len() > SAMPLES {
            self.0.pop_front();
        }
        let Some(&(begun, before)) = self.0.front() else {
            return 0;
        };
        let seconds = now.duration_since(begun).as_secs_f64();
        match seconds > 0.0 {
            true => ((commands - before) as f64 / seconds).round() as u64,
            false => 0,
        }
    }
}

/// Looks at the server, for ever.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let (mut was_over, mut had_failed, mut was_timed) = (false, false, false);
    let mut rate = Rate(VecDeque::new());
    loop {
        let commands = shared.stats.counts().commands;
        let a_second = rate.sample(Instant::now(), commands);
        shared.stats.commands_a_second.store(a_second, Relaxed);
        shared.measure_memory();
        let is_timed = shared.config.timeout.load(Relaxed) > 0;
        if is_timed && !was_timed {
            // Until now, only their commands were noted.
            for client in shared.clients() {
                shared.note_activity(&client);
            }
        } else {
            shared.wake_idle_clients();
        }
        was_timed = is_timed;
        let is_over = shared.is_over_memory();
        if is_over != was_over {
            let resident = shared.resident.load(Relaxed);
            let limit = shared.config.memory.limit.load(Relaxed);
            match is_over {
                true => warn!(
                    resident,
                    limit, "memory is used up: commands that take memory are refused"
                ),
                false => info!(resident, limit, "there is memory again"),
            }
            was_over = is_over;
        }
        if !had_failed && let Some(reason) = shared.keyspace.store().failure() {
            error!(
                reason = reason.to_string(),
                "the store takes no more writes"
            );
            had_failed = true;
        }
        tokio::time::sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_last_samples_and_begins_anew_after_a_reset() {
        let (mut rate, begun) = (Rate(VecDeque::new()), Instant::now());
        assert_eq!(rate.sample(begun, 5), 0);
        for nth in 1..40 {
            let a_second = rate.sample(begun + nth * EVERY, 5 + u64::from(nth) * 10);
            assert_eq!(a_second, 100);
        }
        assert_eq!(rate.sample(begun + 40 * EVERY, 3), 0);
        assert_eq!(rate.sample(begun + 41 * EVERY, 23), 200);
    }
}
