//! `identity/oidc/key`: the keys that sign tokens. No answer holds a private key.

use super::call::{PermittedCall, RequestFields};
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use bulkhead_access::oidc::{self, DEFAULT, EXISTENCE, KeySettings, NamedKey, TokenAlgorithm};
use bulkhead_core::mounts;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use serde_json::{Map, Value, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let one = "identity/oidc/key/{name}";
    let name = || [field("name", FieldKind::Name, "name of the key")];
    let ttl = "seconds of verification after the rotation; default: the key's verification_ttl";
    vec![
        row::list("identity/oidc/key", "names of all keys").handled_by(list),
        row::read(one, "settings of a key").fields(name()).handled_by(read),
        row::write(one, "make or change a key")
            .fields(name())
            .fields(settings())
            .existence(EXISTENCE)
            .handled_by(write),
        row::delete(one, "delete a key; signatures of the key no longer verify")
            .fields(name())
            .handled_by(delete),
        row::write("identity/oidc/key/{name}/rotate", "sign with the next key from now on")
            .fields(name())
            .fields([field("verification_ttl", FieldKind::Duration, ttl)])
            .handled_by(rotate),
    ]
}

fn settings() -> [Field; 4] {
    [
        field("rotation_period", FieldKind::Duration, "how long a key signs"),
        field(
            "verification_ttl",
            FieldKind::Duration,
            "seconds of verification after the rotation; maximum lifetime of tokens",
        ),
        field("allowed_client_ids", FieldKind::CommaList, "client ids of roles; * is all"),
        field("algorithm", FieldKind::String, "RS256, RS384, RS512, ES256, ES384, ES512 or EdDSA"),
    ]
}

/// `LIST identity/oidc/key`. Always names the default key, even if that key was never made.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let mut names = oidc::names(call.unit).await?;
    if let Err(at) = names.binary_search_by(|name| name.as_str().cmp(DEFAULT)) {
        names.insert(at, DEFAULT.to_owned());
    }
    Ok(ReplyBody::Data(Map::from_iter([("keys".to_owned(), json!(names))])).into())
}

/// `GET identity/oidc/key/:name`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let name = call.fields.text("name");
    let settings = match NamedKey::read(call.unit, name).await? {
        Some(key) => key.settings,
        None if name == DEFAULT => KeySettings::default_settings(name),
        None => return Err(Failure::absent()),
    };
    Ok(ReplyBody::Data(show(&settings)).into())
}

fn show(settings: &KeySettings) -> Map<String, Value> {
    let members = [
        ("algorithm", json!(settings.algorithm)),
        ("allowed_client_ids", json!(settings.allowed_client_ids)),
        ("rotation_period", json!(settings.rotation_period)),
        ("verification_ttl", json!(settings.verification_ttl)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// `POST identity/oidc/key/:name`. Fields that are not sent keep their values (decision A6).
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let name = fields.text("name");
    let before = NamedKey::read(unit, name).await?;
    let unsaid = || KeySettings::default_settings(name);
    let settings = before.as_ref().map_or_else(unsaid, |key| key.settings.clone());
    let settings = changed(settings, fields)?;
    let key = match before {
        Some(mut key) => {
            let is_other = key.settings.algorithm != settings.algorithm;
            key.settings = settings;
            if is_other {
                core.oidc.replace(&mut key).await?;
            }
            key
        }
        None => {
            oidc::check_room(unit).await?;
            core.oidc.new_key(settings).await?
        }
    };
    key.put(unit, name)?;
    Ok(ReplyBody::Nothing.into())
}

/// Applies the sent fields to the settings.
fn changed(mut settings: KeySettings, sent: RequestFields<'_>) -> Result<KeySettings, Failure> {
    if sent.has("rotation_period") {
        settings.rotation_period = sent.seconds("rotation_period");
    }
    if sent.has("verification_ttl") {
        settings.verification_ttl = sent.seconds("verification_ttl");
    }
    if sent.has("allowed_client_ids") {
        settings.allowed_client_ids = sent.list("allowed_client_ids");
    }
    if sent.has("algorithm") {
        settings.algorithm = TokenAlgorithm::of_word(sent.text("algorithm"))?;
    }
    settings.check()?;
    Ok(settings)
}

/// `DELETE identity/oidc/key/:name`. Succeeds even if there is no such key.
async fn delete(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let name = fields.text("name");
    if name == DEFAULT {
        return Err(Failure::invalid(
            "key default cannot be deleted: the key signs for every mount without another key",
        ));
    }
    if let Some(role) = oidc::role_with_key(unit, name).await? {
        let (name, role) = (quoted(name), quoted(&role));
        return Err(Failure::invalid(format!(
            "key {name} signs for role {role}; give the role another key, or delete the role first"
        )));
    }
    let signed = mounts::stored_with_identity_token_key(&core.store, unit, name).await?;
    if let Some(path) = signed {
        let name = quoted(name);
        return Err(Failure::invalid(format!(
            "key {name} signs for mount {path}; change identity_token_key of the mount first"
        )));
    }
    oidc::delete(unit, name);
    Ok(ReplyBody::Nothing.into())
}

/// `POST identity/oidc/key/:name/rotate`.
async fn rotate(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let name = fields.text("name");
    let mut key = NamedKey::read(unit, name).await?.ok_or_else(|| {
        Failure::new(FailureKind::NotFound, format!("there is no key {} to rotate", quoted(name)))
    })?;
    let verification_ttl = match fields.has("verification_ttl") {
        true => fields.seconds("verification_ttl"),
        false => key.settings.verification_ttl,
    };
    core.oidc.rotate(&mut key, verification_ttl).await?;
    key.put(unit, name)?;
    Ok(ReplyBody::Nothing.into())
}
