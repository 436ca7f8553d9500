//! Limits of a login: the amount and the characters of an auth method's answer about a caller.
//!
//! Both sides apply the same limits. A plugin refuses a caller whose signed claims exceed a limit
//! (400: the caller brought the claims). The host refuses a plugin that answers such a login anyway
//! (500: the plugin's fault).

/// Maximum length of the name of an alias or group, in bytes.
const NAME: usize = 512;
/// Maximum length of a display name, in bytes.
const DISPLAY_NAME: usize = 256;
/// Maximum number of policies.
const POLICIES: usize = 256;
/// Maximum number of groups.
const GROUPS: usize = 512;
/// Maximum number of metadata pairs, then the maximum length of a name and of a value, in bytes.
const METADATA: usize = 64;
const METADATA_NAME: usize = 128;
const METADATA_VALUE: usize = 1_024;
/// Maximum length of the JSON kept for renewals, in bytes.
const INTERNAL: usize = 64 << 10;
/// Maximum number of networks.
const CIDRS: usize = 128;

/// Checks the name of an alias.
///
/// # Errors
/// The mistake, as the end of a sentence about a login: `with an alias that is empty`. Errors never
/// repeat a value.
pub fn check_alias(name: &str) -> Result<(), String> {
    check_name("an alias", name)
}

/// Checks the number of groups and the name of each group.
///
/// # Errors
/// As [`check_alias`].
pub fn check_groups(names: &[String]) -> Result<(), String> {
    at_most("group aliases", names.len(), GROUPS)?;
    names.iter().try_for_each(|name| check_name("a group alias", name))
}

/// Checks the display name, which may be empty.
///
/// # Errors
/// As [`check_alias`].
pub fn check_display_name(name: &str) -> Result<(), String> {
    if name.contains(char::is_control) {
        return Err("with an unprintable display name".to_owned());
    }
    at_most("bytes in the display name", name.len(), DISPLAY_NAME)
}

/// Checks the metadata pairs of the alias or token (`owner`).
///
/// # Errors
/// As [`check_alias`].
pub fn check_metadata<'a>(
    owner: &str,
    pairs: impl ExactSizeIterator<Item = (&'a String, &'a String)>,
) -> Result<(), String> {
    at_most(&format!("pairs of metadata {owner}"), pairs.len(), METADATA)?;
    for (name, value) in pairs {
        let is_sound = (1..=METADATA_NAME).contains(&name.len()) && value.len() <= METADATA_VALUE;
        if !is_sound {
            return Err(format!(
                "with metadata {owner} over the limits: a name has 1 to {METADATA_NAME} bytes, and \
                 a value at most {METADATA_VALUE}"
            ));
        }
    }
    Ok(())
}

/// Checks the number of policies.
///
/// # Errors
/// As [`check_alias`].
pub fn check_policies(count: usize) -> Result<(), String> {
    at_most("policies", count, POLICIES)
}

/// Checks the number of bound networks.
///
/// # Errors
/// As [`check_alias`].
pub fn check_networks(count: usize) -> Result<(), String> {
    at_most("bound networks", count, CIDRS)
}

/// Checks the length of the JSON kept for renewals.
///
/// # Errors
/// As [`check_alias`].
pub fn check_internal(json: &str) -> Result<(), String> {
    at_most("bytes of internal data", json.len(), INTERNAL)
}

fn at_most(items: &str, count: usize, most: usize) -> Result<(), String> {
    if count <= most { Ok(()) } else { Err(format!("with {count} {items}; there may be {most}")) }
}

fn check_name(noun: &str, name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err(format!("with {noun} that is empty"));
    }
    if name.contains(char::is_control) {
        return Err(format!("with {noun} that cannot be printed"));
    }
    at_most(&format!("bytes in {noun}"), name.len(), NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn too_long(bytes: usize) -> String {
        "x".repeat(bytes)
    }

    #[test]
    fn names_are_nonempty_short_and_printable() {
        assert!(check_alias(&too_long(512)).is_ok());
        for name in [too_long(513), String::new(), " ".to_owned(), "a\nb".to_owned()] {
            assert!(check_alias(&name).is_err(), "{name:?}");
            assert!(check_groups(std::slice::from_ref(&name)).is_err(), "{name:?}");
        }
        assert!(check_display_name("").is_ok() && check_display_name(&too_long(257)).is_err());
        assert!(check_display_name("a\u{7}").is_err());
    }

    #[test]
    fn long_lists_are_counted() {
        let groups = |count: usize| (0..count).map(|one| one.to_string()).collect::<Vec<_>>();
        assert!(check_groups(&groups(512)).is_ok());
        let refused = check_groups(&groups(600)).unwrap_err();
        assert_eq!(refused, "with 600 group aliases; there may be 512");
        assert!(check_policies(256).is_ok() && check_policies(257).is_err());
        assert!(check_networks(128).is_ok() && check_networks(129).is_err());
        assert!(check_internal(&too_long(64 << 10)).is_ok());
        assert!(check_internal(&too_long((64 << 10) + 1)).is_err());
    }

    #[test]
    fn metadata_is_bounded_in_number_and_length() {
        let check = |pairs: &BTreeMap<String, String>| check_metadata("of the token", pairs.iter());
        let pairs = |count: usize| (0..count).map(|one| (one.to_string(), String::new())).collect();
        assert!(check(&pairs(64)).is_ok() && check(&pairs(65)).is_err());
        for (name, value) in
            [("", ""), (too_long(129).as_str(), ""), ("a", too_long(1_025).as_str())]
        {
            assert!(check(&BTreeMap::from([(name.to_owned(), value.to_owned())])).is_err());
        }
    }
}
