//! Command options: their names, value types and help texts.

/// An option of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandOption {
    /// Name without dashes.
    pub(crate) name: &'static str,
    /// Type of the value.
    pub(crate) takes: OptionValue,
    /// Help text of a single line.
    pub(crate) about: &'static str,
    /// Field of the request's body that the option sets, see `ParsedOptions::fields`.
    pub(crate) field: Option<&'static str>,
}

/// The value type of an option. The text is the placeholder in the help, for example `TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionValue {
    /// No value, or `true` or `false`.
    Nothing,
    /// A text. The last value counts.
    Text(&'static str),
    /// A whole number that is not negative. The last value counts.
    Number(&'static str),
    /// A repeatable text, never split.
    List(&'static str),
    /// Names separated by commas; repeatable.
    Names(&'static str),
    /// `name=value`; repeatable.
    Pairs,
}

impl OptionValue {
    /// Returns the placeholder for help; `None` for a switch.
    #[must_use]
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Text(word) | Self::Number(word) | Self::List(word) | Self::Names(word) => {
                Some(word)
            }
            Self::Pairs => Some("name=value"),
        }
    }

    /// Returns the value if it is valid. A refused pair may be a secret, so the message does not
    /// repeat the pair.
    pub(crate) fn check(self, name: &str, value: String) -> Result<String, String> {
        match self {
            Self::Number(_) if value.parse::<u64>().is_err() => {
                Err(format!("-{name} is a number, and not {value:?}"))
            }
            // An empty name often comes from an unset variable.
            Self::Names(_) if !value.is_empty() && names_in(&value).any(str::is_empty) => {
                Err(format!("-{name} is names with commas, and a name in {value:?} is empty"))
            }
            Self::Pairs if split_pair(&value).is_none() => Err(format!("-{name} is name=value")),
            _ => Ok(value),
        }
    }
}

impl CommandOption {
    /// An option `-name` or `-name=false`.
    #[must_use]
    pub(crate) const fn switch(name: &'static str, about: &'static str) -> Self {
        Self { name, takes: OptionValue::Nothing, about, field: None }
    }

    /// An option `-name=TEXT`.
    #[must_use]
    pub(crate) const fn text(name: &'static str, word: &'static str, about: &'static str) -> Self {
        Self { name, takes: OptionValue::Text(word), about, field: None }
    }

    /// An option `-name=7`.
    #[must_use]
    pub(crate) const fn number(name: &'static str, about: &'static str) -> Self {
        Self { name, takes: OptionValue::Number("N"), about, field: None }
    }

    /// An option `-name=TEXT`, repeatable.
    #[must_use]
    pub(crate) const fn list(name: &'static str, word: &'static str, about: &'static str) -> Self {
        Self { name, takes: OptionValue::List(word), about, field: None }
    }

    /// An option `-name=A,B`, repeatable.
    #[must_use]
    pub(crate) const fn names(name: &'static str, word: &'static str, about: &'static str) -> Self {
        Self { name, takes: OptionValue::Names(word), about, field: None }
    }

    /// An option `-name=name=value`, repeatable.
    #[must_use]
    pub(crate) const fn pairs(name: &'static str, about: &'static str) -> Self {
        Self { name, takes: OptionValue::Pairs, about, field: None }
    }

    /// Sets the field of the request's body that the option fills.
    #[must_use]
    pub(crate) const fn with_field(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }
}

/// Splits a value at its commas.
pub(crate) fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim)
}

/// Splits at the first equals sign. The name is not empty; the value may hold more equals signs.
pub(crate) fn split_pair(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| !name.is_empty())
}
