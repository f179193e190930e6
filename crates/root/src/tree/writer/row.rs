//! Parallel work with results taken in order.

use crate::error::{Error, Result};
use rayon::Yield;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Buffer for the result of one job, with the outcome once it is done.
struct Slot<S> {
    room: Mutex<(S, Option<Result<()>>)>,
    filled: Condvar,
}

impl<S> Slot<S> {
    /// Waits until the job is done; helps with other jobs meanwhile.
    fn wait(&self) -> Result<MutexGuard<'_, (S, Option<Result<()>>)>> {
        loop {
            if let Ok(room) = self.room.try_lock()
                && room.1.is_some()
            {
                return Ok(room);
            }
            if rayon::yield_now() != Some(Yield::Executed) {
                break;
            }
        }
        // All jobs have started. The lock is poisoned if a job panicked; the scope passes the panic on.
        let stopped = |_| Error::argument("writing stopped");
        let room = self.room.lock().map_err(|e| stopped(e.to_string()))?;
        self.filled.wait_while(room, |room| room.1.is_none()).map_err(|e| stopped(e.to_string()))
    }
}

/// Wakes the waiting thread, even if the job panics.
struct Wake<'a>(&'a Condvar);

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Runs `fill` on all `jobs` on the pool, at most `ahead` at a time, and passes each result to `take`, in order. The
/// buffers for results are reused.
pub fn in_order<J: Sync, S: Default + Send>(
    jobs: &[J],
    ahead: usize,
    fill: impl Fn(&J, &mut S) -> Result<()> + Sync,
    mut take: impl FnMut(&J, &mut S) -> Result<()> + Send,
) -> Result<()> {
    let ahead = ahead.clamp(1, jobs.len().max(1));
    let slot = |_| Slot { room: Mutex::new((S::default(), None)), filled: Condvar::new() };
    let slots: Vec<Slot<S>> = (0..ahead).map(slot).collect();
    let (slots, fill) = (&slots, &fill);
    // A slot serves every `ahead`-th job: the next one starts after the result of the one before was taken.
    let pairs = || jobs.iter().zip(slots.iter().cycle());
    rayon::scope_fifo(|scope| {
        let begin = |(job, slot)| {
            let (job, slot): (&J, &Slot<S>) = (job, slot);
            scope.spawn_fifo(move |_| {
                let _wake = Wake(&slot.filled);
                let Ok(mut room) = slot.room.lock() else { return };
                let result = fill(job, &mut room.0);
                room.1 = Some(result);
            });
        };
        let mut rest = pairs();
        rest.by_ref().take(ahead).for_each(begin);
        for (job, slot) in pairs() {
            let mut room = slot.wait()?;
            room.1.take().unwrap_or(Ok(()))?;
            take(job, &mut room.0)?;
            drop(room);
            rest.next().map(begin);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whoever_is_done_first() {
        let jobs: Vec<u64> = (0..200).collect();
        let mut seen = Vec::new();
        let fill = |job: &u64, room: &mut u64| {
            std::thread::sleep(std::time::Duration::from_micros(job * 7919 % 300));
            *room = job * job;
            Ok(())
        };
        in_order(&jobs, 4, fill, |job, room| {
            assert_eq!(*room, job * job);
            seen.push(*job);
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, jobs);
        in_order(&[], 4, fill, |_, _: &mut u64| unreachable!()).unwrap();
    }

    #[test]
    fn the_first_error_ends_it() {
        let jobs: Vec<u64> = (0..50).collect();
        let mut taken = 0;
        let fill = |job: &u64, (): &mut ()| if *job == 20 { Err(Error::argument("20")) } else { Ok(()) };
        let result = in_order(&jobs, 3, fill, |_, ()| {
            taken += 1;
            Ok(())
        });
        assert_eq!(result.unwrap_err().message(), "20");
        assert_eq!(taken, 20);
    }

    #[test]
    fn a_panic_is_passed_on() {
        let work = || in_order(&[1], 3, |_, (): &mut ()| panic!("no"), |_, ()| Ok(()));
        assert!(std::panic::catch_unwind(work).is_err());
    }
}
