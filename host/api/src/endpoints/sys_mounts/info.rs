//! The JSON form of a mount in listings and reads: the object of decision H13, with every member
//! always present.

use bulkhead_access::lifetimes::Lifetimes;
use bulkhead_access::timestamp::timestamp;
use bulkhead_core::mounts::{MountClass, MountRecord, MountStatus, RunningPlugin};
use serde_json::{Map, Value, json};

/// Returns the whole object. Lifetimes are shown as they were set; 0 stands for the system's
/// lifetime.
pub(super) fn info(record: &MountRecord, running: RunningPlugin<'_>) -> Map<String, Value> {
    let mut info = brief(record);
    let own = Lifetimes { default: record.settings.default_ttl, max: record.settings.max_ttl };
    let more = [
        ("accessor", json!(record.accessor)),
        ("uuid", json!(record.uuid)),
        ("local", json!(record.marks.local)),
        ("seal_wrap", json!(record.marks.seal_wrap)),
        ("external_entropy_access", json!(record.marks.external_entropy_access)),
        ("plugin_version", json!(record.settings.selection.plugin_version)),
        ("running_plugin_version", json!(running.version)),
        ("running_sha256", json!(running.digest)),
        ("deprecation_status", json!("supported")),
        ("unavailable_reason", json!("")),
        ("plugin_rollback_state", rollback_state(record)),
        ("config", Value::Object(config(record, running, own))),
    ];
    info.extend(more.map(|(name, value)| (name.to_owned(), value)));
    info
}

/// Returns the members for the condition of the mount: the word, the begin and the cause. A mount
/// that serves as usual has the word `serving`, and no begin.
pub(super) fn status_members(status: Option<MountStatus>) -> Map<String, Value> {
    let (word, since, message) = match status {
        Some(MountStatus { condition, since, message }) => (condition.code(), since, message),
        None => ("serving", None, String::new()),
    };
    let since = since.map_or_else(|| json!(""), |since| timestamp(since / 1_000));
    let members =
        [("status", json!(word)), ("status_since", since), ("status_reason", json!(message))];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the last automatic rollback of the plugin's version, or null if there was no rollback
/// since the last swap.
fn rollback_state(record: &MountRecord) -> Value {
    let Some(rollback) = &record.rollback else { return Value::Null };
    json!({
        "status": rollback.status(),
        "from": rollback.from,
        "to": rollback.to,
        "time": timestamp(rollback.time / 1_000),
        "reason": rollback.reason,
    })
}

/// Returns the members that any caller may see of a mount listed without a token.
pub(crate) fn brief(record: &MountRecord) -> Map<String, Value> {
    let members = [
        ("type", json!(record.kind)),
        ("description", json!(record.settings.description)),
        ("options", json!(record.settings.options)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the object that tuning reads: the effective lifetimes and the other tunable settings.
pub(super) fn effective_config(
    record: &MountRecord,
    running: RunningPlugin<'_>,
    system: Lifetimes,
) -> Map<String, Value> {
    let mut tuned = config(record, running, record.settings.lifetimes(system));
    tuned.insert("description".to_owned(), json!(record.settings.description));
    tuned.insert("options".to_owned(), json!(record.settings.options));
    tuned
}

fn config(
    record: &MountRecord,
    running: RunningPlugin<'_>,
    lifetimes: Lifetimes,
) -> Map<String, Value> {
    let settings = &record.settings;
    let members = [
        ("default_lease_ttl", json!(lifetimes.default)),
        ("max_lease_ttl", json!(lifetimes.max)),
        ("force_no_cache", json!(settings.force_no_cache)),
        ("audit_non_hmac_request_keys", json!(settings.audit_non_hmac_request_keys)),
        ("audit_non_hmac_response_keys", json!(settings.audit_non_hmac_response_keys)),
        ("listing_visibility", json!(settings.listing_visibility.word())),
        ("passthrough_request_headers", json!(settings.passthrough_request_headers)),
        ("allowed_response_headers", json!(settings.allowed_response_headers)),
        ("identity_token_key", json!(settings.identity_token_key)),
        ("delegated_auth_accessors", json!(settings.delegated_auth_accessors)),
        ("plugin_version", json!(settings.selection.plugin_version)),
        ("override_pinned_version", json!(settings.selection.override_pinned_version)),
        ("plugin_rollback", json!(settings.probation.plugin_rollback.word())),
        ("plugin_probation", json!(settings.probation.plugin_probation)),
        // The effective grants, so that a client can write back the object without a change.
        ("grants", json!(settings.grants.as_deref().unwrap_or(running.usual))),
    ];
    let mut config: Map<String, Value> =
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if MountClass::of(&record.path) == MountClass::Auth {
        config.insert("token_type".to_owned(), json!(settings.token_type.word()));
    }
    if let Some(lockout) = settings.user_lockout {
        config.insert("user_lockout_config".to_owned(), Value::Object(lockout.show()));
    }
    config
}
