//! Lists that several clients append to, each by a write of version 2 with `cas`: the history of a
//! list is checked like a list-append history of the checker Elle.
//!
//! All lists that clients read must be beginnings of one list. Each acknowledged append is in the
//! list once, at the place of its version; a refused append is not; an append that was acknowledged
//! before another began stands before the other; and a read shows all appends that were
//! acknowledged [`LAG`] before the read. A list is one record, so that these rules are strict
//! serializability.

use super::journal::Outcome;
use super::{ChaosClient, LAG, WorkPlace};
use bulkhead_tests::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Number of lists that all clients append to.
const LISTS: usize = 2;

/// Length after which a list is not appended to again.
const LONGEST: usize = 60;

/// Effect of an append.
#[derive(Clone, Copy, Debug)]
enum AppendEffect {
    Done { version: usize, at: Instant },
    Refused,
    Unclear,
}

/// All that clients did to a list, and the longest list that a client read.
#[derive(Debug, Default)]
struct AppendHistory {
    longest: Vec<u64>,
    /// Begin and effect of each append, by element.
    appends: BTreeMap<u64, (Instant, AppendEffect)>,
}

impl AppendHistory {
    /// Compares a list from a read that began at `begin` with the earlier ones.
    fn observe(&mut self, list: &[u64], version: usize, begin: Instant) -> Result<(), String> {
        let common = list.len().min(self.longest.len());
        if list[..common] != self.longest[..common] {
            return Err(format!("two lists, {list:?} and {:?}", self.longest));
        }
        if version != list.len() {
            return Err(format!("version {version} has {} elements: {list:?}", list.len()));
        }
        for (element, (_, effect)) in &self.appends {
            let AppendEffect::Done { at, .. } = effect else { continue };
            if *at + LAG < begin && !list.contains(element) {
                return Err(format!("the acknowledged {element} is not in {list:?}"));
            }
        }
        if list.len() > common {
            self.longest = list.to_vec();
        }
        Ok(())
    }

    /// Returns the broken promises of the history with its last list.
    fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        // Latest begin of an append further ahead in the list.
        let mut latest: Option<(Instant, u64)> = None;
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for (index, element) in self.longest.iter().enumerate() {
            *counts.entry(*element).or_default() += 1;
            let Some((begin, effect)) = self.appends.get(element) else {
                found.push(format!("nobody appended {element}"));
                continue;
            };
            if let AppendEffect::Done { version, at } = effect {
                if *version != index + 1 {
                    found.push(format!("{element} of version {version} is at {}", index + 1));
                }
                let overtaken = latest.filter(|(begin, _)| at < begin);
                found.extend(
                    overtaken.map(|(_, other)| format!("{element} is behind the later {other}")),
                );
            } else if matches!(effect, AppendEffect::Refused) {
                found.push(format!("I11: the refused {element} is in the list"));
            }
            if latest.is_none_or(|(other, _)| *begin > other) {
                latest = Some((*begin, *element));
            }
        }
        let twice = counts.iter().filter(|(_, count)| **count > 1);
        found.extend(twice.map(|(element, _)| format!("{element} is in the list twice")));
        let is_done = |effect: &AppendEffect| matches!(effect, AppendEffect::Done { .. });
        let lost = self
            .appends
            .iter()
            .filter(|(element, (_, effect))| is_done(effect) && !counts.contains_key(element));
        found.extend(lost.map(|(element, _)| format!("I1: the acknowledged {element} is lost")));
        found
    }
}

/// The lists of all clients, by name.
#[derive(Default)]
pub struct AppendLists(Mutex<AppendState>);

#[derive(Default)]
struct AppendState {
    histories: BTreeMap<String, AppendHistory>,
    /// The last element that a client appended.
    last: u64,
    /// Number of lists that were finished before, for each list in use.
    finished: [usize; LISTS],
}

impl AppendLists {
    fn lock(&self) -> MutexGuard<'_, AppendState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of a list in use, and a new list's name if the list is long.
    fn name(&self, index: usize) -> String {
        let mut state = self.lock();
        let name = |count| format!("secret/data/list-{index}-{count}");
        let current = name(state.finished[index]);
        let is_long = |history: &AppendHistory| history.longest.len() >= LONGEST;
        if state.histories.get(&current).is_some_and(is_long) {
            state.finished[index] += 1;
        }
        name(state.finished[index])
    }

    /// Records that an append begins, and returns the element.
    fn begin(&self, name: &str) -> u64 {
        let mut state = self.lock();
        state.last += 1;
        let element = state.last;
        let history = state.histories.entry(name.to_owned()).or_default();
        history.appends.insert(element, (Instant::now(), AppendEffect::Unclear));
        element
    }

    fn end(&self, name: &str, element: u64, effect: AppendEffect) {
        let mut state = self.lock();
        let append = state.histories.get_mut(name).and_then(|one| one.appends.get_mut(&element));
        append.expect("the append began").1 = effect;
    }
}

/// A client that reads and appends.
pub struct AppendClient<'a>(&'a AppendLists);

impl<'a> AppendClient<'a> {
    pub fn of(lists: &'a AppendLists) -> Self {
        Self(lists)
    }

    /// Reads a list, and compares the list with the history. Returns the list, if the node
    /// answered.
    fn read(&self, name: &str, root: &Client, place: &WorkPlace<'_>) -> Option<Vec<u64>> {
        let begin = Instant::now();
        let request = ("GET", name, Value::Null);
        let (list, version) = match place.journal.send("appends", root, request) {
            Outcome::Done(answer) => {
                let list = answer.body["data"]["data"]["list"].as_array().cloned();
                let list = list.unwrap_or_default().iter().filter_map(Value::as_u64).collect();
                let version = answer.body["data"]["metadata"]["version"].as_u64();
                (list, usize::try_from(version.unwrap_or_default()).expect("a version"))
            }
            Outcome::Refused(answer) if answer.status == 404 => (Vec::new(), 0),
            Outcome::Refused(answer) if answer.status == 503 => return None,
            Outcome::Unclear(_) => return None,
            Outcome::Refused(answer) => {
                place.journal.broken(format!("a read of {name}: {answer:?}"));
                return None;
            }
        };
        let mut state = self.0.lock();
        let history = state.histories.entry(name.to_owned()).or_default();
        if let Err(problem) = history.observe(&list, version, begin) {
            let begin = place.journal.seconds(begin);
            place.journal.broken(format!("I1: {name} at {begin:.3}: {problem}"));
        }
        Some(list)
    }

    fn append(&self, name: &str, mut list: Vec<u64>, place: &mut WorkPlace<'_>) {
        let version = list.len();
        let element = self.0.begin(name);
        list.push(element);
        let body = json!({ "options": { "cas": version }, "data": { "list": list } });
        let effect = match place.send("appends", ("POST", name, body)) {
            Outcome::Done(answer) => {
                let version = answer.body["data"]["version"].as_u64().unwrap_or_default();
                let version = usize::try_from(version).expect("a version");
                AppendEffect::Done { version, at: Instant::now() }
            }
            Outcome::Refused(answer) => {
                let is_expected = [400, 503].contains(&answer.status);
                place.journal.require(is_expected, || format!("an append: {answer:?}"));
                AppendEffect::Refused
            }
            Outcome::Unclear(_) => AppendEffect::Unclear,
        };
        self.0.end(name, element, effect);
    }
}

impl ChaosClient for AppendClient<'_> {
    fn step(&mut self, place: &mut WorkPlace<'_>) {
        let name = self.0.name(place.random.below(LISTS));
        let root = place.root();
        if let Some(list) = self.read(&name, &root, place) {
            self.append(&name, list, place);
        }
    }

    fn finish(&mut self, place: &mut WorkPlace<'_>) {
        let names: Vec<String> = self.0.lock().histories.keys().cloned().collect();
        for name in names {
            for root in place.roots() {
                self.read(&name, &root, place);
            }
            let state = self.0.lock();
            let history = &state.histories[&name];
            for problem in history.problems() {
                place.journal.broken(format!("{name}: {problem}; {:?}", history.longest));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn done(version: usize, at: Instant) -> AppendEffect {
        AppendEffect::Done { version, at }
    }

    /// Returns a history whose appends begin a second apart, and end after half a second.
    fn history(list: &[u64], effects: &[AppendEffect]) -> AppendHistory {
        let begin = Instant::now();
        let at = |number: u64| begin + Duration::from_secs(number);
        let half = Duration::from_millis(500);
        let appends = (1..).zip(effects).map(|(element, effect)| {
            let effect = match effect {
                AppendEffect::Done { version, .. } => done(*version, at(element) + half),
                effect => *effect,
            };
            (element, (at(element), effect))
        });
        AppendHistory { longest: list.to_vec(), appends: appends.collect() }
    }

    #[test]
    fn history_with_lost_or_refused_append_fails() {
        let now = Instant::now();
        let effects = [done(1, now), AppendEffect::Refused, AppendEffect::Unclear, done(2, now)];
        assert_eq!(history(&[1, 4], &effects).problems(), Vec::<String>::new());
        for (list, problem) in [
            (vec![1], "I1: the acknowledged 4 is lost"),
            (vec![1, 2, 4], "I11: the refused 2 is in the list"),
            (vec![1, 4, 4], "4 is in the list twice"),
            (vec![4, 1], "1 is behind the later 4"),
            (vec![1, 3, 4], "4 of version 2 is at 3"),
            (vec![1, 4, 9], "nobody appended 9"),
        ] {
            let found = history(&list, &effects).problems();
            assert!(found.iter().any(|text| text == problem), "{problem}: {found:?}");
        }
    }

    #[test]
    fn late_or_diverging_list_is_found() {
        let now = Instant::now();
        let mut history = history(&[], &[done(1, now), done(2, now)]);
        let later = now + Duration::from_secs(9);
        assert_eq!(history.observe(&[1], 1, now), Ok(()));
        assert_eq!(history.observe(&[1, 2], 2, later), Ok(()));
        assert_eq!(history.observe(&[], 0, now), Ok(()));
        history.observe(&[1], 1, later).expect_err("2 was acknowledged");
        history.observe(&[2, 1], 2, later).expect_err("another order");
        history.observe(&[1, 2], 3, later).expect_err("another version");
    }
}
