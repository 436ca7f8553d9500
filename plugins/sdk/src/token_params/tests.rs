//! Token settings by both names, as clients send them.

use super::{FIELDS, OLD_FIELDS, TokenParams};
use crate::answer::Answer;
use crate::auth_method::AuthMethod;
use crate::call::Call;
use crate::host::Host;
use crate::mounted_plugin::MountedPlugin;
use crate::table::{Field, Row, read, write};
use crate::testbed::AuthBed;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

struct Door;

const NAME: &[Field] = &[Field::name_of("name", "the role's name")];

impl MountedPlugin for Door {
    const NAME: &'static str = "door";
    const VERSION: &'static str = "1.0.0";
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Roles and nothing else.";
    const TABLE: &'static [Row] = &[
        read("role/{name}", show).about("Reads a role.").fields(&[NAME]),
        write("role/{name}", keep)
            .about("Writes a role.")
            .fields(&[NAME, FIELDS, OLD_FIELDS])
            .existence("role/{name}"),
    ];
}

impl AuthMethod for Door {}

#[derive(Default, Serialize, Deserialize)]
struct Role {
    #[serde(flatten)]
    token: TokenParams,
}

impl Stored for Role {
    const KIND: &'static str = "role";
}

fn key(call: &Call) -> String {
    format!("role/{}", call.text("name"))
}

fn show(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let role: Role = host.storage().get(&key(call))?.ok_or_else(Failure::absent)?;
    Answer::data(&role.token.show())
}

fn keep(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let mut role: Role = host.storage().get(&key(call))?.unwrap_or_default();
    role.token.merge(call)?;
    host.storage().put(&key(call), &role)?;
    Ok(Answer::nothing().warn(role.token.warnings(&call.mount)))
}

fn shown(bed: &AuthBed<Door>) -> Value {
    Value::Object(bed.read("role/a").ok().map(|reply| reply.data).unwrap_or_default())
}

#[test]
fn every_parameter_is_always_shown() {
    let bed = AuthBed::<Door>::new().unwrap();
    bed.write("role/a", &json!({})).ok().unwrap();
    assert_eq!(
        shown(&bed),
        json!({
            "token_bound_cidrs": [], "token_explicit_max_ttl": 0, "token_max_ttl": 0,
            "token_no_default_policy": false, "token_num_uses": 0, "token_period": 0,
            "token_policies": [], "token_ttl": 0, "token_type": "default",
        })
    );
}

#[test]
fn deprecated_names_set_new_and_show_while_used() {
    let bed = AuthBed::<Door>::new().unwrap();
    let old = json!({
        "policies": "Writers, readers,writers", "ttl": "1h", "max_ttl": 7_200, "num_uses": "3",
        "bound_cidrs": ["10.1.2.3/8", "192.0.2.1/32"],
    });
    bed.write("role/a", &old).ok().unwrap();
    let role = shown(&bed);
    for (old, new, value) in [
        ("policies", "token_policies", json!(["readers", "writers"])),
        ("ttl", "token_ttl", json!(3_600)),
        ("max_ttl", "token_max_ttl", json!(7_200)),
        ("num_uses", "token_num_uses", json!(3)),
        ("bound_cidrs", "token_bound_cidrs", json!(["10.0.0.0/8", "192.0.2.1"])),
    ] {
        assert_eq!((&role[old], &role[new]), (&value, &value), "{old}");
    }
    assert_eq!(role.get("period"), None, "a deprecated field is not stored");
    bed.write("role/a", &json!({"token_ttl": 60, "ttl": 90})).ok().unwrap();
    assert_eq!(
        (shown(&bed)["token_ttl"].clone(), shown(&bed)["ttl"].clone()),
        (60.into(), 60.into())
    );
    bed.write("role/a", &json!({"token_ttl": 120})).ok().unwrap();
    assert_eq!(shown(&bed).get("ttl"), None, "the new name alone was used");
    assert_eq!(shown(&bed)["token_policies"], json!(["readers", "writers"]), "absent is kept");
}

#[test]
fn inconsistent_parameters_are_refused_and_change_nothing() {
    let bed = AuthBed::<Door>::new().unwrap();
    bed.write("role/a", &json!({"token_ttl": 60})).ok().unwrap();
    let before = shown(&bed);
    for (sent, part) in [
        (json!({"token_max_ttl": 30}), "'token_ttl' cannot be greater than 'token_max_ttl'"),
        (json!({"token_type": "batch", "token_period": 5}), "'token_period'"),
        (json!({"token_type": "batch", "num_uses": 5}), "'token_num_uses'"),
        (json!({"token_type": "hsm"}), "\"hsm\""),
        (json!({"token_num_uses": -1}), "cannot be negative"),
        (json!({"token_bound_cidrs": "10.0.0.0/33"}), "error parsing address"),
        (json!({"ttl": -5}), "ttl"),
    ] {
        let refused = bed.write("role/a", &sent).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{sent}");
        assert!(refused.message.contains(part), "{sent}: {}", refused.message);
        assert_eq!(shown(&bed), before, "{sent}");
    }
}

#[test]
fn lifetimes_shortened_by_the_mount_are_reported() {
    let bed = AuthBed::<Door>::new().unwrap();
    let long = json!({"token_period": "100d"});
    let warnings = bed.write("role/a", &long).ok().unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("token_period"), "{warnings:?}");
}
