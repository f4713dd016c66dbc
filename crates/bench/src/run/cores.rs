//! The cores of a run, some of them set aside for workers.
//!
//! Workers that share cores with request threads take throughput from them; on a machine with free
//! cores they would not. A thread inherits the cores of the thread that started it: the main thread
//! keeps to the request threads' cores, and starts workers from the others.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores for request threads and, if set aside, for workers. Dropping it gives this thread all
/// cores back.
pub struct Cores {
    all: CpuSet,
    requests: CpuSet,
    workers: CpuSet,
}

impl Cores {
    /// Sets `aside` of this process's cores aside for workers, and keeps this thread, and those
    /// that it starts, to the others.
    ///
    /// # Errors
    /// One line: there are not as many cores, or the kernel refuses.
    pub fn set_aside(aside: usize) -> Result<Cores, String> {
        let refused = |error| format!("--worker-cores {aside}: the kernel refuses: {error}");
        let all = sched_getaffinity(None).map_err(refused)?;
        let usable: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|&cpu| all.is_set(cpu))
            .collect();
        let Some(requests) = usable.len().checked_sub(aside).filter(|&left| left > 0) else {
            return Err(format!(
                "--worker-cores {aside}: this process has {} cores, and request threads need one",
                usable.len()
            ));
        };
        let set = |cores: &[usize]| {
            let mut set = CpuSet::new();
            cores.iter().for_each(|&cpu| set.set(cpu));
            set
        };
        let (requests, workers) = usable.split_at(requests);
        let cores = Cores {
            all,
            requests: set(requests),
            workers: set(workers),
        };
        sched_setaffinity(None, &cores.requests).map_err(refused)?;
        Ok(cores)
    }

    /// Calls `start`, whose threads run on the workers' cores.
    pub fn start_workers<T>(&self, start: impl FnOnce() -> T) -> T {
        // It was possible when they were set aside; if it is no more, workers run beside requests.
        let _ = sched_setaffinity(None, &self.workers);
        let started = start();
        let _ = sched_setaffinity(None, &self.requests);
        started
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores() -> CpuSet {
        sched_getaffinity(None).unwrap()
    }

    #[test]
    fn workers_run_apart_from_requests() {
        let before = cores();
        let aside = Cores::set_aside(1);
        if before.count() == 1 {
            let line = aside.err().unwrap();
            assert!(line.contains("has 1 cores") && !line.contains('\n'));
            return;
        }
        let aside = aside.unwrap();
        let request = std::thread::scope(|scope| scope.spawn(cores).join().unwrap());
        let worker = aside.start_workers(|| std::thread::spawn(cores).join().unwrap());
        assert_eq!(worker.count(), 1);
        assert_eq!(request.count(), before.count() - 1);
        assert!((0..CpuSet::MAX_CPU).all(|cpu| !(worker.is_set(cpu) && request.is_set(cpu))));
        drop(aside);
        assert_eq!(cores(), before);
    }

    #[test]
    fn request_threads_keep_a_core() {
        let line = Cores::set_aside(CpuSet::MAX_CPU).err().unwrap();
        assert!(
            line.starts_with("--worker-cores") && !line.contains('\n'),
            "{line}"
        );
    }
}
