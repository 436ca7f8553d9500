//! Which rule counts on a path: the closest, by decision H10.
//!
//! The attack this file stops: listing a folder that is denied by its name. Every request asks
//! here, so that it finds an exact rule by its path, and holds a path against the patterns of its
//! own first segment only.

use super::super::pattern::Pattern;
use super::super::template::{RulePath, Unresolved};
use super::access::{Access, Joined};
use std::collections::{BTreeMap, HashMap};

/// Rules by how they are found.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Those for one path, by that path.
    exact: HashMap<String, Access>,
    /// The others, from the closest to the loosest: the first that matches is the one that counts.
    /// Its place is its rank.
    ranked: Vec<(Pattern, Access)>,
    /// Ranks of the patterns with this first segment, ascending.
    by_first_segment: HashMap<String, Vec<usize>>,
    /// Ranks of the patterns whose first segment is, or holds, a wildcard, ascending.
    anywhere: Vec<usize>,
    /// What is denied besides; few callers have any.
    denials: Vec<Denial>,
}

/// A rule that denies, and cannot be resolved for the caller.
#[derive(Debug)]
pub(super) struct Denial {
    /// The paths that it may speak of.
    pattern: Pattern,
    /// It counts however close another rule is.
    always: bool,
    /// What those paths get.
    access: Access,
}

impl Denial {
    /// The denial of a templated path that cannot be resolved because of `why`.
    pub(super) fn of(path: &RulePath, why: &Unresolved) -> Self {
        let always = matches!(why, Unresolved::Refused(_));
        Self { pattern: path.for_any_value(why), always, access: Access::denial() }
    }
}

impl Rules {
    /// The rules that were joined by their patterns, and what is denied besides.
    pub(super) fn of(joined: BTreeMap<Pattern, Joined>, denials: Vec<Denial>) -> Self {
        let mut rules = Self { denials, ..Self::default() };
        for (pattern, joined) in joined.into_iter().rev() {
            let access = joined.finish();
            if pattern.is_exact() {
                rules.exact.insert(pattern.into_body(), access);
                continue;
            }
            let rank = rules.ranked.len();
            match pattern.first_segment() {
                Some(segment) => {
                    rules.by_first_segment.entry(segment.to_owned()).or_default().push(rank)
                }
                None => rules.anywhere.push(rank),
            }
            rules.ranked.push((pattern, access));
        }
        rules
    }

    /// How many patterns there are.
    pub(super) fn len(&self) -> usize {
        self.exact.len() + self.ranked.len() + self.denials.len()
    }

    /// What the closest rule says of `path`.
    pub(super) fn access_to(&self, path: &str) -> Option<&Access> {
        if let Some(denied) = self.denied_besides(path) {
            return Some(denied);
        }
        self.exact.get(path).or_else(|| self.closest(path).map(|(_, access)| access))
    }

    /// A list speaks of the folder, `roles/`; rules that name it without its slash count where none
    /// names it with. A `deny` without the slash also counts where it is closer than what names the
    /// folder: `+` takes the name and not the folder, and what is denied by its name is not to be
    /// looked into either.
    pub(super) fn access_to_list(&self, path: &str) -> Option<&Access> {
        let folder = format!("{path}/");
        let denied = self.denied_besides(&folder).or_else(|| self.denied_besides(path));
        if denied.is_some() {
            return denied;
        }
        if let Some(exact) = self.exact.get(&folder).or_else(|| self.exact.get(path)) {
            return Some(exact);
        }
        let (by_folder, by_name) = (self.closest(&folder), self.closest(path));
        let found = match (by_folder, by_name) {
            (Some((rank, _)), Some((closer, named))) if closer < rank && named.denies => by_name,
            (None, _) => by_name,
            (Some(_), _) => by_folder,
        };
        found.map(|(_, access)| access)
    }

    /// Does any rule allow something at `folder`, which ends in a slash, or below it? The closest
    /// pattern that covers all of the folder has the last word on what no closer one allows.
    pub(super) fn allow_below(&self, folder: &str) -> bool {
        let is_inside =
            |path: &str| path.starts_with(folder) || path == folder.trim_end_matches('/');
        if self.exact.iter().any(|(path, access)| is_inside(path) && access.allows()) {
            return true;
        }
        let last_word = self.ranked.iter().position(|(pattern, _)| pattern.covers(folder));
        let counting = last_word.map_or(usize::MAX, |position| position + 1);
        let mut counting = self.ranked.iter().take(counting);
        counting.any(|(pattern, access)| pattern.meets(folder) && access.allows())
    }

    /// What a rule that cannot be resolved says of the path. It counts as if the caller's value
    /// were the one that leads to this path, so that only a closer rule wins over it.
    fn denied_besides(&self, path: &str) -> Option<&Access> {
        let counts = |denial: &&Denial| {
            denial.pattern.matches(path)
                && (denial.always || !self.has_closer(path, &denial.pattern.filled_by(path)))
        };
        self.denials.iter().find(counts).map(|denial| &denial.access)
    }

    fn has_closer(&self, path: &str, than: &Pattern) -> bool {
        let closest = self.closest(path).and_then(|(rank, _)| self.ranked.get(rank));
        let is_closer = closest.is_some_and(|(pattern, _)| pattern > than);
        !than.is_exact() && (is_closer || self.exact.contains_key(path))
    }

    /// The closest pattern that matches, with its rank: 0 is the closest of all.
    fn closest(&self, path: &str) -> Option<(usize, &Access)> {
        let first_segment = path.split('/').next().unwrap_or_default();
        let here = self
            .by_first_segment
            .get(first_segment)
            .and_then(|ranks| self.first_match(ranks, path));
        let anywhere = self.first_match(&self.anywhere, path);
        match (here, anywhere) {
            (Some(here), Some(anywhere)) if anywhere.0 < here.0 => Some(anywhere),
            (here, anywhere) => here.or(anywhere),
        }
    }

    fn first_match(&self, ranks: &[usize], path: &str) -> Option<(usize, &Access)> {
        ranks.iter().find_map(|rank| {
            let (pattern, access) = self.ranked.get(*rank)?;
            pattern.matches(path).then_some((*rank, access))
        })
    }
}
