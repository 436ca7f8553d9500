//! The table of decision H7, row by row.
use super::*;
use crate::tokens::roles::TokenRole;

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn token(policies: &[&str]) -> TokenRecord {
    let body = serde_json::json!({
        "accessor": "", "policies": policies, "display_name": "", "path": "", "role": "",
        "entity_id": "", "meta": {},
        "bound_cidrs": [], "issued": 0, "creation_ttl": 0, "explicit_max_ttl": 0, "period": 0,
        "renewable": false,
    });
    serde_json::from_value(body).unwrap()
}

/// A creator and its request.
struct Case {
    parent: TokenRecord,
    role: Option<TokenRole>,
    has_sudo: bool,
    no_default_policy: bool,
}

impl Case {
    fn of(parent: &[&str]) -> Self {
        let has_sudo = parent.contains(&"root");
        Self { parent: token(parent), role: None, has_sudo, no_default_policy: false }
    }

    fn with(parent: &[&str], role: TokenRole) -> Self {
        Self { role: Some(role), ..Self::of(parent) }
    }

    fn sudo(self) -> Self {
        Self { has_sudo: true, ..self }
    }

    fn no_default(self) -> Self {
        Self { no_default_policy: true, ..self }
    }

    fn ask(&self, policies: &[&str]) -> Result<Vec<String>, String> {
        let request = RequestedPolicies {
            policies: names(policies).into_iter().collect(),
            no_default_policy: self.no_default_policy,
            parent: &self.parent,
            has_sudo: self.has_sudo,
            role: self.role.as_ref(),
        };
        select(&request).map_err(|failure| failure.message)
    }

    #[track_caller]
    fn gets(&self, policies: &[&str], expected: &[&str]) {
        assert_eq!(self.ask(policies).unwrap(), names(expected));
    }

    #[track_caller]
    fn is_refused(&self, policies: &[&str], why: &str) {
        let message = self.ask(policies).unwrap_err();
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn child_token_inherits_parent_policies_by_default() {
    Case::of(&["a", "b"]).gets(&[], &["a", "b"]);
    Case::of(&["a", "default"]).gets(&[], &["a", "default"]);
    Case::of(&["a", "default"]).no_default().gets(&[], &["a"]);
    Case::of(&["root"]).gets(&[], &["root"]);
}

#[test]
fn policies_beyond_parent_are_refused_without_sudo() {
    Case::of(&["a", "b"]).gets(&["b"], &["b"]);
    Case::of(&["a"]).is_refused(&["a", "b"], "child policies must be subset of parent");
    Case::of(&["a"]).is_refused(&["default"], "child policies must be subset of parent");
    Case::of(&["a"]).sudo().gets(&["b"], &["b", "default"]);
}

#[test]
fn default_policy_is_added_for_parent_allowing_default() {
    Case::of(&["a", "default"]).gets(&["a"], &["a", "default"]);
    Case::of(&["a"]).gets(&["a"], &["a"]);
    Case::of(&["root"]).gets(&["a"], &["a", "default"]);
    Case::of(&["root"]).no_default().gets(&["a"], &["a"]);
    Case::of(&["root"]).no_default().gets(&["a", "default"], &["a"]);
}

#[test]
fn root_is_given_by_root_only_and_alone() {
    Case::of(&["a"]).sudo().is_refused(&["root"], "root tokens only");
    Case::of(&["root"]).gets(&["root"], &["root"]);
    Case::of(&["root"]).is_refused(&["a", "root"], "cannot be combined");
    let role = TokenRole { allowed_policies: names(&["root"]), ..TokenRole::default() };
    Case::with(&["a"], role.clone()).is_refused(&[], "root tokens only");
    Case::with(&["root"], role).gets(&[], &["root"]);
    Case::of(&["root"]).is_refused(&["response-wrapping"], "cannot be given out");
}

#[test]
fn role_policies_and_patterns_apply_regardless_of_parent() {
    let role = TokenRole {
        allowed_policies: names(&["x", "y"]),
        allowed_policies_glob: names(&["team-*"]),
        ..TokenRole::default()
    };
    let case = Case::with(&["a"], role.clone());
    case.gets(&[], &["default", "x", "y"]);
    case.gets(&["x", "team-orders"], &["default", "team-orders", "x"]);
    case.is_refused(&["a"], "not among those");
    case.is_refused(&["my-team-x"], "not among those");
    Case::with(&["a"], role.clone()).no_default().gets(&["x"], &["x"]);
    Case::with(&["a"], TokenRole { no_default_policy: true, ..role }).gets(&["x"], &["x"]);
    let glob = TokenRole { allowed_policies_glob: names(&["*"]), ..TokenRole::default() };
    Case::with(&["a"], glob.clone()).gets(&[], &["default"]);
    Case::with(&["a"], glob).is_refused(&["root"], "root tokens only");
}

#[test]
fn role_disallowed_policies_override_allowed_policies() {
    let role = TokenRole {
        disallowed_policies: names(&["x", "default"]),
        disallowed_policies_glob: names(&["*-admin"]),
        ..TokenRole::default()
    };
    let case = Case::with(&["a", "b"], role);
    case.gets(&[], &["a", "b"]);
    case.gets(&["z"], &["z"]);
    case.is_refused(&["x"], "disallowed");
    case.is_refused(&["orders-admin"], "disallowed");
    case.is_refused(&["default"], "disallowed");
    let both = TokenRole {
        allowed_policies: names(&["x", "y"]),
        disallowed_policies: names(&["y"]),
        ..TokenRole::default()
    };
    Case::with(&["a"], both.clone()).gets(&["x"], &["default", "x"]);
    Case::with(&["a"], both).is_refused(&[], "disallowed");
}

#[test]
fn role_without_policy_rules_uses_parent_policies() {
    let plain = TokenRole { orphan: true, ..TokenRole::default() };
    Case::with(&["a"], plain.clone()).is_refused(&["b"], "child policies must be subset of parent");
    Case::with(&["a"], plain.clone()).gets(&[], &["a"]);
    Case::with(&["a", "default"], TokenRole { no_default_policy: true, ..plain })
        .gets(&["a"], &["a"]);
}
