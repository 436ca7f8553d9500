//! Key values of version 1, each with one writer: an acknowledged value is never lost, and a node
//! answers with an earlier value for [`LAG`] at most.
//!
//! A write without an answer may take effect at any later time, so that its value stays possible. A
//! key with several such values proves little, and the writer continues with a new key.

use super::journal::Outcome;
use super::{ChaosClient, LAG, WorkPlace};
use serde_json::json;
use std::time::Instant;

/// Number of keys that a writer alternates between.
const KEYS: usize = 4;

/// Number of writes without an answer after which a key is not written again.
const MOST_UNCLEAR: usize = 3;

/// Effect of a write.
#[derive(Clone, Copy, Debug)]
enum WriteEffect {
    /// Acknowledged at this time.
    Done(Instant),
    Refused,
    Unclear,
}

/// All writes of a key, in the order of their requests. The values are 1, 2, 3 and so on.
#[derive(Debug, Default)]
struct RegisterHistory {
    path: String,
    writes: Vec<WriteEffect>,
}

impl RegisterHistory {
    /// Returns true if a read that began at `begin` may have this value. `None`: no value.
    fn admits(&self, seen: Option<u64>, begin: Instant) -> bool {
        let is_required =
            |effect: &WriteEffect| matches!(effect, WriteEffect::Done(at) if *at + LAG < begin);
        let required = self.writes.iter().rposition(is_required);
        let Some(seen) = seen else { return required.is_none() };
        let Some(index) = usize::try_from(seen).ok().and_then(|seen| seen.checked_sub(1)) else {
            return false;
        };
        match self.writes.get(index) {
            None | Some(WriteEffect::Refused) => false,
            Some(WriteEffect::Unclear) => true,
            Some(WriteEffect::Done(_)) => required.is_none_or(|required| required <= index),
        }
    }

    fn count_unclear(&self) -> usize {
        self.writes.iter().filter(|effect| matches!(effect, WriteEffect::Unclear)).count()
    }
}

/// A client that writes and reads its own keys.
pub struct RegisterClient {
    name: &'static str,
    /// The first [`KEYS`] are in use.
    keys: Vec<RegisterHistory>,
    retired: Vec<RegisterHistory>,
    /// Number of keys that were ever in use.
    count: usize,
}

impl RegisterClient {
    pub fn of(name: &'static str) -> Self {
        let mut client = Self { name, keys: Vec::new(), retired: Vec::new(), count: 0 };
        client.keys = (0..KEYS).map(|_| client.new_key()).collect();
        client
    }

    fn new_key(&mut self) -> RegisterHistory {
        self.count += 1;
        let path = format!("kv/{}-{}", self.name, self.count);
        RegisterHistory { path, writes: Vec::new() }
    }

    fn write(&mut self, index: usize, place: &mut WorkPlace<'_>) {
        let key = &mut self.keys[index];
        let value = key.writes.len() + 1;
        let request = ("POST", key.path.as_str(), json!({ "value": value }));
        key.writes.push(match place.send("registers", request) {
            Outcome::Done(_) => WriteEffect::Done(Instant::now()),
            Outcome::Refused(answer) => {
                let is_expected = answer.status == 503;
                place.journal.require(is_expected, || format!("a write of kv: {answer:?}"));
                WriteEffect::Refused
            }
            Outcome::Unclear(_) => WriteEffect::Unclear,
        });
        if key.count_unclear() >= MOST_UNCLEAR {
            let fresh = self.new_key();
            self.retired.push(std::mem::replace(&mut self.keys[index], fresh));
        }
    }
}

/// Reads the key on each of these nodes.
fn check(key: &RegisterHistory, nodes: usize, place: &mut WorkPlace<'_>) {
    for root in place.roots().iter().take(nodes) {
        let begin = Instant::now();
        let outcome = place.journal.send("registers", root, ("GET", &key.path, json!(null)));
        let seen = match (&outcome, outcome.status()) {
            (Outcome::Done(answer), _) => answer.body["data"]["value"].as_u64(),
            (_, Some(404)) => None,
            (_, Some(503) | None) => continue,
            _ => {
                place.journal.broken(format!("a read of {}: {outcome:?}", key.path));
                continue;
            }
        };
        place.journal.require(key.admits(seen, begin), || {
            let times = key.writes.iter().map(|effect| match effect {
                WriteEffect::Done(at) => format!("{:.3}", place.journal.seconds(*at)),
                effect => format!("{effect:?}"),
            });
            let writes: Vec<_> = times.collect();
            let begin = place.journal.seconds(begin);
            format!("I1: {} is {seen:?} at {begin:.3}; writes: {writes:?}", key.path)
        });
    }
}

impl ChaosClient for RegisterClient {
    fn step(&mut self, place: &mut WorkPlace<'_>) {
        let index = place.random.below(KEYS);
        if place.is_once_in(2) {
            self.write(index, place);
        } else {
            check(&self.keys[index], 1, place);
        }
    }

    fn finish(&mut self, place: &mut WorkPlace<'_>) {
        for key in self.keys.iter().chain(&self.retired) {
            check(key, usize::MAX, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn overwritten_and_refused_values_are_not_admitted() {
        let begin = Instant::now();
        let after = |milliseconds| begin + Duration::from_millis(milliseconds);
        let writes = vec![
            WriteEffect::Done(after(10)),
            WriteEffect::Unclear,
            WriteEffect::Refused,
            WriteEffect::Done(after(1_000)),
        ];
        let key = RegisterHistory { writes, ..RegisterHistory::default() };
        let admitted = |at| {
            let values = [None, Some(1), Some(2), Some(3), Some(4), Some(5)];
            values.map(|seen| key.admits(seen, after(at)))
        };
        assert_eq!(admitted(0), [true, true, true, false, true, false]);
        assert_eq!(admitted(500), [false, true, true, false, true, false]);
        assert_eq!(admitted(1_300), [false, true, true, false, true, false]);
        assert_eq!(admitted(1_500), [false, false, true, false, true, false]);
    }
}
