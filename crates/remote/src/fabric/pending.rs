//! Operations that a memory server has not answered yet.

use std::time::Instant;

use super::Completer;
use super::wire::Asked;

/// An operation on its way.
pub struct Waiting {
    pub asked: Asked,
    pub completer: Completer,
    pub deadline: Instant,
}

/// All of them, by their numbers. A number is not used again after its operation has ended, so an
/// answer that comes too late is for nobody.
#[derive(Default)]
pub struct Pending {
    slots: Vec<(u32, Option<Waiting>)>,
    free: Vec<u32>,
}

impl Pending {
    /// Adds one. Returns its number.
    pub fn add(&mut self, waiting: Waiting) -> u64 {
        let number = self.next();
        let slot = number as u32 as usize;
        match self.free.pop() {
            Some(_) => self.slots[slot].1 = Some(waiting),
            None => self.slots.push((0, Some(waiting))),
        }
        number
    }

    /// The number that the next one gets.
    pub fn next(&self) -> u64 {
        let (slot, use_number) = match self.free.last() {
            Some(&slot) => (slot, self.slots[slot as usize].0),
            None => (self.slots.len() as u32, 0),
        };
        u64::from(use_number) << 32 | u64::from(slot)
    }

    /// Removes the operation of this number, if it still waits.
    pub fn take(&mut self, number: u64) -> Option<Waiting> {
        let slot = number as u32;
        let (use_number, place) = self.slots.get_mut(slot as usize)?;
        if u64::from(*use_number) != number >> 32 {
            return None;
        }
        let waiting = place.take()?;
        *use_number = use_number.wrapping_add(1);
        self.free.push(slot);
        Some(waiting)
    }

    /// How many there are.
    #[cfg(feature = "libfabric")]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Removes those whose deadline has passed.
    pub fn take_late(&mut self, now: Instant) -> Vec<Waiting> {
        self.take_if(|waiting| waiting.deadline <= now)
    }

    /// Removes all.
    pub fn take_all(&mut self) -> Vec<Waiting> {
        self.take_if(|_| true)
    }

    fn take_if(&mut self, goes: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let mut taken = Vec::new();
        for slot in 0..self.slots.len() {
            let (use_number, waiting) = &self.slots[slot];
            if waiting.as_ref().is_some_and(&goes) {
                let number = u64::from(*use_number) << 32 | slot as u64;
                taken.extend(self.take(number));
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Completion;
    use super::*;

    #[test]
    fn a_late_answer_is_for_nobody() {
        let now = Instant::now();
        let waiting = |words, seconds| Waiting {
            asked: Asked::Words(words),
            completer: Completion::pending().1,
            deadline: now + Duration::from_secs(seconds),
        };
        let mut pending = Pending::default();
        let first = pending.add(waiting(0, 1));
        let second = pending.add(waiting(1, 9));
        let late = pending.take_late(now + Duration::from_secs(1));
        assert_eq!(late.len(), 1);
        assert_eq!(late[0].asked, Asked::Words(0));
        let third = pending.add(waiting(2, 9));
        assert!(third != first && third as u32 == first as u32);
        assert!(pending.take(first).is_none());
        assert_eq!(pending.take(third).unwrap().asked, Asked::Words(2));
        assert!(pending.take(third).is_none() && pending.take(99).is_none());
        assert_eq!(pending.take_all().len(), 1);
        assert!(pending.take(second).is_none());
    }
}
