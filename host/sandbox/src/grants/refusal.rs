//! Texts of refusals: the layer that refused, and the command that would allow the act.

use super::line::Grant;
use super::rights::ComponentKind;
use bulkhead_wire::failure::Failure;

/// Returns the refusal of an act that is outside the component's world, and that no grant allows.
pub(super) fn outside_world_refusal(part: ComponentKind) -> Failure {
    Failure::denied(match part {
        ComponentKind::Described => {
            "describe must be pure: a component that is being described may call no import"
        }
        ComponentKind::DatabasePlugin => {
            "a database plugin has no storage, leases, timers, passwords, cache, http or ambient \
             values, and reaches no other"
        }
        ComponentKind::Engine => {
            "an engine speaks to no database itself: it reaches them through a database plugin"
        }
    })
}

/// Returns the end of a refusal by the plugin's entry in the catalog, with the option that would
/// allow the act.
pub(super) fn ceiling_remedy(part: ComponentKind, mount: &str, line: &Grant) -> String {
    let whose = match part {
        ComponentKind::DatabasePlugin => "the database plugin that",
        ComponentKind::Engine | ComponentKind::Described => "the plugin of",
    };
    let reaches = if part == ComponentKind::DatabasePlugin { " reaches" } else { "" };
    format!(
        "the catalog's entry of {whose} mount {mount}{reaches} does not allow {line}; to allow it, \
         register the same component again with all its grants and this one: bulkhead plugin \
         register --grant '{line}'"
    )
}

/// Returns the end of a refusal by the mount's grants, with the command that would allow the act.
pub(super) fn grant_remedy(mount: &str, line: &Grant) -> String {
    format!("mount {mount} was not granted {line}; to allow it: {}", command(mount, line))
}

/// Returns the command that adds a grant. An auth method has its own command, which takes the
/// path without `auth/`.
pub(super) fn command(mount: &str, line: &Grant) -> String {
    let (kind, path) = match mount.strip_prefix("auth/") {
        Some(path) => ("auth", path),
        None => ("secrets", mount),
    };
    format!("bulkhead {kind} tune --grant '{line}' {}", in_a_shell(path))
}

/// Quotes a word for a shell.
pub(super) fn in_a_shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
