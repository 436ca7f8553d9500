//! Which rule counts on a path: the closest, by decision H10.
//!
//! The attacks this file stops: listing a folder that is denied by its name, and reaching an object
//! by another path than the one that is denied. Every request asks here, so that it finds an exact
//! rule by its path, and holds a path against the patterns of its own first segment only.

use super::super::pattern::Pattern;
use super::super::spelling::{self, OtherPath};
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
    /// The denial of a templated path that cannot be resolved because of `why`, in each spelling.
    pub(super) fn of(path: &RulePath, why: &Unresolved) -> impl Iterator<Item = Self> {
        let always = matches!(why, Unresolved::Refused(_));
        let pattern = path.for_any_value(why);
        let respelt = spelling::respelt(&pattern);
        let patterns = std::iter::once(pattern).chain(respelt);
        patterns.map(move |pattern| Self { pattern, always, access: Access::denial() })
    }
}

/// The rules that count for one object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ruling<'a> {
    /// The access that grants; `None` where no rule speaks of the object.
    pub(super) access: Option<&'a Access>,
    /// What the rules say of another path of the object. It grants nothing, and what it forbids is
    /// forbidden.
    pub(super) other: Option<&'a Access>,
}

impl Ruling<'_> {
    /// Returns whether either path is denied.
    pub(super) fn denies(&self) -> bool {
        self.access.into_iter().chain(self.other).any(|access| access.denies)
    }
}

/// A rule that counts on a path.
#[derive(Clone, Copy)]
struct Counting<'a> {
    access: &'a Access,
    /// Its pattern, without a `*`.
    text: &'a str,
}

impl Counting<'_> {
    /// Returns whether the rule counts on an object's `other` path: as one for that path,
    /// or as a deny of the newer path.
    fn is_for(&self, other: &OtherPath) -> bool {
        self.text.starts_with(other.base) || (other.is_newer && self.access.denies)
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

    /// Finds the rules for the object at `path`.
    pub(super) fn ruling(&self, path: &str) -> Ruling<'_> {
        self.ruling_by(path, Self::counting)
    }

    /// Finds the rules for a listing of the object at `path`.
    pub(super) fn ruling_of_list(&self, path: &str) -> Ruling<'_> {
        self.ruling_by(path, Self::counting_for_list)
    }

    fn ruling_by<'a>(
        &'a self,
        path: &str,
        count: impl Fn(&'a Self, &str) -> Option<Counting<'a>>,
    ) -> Ruling<'a> {
        let path = spelling::fold(path);
        let own = count(self, &path);
        let Some(place) = spelling::other_path(&path) else {
            return Ruling { access: own.map(|own| own.access), other: None };
        };
        let other = count(self, &place.path).filter(|counting| counting.is_for(&place));
        let (access, other) =
            if place.decides && other.is_some() { (other, own) } else { (own, other) };
        Ruling {
            access: access.map(|counting| counting.access),
            other: other.map(|counting| counting.access),
        }
    }

    /// Finds the closest rule for `path`.
    fn counting(&self, path: &str) -> Option<Counting<'_>> {
        self.denied_besides(path).or_else(|| self.exact(path)).or_else(|| self.closest_rule(path))
    }

    /// A list speaks of the folder, `roles/`; rules that name it without its slash count where none
    /// names it with. A `deny` without the slash also counts where it is closer than what names the
    /// folder: `+` takes the name and not the folder, and what is denied by its name is not to be
    /// looked into either.
    fn counting_for_list(&self, path: &str) -> Option<Counting<'_>> {
        let folder = format!("{path}/");
        let denied = self.denied_besides(&folder).or_else(|| self.denied_besides(path));
        if denied.is_some() {
            return denied;
        }
        if let Some(exact) = self.exact(&folder).or_else(|| self.exact(path)) {
            return Some(exact);
        }
        let (by_folder, by_name) = (self.closest(&folder), self.closest(path));
        let found = match (by_folder, by_name) {
            (Some((rank, _)), Some((closer, named))) if closer < rank && named.denies => by_name,
            (None, _) => by_name,
            (Some(_), _) => by_folder,
        };
        found.and_then(|(rank, _)| self.ranked(rank))
    }

    fn exact(&self, path: &str) -> Option<Counting<'_>> {
        self.exact.get_key_value(path).map(|(text, access)| Counting { access, text })
    }

    fn closest_rule(&self, path: &str) -> Option<Counting<'_>> {
        self.closest(path).and_then(|(rank, _)| self.ranked(rank))
    }

    fn ranked(&self, rank: usize) -> Option<Counting<'_>> {
        self.ranked.get(rank).map(|(pattern, access)| Counting { access, text: pattern.body() })
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
    fn denied_besides<'a>(&'a self, path: &str) -> Option<Counting<'a>> {
        let counts = |denial: &&Denial| {
            denial.pattern.matches(path)
                && (denial.always || !self.has_closer(path, &denial.pattern.filled_by(path)))
        };
        let counting =
            |denial: &'a Denial| Counting { access: &denial.access, text: denial.pattern.body() };
        self.denials.iter().find(counts).map(counting)
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
