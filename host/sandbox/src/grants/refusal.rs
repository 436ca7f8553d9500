//! Texts of refusals: the layer that refused, and the command that would allow the act.

use super::line::Grant;
use super::rights::ComponentKind;
use bulkhead_wire::failure::Failure;

/// Returns the refusal of an act that is outside the component's world, and that no grant allows.
pub(super) fn outside_world_refusal(part: ComponentKind) -> Failure {
    Failure::denied(match part {
        ComponentKind::Described => {
            "describe must be pure: a component may not call an import during describe"
        }
        ComponentKind::DatabasePlugin => {
            "a database plugin has no storage, leases, timers, passwords, cache, http or ambient \
             values, and reaches no other"
        }
        ComponentKind::Engine => "an engine reaches databases only through a database plugin",
        ComponentKind::SealPlugin => {
            "a seal plugin reaches only the origins of its addresses, by http, the time, \
             signatures and the log"
        }
    })
}

/// Returns the end of a refusal by the plugin's entry in the catalog, with the option that would
/// allow the act.
pub(super) fn ceiling_remedy(part: ComponentKind, mount: &str, line: &Grant) -> String {
    let plugin = match part {
        ComponentKind::DatabasePlugin => "database plugin",
        ComponentKind::Engine | ComponentKind::SealPlugin | ComponentKind::Described => "plugin",
    };
    format!(
        "the catalog's entry of the {plugin} of mount {mount} does not allow {line}; register the \
         same component again with all old grants and this grant: bulkhead plugin register --grant \
         '{line}'"
    )
}

/// Returns the refusal of another server than the seal's own.
pub(super) fn other_origin_refusal(seal: &str, wanted: &Grant) -> Failure {
    Failure::denied(format!(
        "the plugin of {seal} may not reach {wanted}: a seal plugin reaches only the origins of \
         its addresses; change the address in the configuration, if another server keeps the key"
    ))
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
