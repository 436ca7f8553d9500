//! Parameter restrictions of a rule: required, allowed and denied parameters and their values.
//!
//! This file prevents four attacks: setting a parameter under a second name that the policy does
//! not use (see `parameters.rs`; everything in the request is checked), sending a required
//! parameter in a spelling that the endpoint ignores, sending a value in another form (see
//! `comparison.rs`), and occupying a processor with a request that takes long to compare with a
//! rule.

use super::comparison::{PolicyValue, comparison_cost, holds_any, holds_only};
use super::parameters::{SentParameter, canonical, counts_as, deferring_value};
use bulkhead_wire::description::Field;
use bulkhead_wire::failure::quoted;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of value comparisons for a request (sent values times listed values), about 20
/// milliseconds of work.
const MOST_COMPARISONS: u64 = 1 << 17;

/// Values by lower-case parameter name; an empty list means any value.
pub type ParameterLists = BTreeMap<String, Vec<Value>>;

/// The parameter restrictions of a rule, or of several merged rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParameterConstraints {
    /// If not empty, only these parameters may be given. The name `*` stands for every parameter
    /// that is not named.
    pub allowed: ParameterLists,
    /// Parameters that may not be given. The name `*` stands for every parameter.
    pub denied: ParameterLists,
    /// Lower-case names of parameters that must be given.
    pub required: BTreeSet<String>,
}

impl ParameterConstraints {
    /// Merges the restrictions of another rule for the same pattern. Every name of either rule
    /// counts.
    pub(super) fn merge(&mut self, other: &Self) {
        merge_lists(&mut self.allowed, &other.allowed);
        merge_lists(&mut self.denied, &other.denied);
        self.required.extend(other.required.iter().cloned());
    }

    /// Checks that `fields` may be given on a route with this `schema`.
    ///
    /// # Errors
    /// The end of the sentence "this token may not update x …". The text shows names, never values.
    pub(super) fn check(
        &self,
        fields: &Map<String, Value>,
        schema: &[Field],
    ) -> Result<(), String> {
        if self.are_none() {
            return Ok(());
        }
        let parameters = SentParameter::all(fields, schema);
        let every: Vec<&SentParameter<'_>> =
            parameters.iter().flat_map(SentParameter::flatten_settings).collect();
        let is_given = |name: &str| every.iter().any(|one| one.is_read && one.name == name);
        if let Some(name) = self.required.iter().find(|name| !is_given(&canonical(name, schema))) {
            return Err(format!("without parameter {}, which the policy requires", quoted(name)));
        }
        if self.denied.contains_key("*") && !parameters.is_empty() {
            return Err("with any parameter".to_owned());
        }
        let denied = denied_by_field(&self.denied, schema);
        let allowed = AllowedParameters { lists: by_field(&self.allowed, schema), schema };
        check_effort([&denied, &allowed.lists], &every)?;
        check_denied(&denied, &every)?;
        if self.allowed.is_empty() {
            return Ok(());
        }
        parameters.iter().try_for_each(|parameter| allowed.check(parameter))
    }

    pub(super) fn are_none(&self) -> bool {
        self.allowed.is_empty() && self.denied.is_empty() && self.required.is_empty()
    }
}

/// Lists by the canonical name of their field; several if a policy uses two names of the same
/// field.
type FieldLists<'a> = BTreeMap<String, Vec<&'a Vec<Value>>>;

fn by_field<'a>(lists: &'a ParameterLists, schema: &[Field]) -> FieldLists<'a> {
    let mut found = FieldLists::new();
    for (name, list) in lists {
        found.entry(canonical(name, schema)).or_default().push(list);
    }
    found
}

/// Like [`by_field`], but values denied for a parameter that counts as another parameter are denied
/// for the other parameter too.
fn denied_by_field<'a>(lists: &'a ParameterLists, schema: &[Field]) -> FieldLists<'a> {
    let mut found = by_field(lists, schema);
    for (name, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        if let Some(other) = counts_as(name, schema) {
            found.entry(other).or_default().push(list);
        }
    }
    found
}

/// Refuses a request whose comparison would take too long, before anything is compared.
fn check_effort(
    rules: [&FieldLists<'_>; 2],
    parameters: &[&SentParameter<'_>],
) -> Result<(), String> {
    let values = |name: &str| -> u64 {
        let lists = rules.iter().filter_map(|lists| lists.get(name)).flatten();
        lists.map(|list| list.len() as u64).sum()
    };
    let any = values("*");
    let of_one = |one: &&SentParameter<'_>| {
        let counted = one.counts_as.as_deref().map_or(0, values);
        let listed = any.saturating_add(values(&one.name)).saturating_add(counted);
        if listed == 0 { 0 } else { comparison_cost(&one.value).saturating_mul(listed) }
    };
    let effort = parameters.iter().map(of_one).fold(0, u64::saturating_add);
    if effort <= MOST_COMPARISONS {
        return Ok(());
    }
    Err(format!(
        "with so many parameter values: the check against the policy would take {effort} \
         comparisons, and the maximum is {MOST_COMPARISONS}; send fewer values at once, or list \
         fewer in the policy"
    ))
}

fn check_denied(denied: &FieldLists<'_>, parameters: &[&SentParameter<'_>]) -> Result<(), String> {
    for parameter in parameters {
        let SentParameter { name, counts_as, value, .. } = parameter;
        let by_settings = parameter.by_settings();
        let is_listed = |list: &Vec<Value>| {
            let list = PolicyValue::all(list);
            holds_any(value, &list)
                || by_settings.as_ref().is_some_and(|settings| holds_any(settings, &list))
        };
        let names = std::iter::once(name).chain(counts_as);
        let mut lists = names.filter_map(|name| denied.get(name)).flatten();
        if lists.any(|list| list.is_empty() || is_listed(list)) {
            return Err(format!("with parameter {}, or not with this value", quoted(name)));
        }
    }
    Ok(())
}

/// The parameters that a rule allows on a route with this schema.
struct AllowedParameters<'a> {
    lists: FieldLists<'a>,
    schema: &'a [Field],
}

impl AllowedParameters<'_> {
    /// Checks that the rule allows `parameter`: by the parameter's own name, by the name of the
    /// parameter that it counts as, or, for a group that no rule names, by allowing each setting
    /// inside. Settings inside an allowed group are checked if a rule names the setting.
    fn check(&self, parameter: &SentParameter<'_>) -> Result<(), String> {
        let SentParameter { name, value, members, .. } = parameter;
        if parameter.defers && !self.lists.contains_key(name) {
            return Ok(());
        }
        let counted = parameter.counts_as.as_ref().filter(|other| self.lists.contains_key(*other));
        match (self.lists.get(name), counted) {
            (Some(own), _) if parameter.defers && !admits(own, value) => return Ok(()),
            (Some(own), counted) => {
                let is_any = own.iter().any(|list| list.is_empty());
                if !admits(own, value) || is_any && !self.admits_as(counted, value) {
                    return Err(not_with_this_value(name));
                }
            }
            (None, Some(_)) if !self.admits_as(counted, value) => {
                return Err(not_with_this_value(name));
            }
            (None, Some(_)) => {}
            (None, None) => return self.check_unnamed(parameter),
        }
        self.check_named(members)
    }

    /// Checks a parameter that no rule names. All settings inside must be allowed, or `*` must
    /// allow the parameter.
    fn check_unnamed(&self, parameter: &SentParameter<'_>) -> Result<(), String> {
        let SentParameter { name, value, members, .. } = parameter;
        if !parameter.holds_others && !members.is_empty() && !self.lists.contains_key("*") {
            return members.iter().try_for_each(|member| self.check(member));
        }
        let Some(others) = self.lists.get("*") else {
            return Err(format!("with parameter {}, which the policy does not list", quoted(name)));
        };
        if !admits(others, value) {
            return Err(not_with_this_value(name));
        }
        self.check_named(members)
    }

    /// Checks the `members` that a rule names.
    fn check_named(&self, members: &[SentParameter<'_>]) -> Result<(), String> {
        let is_named = |name: &String| self.lists.contains_key(name);
        for member in members {
            if is_named(&member.name) || member.counts_as.as_ref().is_some_and(is_named) {
                self.check(member)?;
            } else {
                self.check_named(&member.members)?;
            }
        }
        Ok(())
    }

    /// Returns true if the parameter `counted` may have `value`, or may have its deferring value.
    fn admits_as(&self, counted: Option<&String>, value: &Value) -> bool {
        let Some((name, lists)) = counted.and_then(|name| self.lists.get_key_value(name)) else {
            return true;
        };
        let may_defer = deferring_value(name, self.schema)
            .is_some_and(|word| admits(lists, &Value::from(word)));
        may_defer || admits(lists, value)
    }
}

fn admits(lists: &[&Vec<Value>], value: &Value) -> bool {
    lists.iter().any(|list| list.is_empty() || holds_only(value, list))
}

fn not_with_this_value(name: &str) -> String {
    format!("with this value of parameter {}; the policy lists others", quoted(name))
}

/// Merges two sets of lists. An empty list means any value and therefore replaces a list with
/// values.
fn merge_lists(lists: &mut ParameterLists, other: &ParameterLists) {
    for (name, values) in other {
        match lists.get_mut(name) {
            Some(own_values) if own_values.is_empty() || values.is_empty() => own_values.clear(),
            Some(own_values) => own_values.extend(values.iter().cloned()),
            None => {
                lists.insert(name.clone(), values.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
