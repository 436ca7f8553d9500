//! Additional claims of a role's tokens: a JSON template with placeholders for the caller's
//! identity.
//!
//! This file prevents claim injection by a caller who can choose a name: a value is encoded as JSON
//! before it replaces a placeholder. Templates cannot set the claims about issuer, audience and
//! lifetime.

use crate::policies::identity::{TemplateEntity, TemplateIdentity};
use crate::policies::reference::TemplateReference;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value, json};

/// Maximum length of a template, in bytes.
const MAX_TEMPLATE_LEN: usize = 16 << 10;
/// Maximum length of a filled template, in bytes. A template can repeat a value many times.
const LONGEST_FILLED: usize = 64 << 10;
/// Claims that only the provider sets.
const RESERVED: [&str; 10] =
    ["iat", "aud", "exp", "iss", "sub", "namespace", "nonce", "auth_time", "at_hash", "c_hash"];

const KNOWN: &str = "known are identity.entity.{id, name, metadata, metadata.KEY, groups.ids, \
                     groups.names, aliases.MOUNT-ACCESSOR.{id, name, metadata, metadata.KEY, \
                     custom_metadata, custom_metadata.KEY}}, time.now and \
                     time.now.{plus, minus}.DURATION";

/// Checks a template before it is stored.
///
/// # Errors
/// 400 that describes the fault.
pub(super) fn check(template: &str) -> Result<(), Failure> {
    fill(template, &TemplateIdentity::default(), 0).map(|_| ())
}

/// Returns the claims of a template for this caller at `now`, in seconds since 1970. A value that
/// the caller lacks is empty.
///
/// # Errors
/// 400 that describes the fault of the template.
pub(super) fn fill(
    template: &str,
    identity: &TemplateIdentity,
    now: u64,
) -> Result<Map<String, Value>, Failure> {
    let text = written_out(template)?;
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let filled = filled(&text, identity, now)?;
    let claims: Map<String, Value> = serde_json::from_str(&filled).map_err(|_| {
        template_failure(
            "the result is not a JSON object; write places without quotes, as in {\"id\": \
             {{identity.entity.id}}}",
        )
    })?;
    match RESERVED.into_iter().find(|name| claims.contains_key(*name)) {
        Some(name) => {
            Err(template_failure(&format!("{name} is set by the server alone; leave {name} out")))
        }
        None => Ok(claims),
    }
}

fn template_failure(why: &str) -> Failure {
    Failure::invalid(format!("the template cannot be used: {why}"))
}

/// Decodes a template in base64, which avoids quoting on a command line. Other text stays
/// unchanged.
fn written_out(template: &str) -> Result<String, Failure> {
    if template.len() > MAX_TEMPLATE_LEN {
        return Err(template_failure(&format!(
            "the template has more than {MAX_TEMPLATE_LEN} bytes"
        )));
    }
    let decoded = STANDARD.decode(template).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(decoded.unwrap_or_else(|| template.to_owned()))
}

fn filled(text: &str, identity: &TemplateIdentity, now: u64) -> Result<String, Failure> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) =
            after.split_once("}}").ok_or_else(|| template_failure("a \"{{\" stays open"))?;
        let value = value(name.trim(), identity, now).ok_or_else(|| {
            template_failure(&format!("it names {}; {KNOWN}", quoted(name.trim())))
        })?;
        filled.push_str(before);
        filled.push_str(&value.to_string());
        if filled.len() > LONGEST_FILLED {
            return Err(template_failure(&format!(
                "the result has more than {LONGEST_FILLED} bytes"
            )));
        }
        rest = after;
    }
    Ok(filled + rest)
}

/// Returns the value of a placeholder; `None` for an unknown name.
fn value(name: &str, identity: &TemplateIdentity, now: u64) -> Option<Value> {
    if let Some(rest) = name.strip_prefix("time.now") {
        return evaluate_time(rest, now);
    }
    if let Some(identity_value) = whole_value(name, identity) {
        return Some(identity_value);
    }
    let reference = TemplateReference::parse(name)?;
    Some(json!(identity.value(&reference).unwrap_or_default()))
}

/// Returns the value of a placeholder that stands for a list or an object.
fn whole_value(name: &str, identity: &TemplateIdentity) -> Option<Value> {
    let groups = || identity.groups.iter();
    let entity = identity.entity.as_ref();
    match name {
        "identity.entity.metadata" => {
            Some(json!(entity.map(|entity| &entity.metadata).cloned().unwrap_or_default()))
        }
        "identity.entity.groups.ids" => {
            Some(groups().map(|group| group.id.as_str()).collect::<Value>())
        }
        "identity.entity.groups.names" => {
            Some(groups().map(|group| group.name.as_str()).collect::<Value>())
        }
        _ => metadata_of_alias(name, entity),
    }
}

fn metadata_of_alias(name: &str, entity: Option<&TemplateEntity>) -> Option<Value> {
    let (accessor, which) = name.strip_prefix("identity.entity.aliases.")?.split_once('.')?;
    let alias = entity.and_then(|entity| entity.aliases.get(accessor)).cloned().unwrap_or_default();
    match which {
        "metadata" => Some(json!(alias.metadata)),
        "custom_metadata" => Some(json!(alias.custom_metadata)),
        _ => None,
    }
}

/// Evaluates `""`, `.plus.5m` or `.minus.1h` relative to `now`, in seconds since 1970.
fn evaluate_time(rest: &str, now: u64) -> Option<Value> {
    if rest.is_empty() {
        return Some(json!(now));
    }
    let by = |text: &str| duration::parse(text).ok();
    if let Some(text) = rest.strip_prefix(".plus.") {
        return by(text).map(|seconds| json!(now.saturating_add(seconds)));
    }
    by(rest.strip_prefix(".minus.")?).map(|seconds| json!(now.saturating_sub(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::identity::{TemplateAlias, TemplateGroup};
    use std::collections::BTreeMap;

    fn eve() -> TemplateIdentity {
        let texts = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let alias = TemplateAlias {
            name: "eve@example".to_owned(),
            metadata: texts("a", "b"),
            ..TemplateAlias::default()
        };
        TemplateIdentity {
            entity: Some(TemplateEntity {
                id: "5e1c".to_owned(),
                name: "eve\", \"admin\": true, \"x\": \"".to_owned(),
                metadata: texts("team", "blue"),
                aliases: BTreeMap::from([("auth_a_1".to_owned(), alias)]),
            }),
            groups: vec![TemplateGroup {
                id: "g1".to_owned(),
                name: "ops".to_owned(),
                ..TemplateGroup::default()
            }],
        }
    }

    fn filled(template: &str) -> Value {
        Value::Object(fill(template, &eve(), 1_000).unwrap())
    }

    #[test]
    fn places_are_filled_with_json() {
        let template = r#"{"team": {{identity.entity.metadata.team}},
            "all": {{ identity.entity.metadata }},
            "groups": {{identity.entity.groups.names}}, "ids": {{identity.entity.groups.ids}},
            "mail": {{identity.entity.aliases.auth_a_1.name}},
            "alias": {{identity.entity.aliases.auth_a_1.metadata}},
            "none": {{identity.entity.metadata.none}},
            "other": {{identity.entity.aliases.x.metadata}},
            "then": {{time.now.plus.1m}}, "before": {{time.now.minus.1m}}, "now": {{time.now}}}"#;
        let expected = json!({
            "team": "blue", "all": {"team": "blue"}, "groups": ["ops"], "ids": ["g1"],
            "mail": "eve@example", "alias": {"a": "b"}, "none": "", "other": {},
            "then": 1_060, "before": 940, "now": 1_000,
        });
        assert_eq!(filled(template), expected);
        assert_eq!(filled(&STANDARD.encode(template)), expected);
        assert_eq!(filled(""), json!({}));
    }

    #[test]
    fn entity_name_resembling_claims_stays_text() {
        let claims = filled(r#"{"name": {{identity.entity.name}}}"#);
        assert_eq!(claims.as_object().unwrap().len(), 1, "{claims}");
    }

    #[test]
    fn invalid_template_is_refused_on_write() {
        for (template, why) in [
            ("{", "not a JSON object"),
            ("[]", "not a JSON object"),
            (r#"{"a": {{identity.entity.id}"#, "stays open"),
            (r#"{"a": {{identity.entity.policies}}}"#, "known are"),
            (r#"{"a": {{time.now.plus.x}}}"#, "known are"),
            (r#"{"sub": "me"}"#, "sub is set by the server alone"),
            (&"x".repeat(MAX_TEMPLATE_LEN + 1), "more than 16384 bytes"),
        ] {
            let refused = check(template).unwrap_err();
            assert!(refused.message.contains(why), "{template}: {refused}");
        }
        let mut many = eve();
        let entity = many.entity.as_mut().unwrap();
        entity.metadata.insert("long".to_owned(), "x".repeat(1_000));
        let template = format!(r#"{{"a": [{}1]}}"#, "{{identity.entity.metadata}},".repeat(100));
        check(&template).unwrap();
        assert!(fill(&template, &many, 0).unwrap_err().message.contains("65536 bytes"));
    }
}
