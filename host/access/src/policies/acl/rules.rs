//! Selection of the rule that applies to a path: the closest rule, by decision H10.
//!
//! This file prevents two attacks: listing a folder whose name is denied, and reaching a denied
//! object by another path of the same object. Every request selects a rule, so the lookup is fast:
//! exact rules are found by hash, and a path is compared only with the patterns of its own first
//! segment and with patterns that begin with a wildcard.

use super::super::pattern::PathPattern;
use super::super::spelling::{self, OtherPath};
use super::super::template::{RulePath, UnresolvedReason};
use super::access::{AccessBuilder, CombinedAccess};
use std::collections::{BTreeMap, HashMap};

/// Rules, indexed for the lookup by path.
#[derive(Debug, Default)]
pub(super) struct RuleIndex {
    /// Rules for a single path, by path.
    exact: HashMap<String, CombinedAccess>,
    /// Rules with wildcards, from the closest to the loosest: the first matching rule applies. The
    /// index of a rule is its rank.
    ranked: Vec<(PathPattern, CombinedAccess)>,
    /// Ranks of the patterns with this first segment, ascending.
    by_first_segment: HashMap<String, Vec<usize>>,
    /// Ranks of the patterns with a wildcard in the first segment, ascending.
    anywhere: Vec<usize>,
    /// Denials whose path cannot be resolved; few callers have any.
    denials: Vec<UnresolvedDenial>,
}

/// A `deny` rule whose path cannot be resolved for the caller.
#[derive(Debug)]
pub(super) struct UnresolvedDenial {
    /// The paths that the rule may deny.
    pattern: PathPattern,
    /// True if the denial applies even where another rule is closer.
    always: bool,
    /// The denying access for these paths.
    access: CombinedAccess,
}

impl UnresolvedDenial {
    /// Returns the denials of a templated path that cannot be resolved because of `why`: one for
    /// each spelling of the path.
    pub(super) fn of(path: &RulePath, why: &UnresolvedReason) -> impl Iterator<Item = Self> {
        let always = matches!(why, UnresolvedReason::Refused(_));
        let pattern = path.for_any_value(why);
        let respelt = spelling::respell_pattern(&pattern);
        let patterns = std::iter::once(pattern).chain(respelt);
        patterns.map(move |pattern| Self { pattern, always, access: CombinedAccess::deny_all() })
    }
}

/// The rules that apply to an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ApplicableRules<'a> {
    /// The access that grants; `None` if no rule applies to the object.
    pub(super) access: Option<&'a CombinedAccess>,
    /// The access of another path of the same object. This access grants nothing; its restrictions
    /// and denials apply.
    pub(super) other: Option<&'a CombinedAccess>,
}

impl ApplicableRules<'_> {
    /// Returns true if either path is denied.
    pub(super) fn denies(&self) -> bool {
        self.access.into_iter().chain(self.other).any(|access| access.denies)
    }
}

/// A rule that applies to a path.
#[derive(Clone, Copy)]
struct MatchedRule<'a> {
    access: &'a CombinedAccess,
    /// The rule's pattern, without the `*` at the end.
    text: &'a str,
}

impl MatchedRule<'_> {
    /// Returns true if the rule applies to an object's `other` path: as a rule written for that
    /// path, or as a deny of the newer path.
    fn is_for(&self, other: &OtherPath) -> bool {
        self.text.starts_with(other.base) || (other.is_newer && self.access.denies)
    }
}

impl RuleIndex {
    /// Indexes the joined rules and the unresolved denials.
    pub(super) fn of(
        joined: BTreeMap<PathPattern, AccessBuilder>,
        denials: Vec<UnresolvedDenial>,
    ) -> Self {
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

    /// Returns the number of patterns.
    pub(super) fn len(&self) -> usize {
        self.exact.len() + self.ranked.len() + self.denials.len()
    }

    /// Returns the paths without wildcards, each with its access.
    pub(super) fn exact_paths(&self) -> impl Iterator<Item = (&str, &CombinedAccess)> {
        self.exact.iter().map(|(path, access)| (path.as_str(), access))
    }

    /// Returns the patterns with wildcards, without the `*` at the end, each with its access.
    pub(super) fn patterns(&self) -> impl Iterator<Item = (&str, &CombinedAccess)> {
        self.ranked.iter().map(|(pattern, access)| (pattern.body(), access))
    }

    /// Finds the rules for the object at `path`.
    pub(super) fn find_applicable(&self, path: &str) -> ApplicableRules<'_> {
        self.ruling_by(path, Self::find_closest_rule)
    }

    /// Finds the rules for a listing of the object at `path`.
    pub(super) fn ruling_of_list(&self, path: &str) -> ApplicableRules<'_> {
        self.ruling_by(path, Self::counting_for_list)
    }

    fn ruling_by<'a>(
        &'a self,
        path: &str,
        count: impl Fn(&'a Self, &str) -> Option<MatchedRule<'a>>,
    ) -> ApplicableRules<'a> {
        let path = spelling::fold(path);
        let own = count(self, &path);
        let Some(place) = spelling::other_path(&path) else {
            return ApplicableRules { access: own.map(|own| own.access), other: None };
        };
        let other = count(self, &place.path).filter(|counting| counting.is_for(&place));
        let (access, other) =
            if place.decides && other.is_some() { (other, own) } else { (own, other) };
        ApplicableRules {
            access: access.map(|counting| counting.access),
            other: other.map(|counting| counting.access),
        }
    }

    /// Finds the closest rule for `path`.
    fn find_closest_rule(&self, path: &str) -> Option<MatchedRule<'_>> {
        self.denied_besides(path).or_else(|| self.exact(path)).or_else(|| self.closest_rule(path))
    }

    /// Finds the rule for a listing of `path`, which is the folder `roles/`. Rules that name the
    /// folder without its slash apply if no rule matches with the slash.
    ///
    /// A `deny` without the slash also applies where it is closer than the rule for the folder: a
    /// pattern such as `+` may match the name but not the folder, and a folder whose name is denied
    /// must not be listed.
    fn counting_for_list(&self, path: &str) -> Option<MatchedRule<'_>> {
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
        found.and_then(|(rank, _)| self.rule_at(rank))
    }

    fn exact(&self, path: &str) -> Option<MatchedRule<'_>> {
        self.exact.get_key_value(path).map(|(text, access)| MatchedRule { access, text })
    }

    fn closest_rule(&self, path: &str) -> Option<MatchedRule<'_>> {
        self.closest(path).and_then(|(rank, _)| self.rule_at(rank))
    }

    fn rule_at(&self, rank: usize) -> Option<MatchedRule<'_>> {
        self.ranked.get(rank).map(|(pattern, access)| MatchedRule { access, text: pattern.body() })
    }

    /// Returns true if any rule allows something at `folder`, which ends in a slash, or below.
    /// Patterns looser than the closest pattern that covers the whole folder are ignored.
    pub(super) fn allow_below(&self, folder: &str) -> bool {
        let is_inside =
            |path: &str| path.starts_with(folder) || path == folder.trim_end_matches('/');
        if self.exact.iter().any(|(path, access)| is_inside(path) && access.allows()) {
            return true;
        }
        let last_word =
            self.ranked.iter().position(|(pattern, _)| pattern.matches_all_below(folder));
        let counting = last_word.map_or(usize::MAX, |position| position + 1);
        let mut counting = self.ranked.iter().take(counting);
        counting.any(|(pattern, access)| pattern.may_match_below(folder) && access.allows())
    }

    /// Returns the unresolved denial that applies to `path`. The denial is ranked as if the
    /// caller's value produced exactly this path, so that only a closer rule overrides the denial.
    fn denied_besides<'a>(&'a self, path: &str) -> Option<MatchedRule<'a>> {
        let counts = |denial: &&UnresolvedDenial| {
            denial.pattern.matches(path)
                && (denial.always || !self.has_closer(path, &denial.pattern.filled_by(path)))
        };
        let counting = |denial: &'a UnresolvedDenial| MatchedRule {
            access: &denial.access,
            text: denial.pattern.body(),
        };
        self.denials.iter().find(counts).map(counting)
    }

    fn has_closer(&self, path: &str, than: &PathPattern) -> bool {
        let closest = self.closest(path).and_then(|(rank, _)| self.ranked.get(rank));
        let is_closer = closest.is_some_and(|(pattern, _)| pattern > than);
        !than.is_exact() && (is_closer || self.exact.contains_key(path))
    }

    /// Finds the closest matching pattern, with its rank (0 is the closest of all).
    fn closest(&self, path: &str) -> Option<(usize, &CombinedAccess)> {
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

    fn first_match(&self, ranks: &[usize], path: &str) -> Option<(usize, &CombinedAccess)> {
        ranks.iter().find_map(|rank| {
            let (pattern, access) = self.ranked.get(*rank)?;
            pattern.matches(path).then_some((*rank, access))
        })
    }
}
