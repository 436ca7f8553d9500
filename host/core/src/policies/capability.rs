//! The words of a policy: what a rule may grant on its paths.

/// What a rule may grant. In alphabetical order, which is the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Writing an object that does not exist.
    Create,
    /// Removing.
    Delete,
    /// Nothing at all, although other policies grant it for the same pattern.
    Deny,
    /// Names below a path.
    List,
    /// Merge patches.
    Patch,
    /// Reading.
    Read,
    /// Kept and without effect: no endpoint asks for it.
    Recover,
    /// Kept and without effect: no endpoint asks for it.
    Scan,
    /// Kept and without effect: no endpoint asks for it.
    Subscribe,
    /// Endpoints that are guarded beyond the ordinary capability.
    Sudo,
    /// Writing an object that exists.
    Update,
}

impl Capability {
    /// All of them.
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

    /// As policies write it.
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

    /// Whether holding it allows anything here.
    pub(super) fn has_effect(self) -> bool {
        !matches!(self, Self::Deny | Self::Recover | Self::Scan | Self::Subscribe)
    }

    /// The capability behind a word, which is in lower case.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capability| capability.word() == word)
    }
}
