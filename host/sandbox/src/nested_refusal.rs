//! The refusal of a database plugin as the calling engine gets the refusal.

use crate::bindings::database_plugin::exports::bulkhead::plugin::database_users::Refusal;
use crate::contract::Failure;
use crate::database_plugin::DatabasePlugin;
use bulkhead_wire::failure::FailureKind;

/// Converts a refusal into a failure: the code decides the kind, and the description has the
/// message.
pub(crate) fn failure_of(
    plugin: &DatabasePlugin,
    (connection, refused_grant): (&str, Option<&str>),
    refused: &Refusal,
) -> Failure {
    let description = plugin.description();
    let sentence = description.codes.get(&refused.code);
    let unknown = format!("the database plugin refused with {:?}", refused.code);
    let message = match refused_grant {
        // The host prints the line that would allow the act, because the plugin does not know the
        // mount.
        Some(why) if refused.code == FailureKind::PermissionDenied.code() => why.to_owned(),
        _ => sentence.map_or(unknown, |sentence| fill(sentence, connection, refused)),
    };
    let mut ext = refused.ext.clone();
    ext.push(("code".to_owned(), refused.code.clone()));
    ext.extend(refused.setting.iter().map(|setting| ("setting".to_owned(), setting.clone())));
    ext.extend(refused.statement.iter().map(|index| ("statement".to_owned(), index.to_string())));
    ext.extend(refused.vendor_code.iter().map(|code| ("vendor-code".to_owned(), code.clone())));
    Failure { code: kind(&refused.code).code().to_owned(), message, retry_after: None, ext }
}

/// Returns the kind of a refusal's code. Mistakes and refusals of the database are for the caller
/// to fix, unlike failures that may pass without a fix (decision P4).
fn kind(code: &str) -> FailureKind {
    match code {
        "unreachable" => FailureKind::Unreachable,
        "timed-out" => FailureKind::TimedOut,
        "conflict" => FailureKind::Conflict,
        // The server answers, and the cause may pass: revocations must not count as refused.
        "sessions-exhausted" | "tls-failed" => FailureKind::Unavailable,
        "internal" => FailureKind::Internal,
        _ => FailureKind::InvalidRequest,
    }
}

/// Fills values into a sentence. A single pass, so that a value that looks like a placeholder stays
/// as it is.
fn fill(sentence: &str, connection: &str, refused: &Refusal) -> String {
    let mut out = String::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, tail)) = after.split_once('}') else { break };
        out.push_str(before);
        match name {
            "connection" => out.push_str(&format!("{connection:?}")),
            "setting" => out.push_str(refused.setting.as_deref().unwrap_or("a setting")),
            "vendor-code" => out.push_str(refused.vendor_code.as_deref().unwrap_or("none")),
            "statement" => out.push_str(
                &refused.statement.map_or("?".to_owned(), |index| (index + 1).to_string()),
            ),
            other => out.push_str(
                refused.ext.iter().find(|(key, _)| key == other).map_or("?", |(_, value)| value),
            ),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}
