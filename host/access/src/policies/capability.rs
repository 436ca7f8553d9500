//! Capabilities: the words in a policy rule that grant or deny actions on its paths.

use super::ROOT;

/// Returns whether the granted capabilities, as words, include `sudo`; `root` includes all.
#[must_use]
pub fn include_sudo(words: &[String]) -> bool {
    words.iter().any(|word| word == Capability::Sudo.word() || word == ROOT)
}

/// A capability, declared in alphabetical order, which is also the display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Creates an object that does not exist.
    Create,
    /// Deletes an object.
    Delete,
    /// Denies everything, even if other policies grant access for the same pattern.
    Deny,
    /// Lists the names below a path.
    List,
    /// Applies a merge patch.
    Patch,
    /// Reads an object.
    Read,
    /// Accepted without effect: no endpoint needs this capability.
    Recover,
    /// Accepted without effect: no endpoint needs this capability.
    Scan,
    /// Accepted without effect: no endpoint needs this capability.
    Subscribe,
    /// Required, in addition to the ordinary capability, by specially guarded endpoints.
    Sudo,
    /// Updates an existing object.
    Update,
}

impl Capability {
    /// Every capability.
    pub(super) const ALL: [Self; 11] = [
        Self::Create,
        Self::Delete,
        Self::Deny,
        Self::List,
        Self::Patch,
        Self::Read,
        Self::Recover,
        Self::Scan,
        Self::Subscribe,
        Self::Sudo,
        Self::Update,
    ];

    /// Returns the word used in policies.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Deny => "deny",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Read => "read",
            Self::Recover => "recover",
            Self::Scan => "scan",
            Self::Subscribe => "subscribe",
            Self::Sudo => "sudo",
            Self::Update => "update",
        }
    }

    /// Returns true if the capability allows anything in this build.
    pub(super) fn has_effect(self) -> bool {
        !matches!(self, Self::Deny | Self::Recover | Self::Scan | Self::Subscribe)
    }

    /// Returns the capability for a lower-case word.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capability| capability.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sudo_is_included_by_sudo_and_root() {
        for (words, expected) in [
            (vec!["read", "sudo"], true),
            (vec!["sudo"], true),
            (vec!["root"], true),
            (vec!["read", "update"], false),
            (vec!["deny"], false),
            (vec![], false),
        ] {
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            assert_eq!(include_sudo(&words), expected, "{words:?}");
        }
    }

    #[test]
    fn each_capability_is_read_from_its_word() {
        for capability in Capability::ALL {
            assert_eq!(Capability::of_word(capability.word()), Some(capability));
        }
        for word in ["", "Read", "root", "reads"] {
            assert_eq!(Capability::of_word(word), None, "{word}");
        }
    }
}
