//! The options of commands: what can be said with one, and what its help says of it.

/// An option of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt {
    /// Without dashes.
    pub(crate) name: &'static str,
    /// What is typed behind the equals sign.
    pub(crate) takes: Takes,
    /// One line for help.
    pub(crate) about: &'static str,
    /// The field of the request's body that it fills, see `Options::fields`.
    pub(crate) field: Option<&'static str>,
}

/// What an option is given. The word is for help: `TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Nothing, or `true` or `false`.
    Nothing,
    /// A text. Given again, the last one counts.
    Text(&'static str),
    /// A whole number that is not negative. Given again, the last one counts.
    Number(&'static str),
    /// A text, which may be given again and is then one more. Never split.
    List(&'static str),
    /// One name, or several with commas. Given again, it adds names.
    Names(&'static str),
    /// `name=value`, which may be given again.
    Pairs,
}

impl Takes {
    /// The word for help; `None` for a switch.
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

    /// The value that was given, if it can be one. What is refused in a pair may be a secret, and
    /// is not repeated.
    pub(crate) fn check(self, name: &str, value: String) -> Result<String, String> {
        match self {
            Self::Number(_) if value.parse::<u64>().is_err() => {
                Err(format!("-{name} is a number, and not {value:?}"))
            }
            // An empty name is often a variable that is not set.
            Self::Names(_) if !value.is_empty() && names_in(&value).any(str::is_empty) => {
                Err(format!("-{name} is names with commas, and one in {value:?} is empty"))
            }
            Self::Pairs if split_pair(&value).is_none() => Err(format!("-{name} is name=value")),
            _ => Ok(value),
        }
    }
}

impl Opt {
    /// `-name`, or `-name=false`.
    #[must_use]
    pub(crate) const fn switch(name: &'static str, about: &'static str) -> Self {
        Self { name, takes: Takes::Nothing, about, field: None }
    }

    /// `-name=TEXT`.
    #[must_use]
    pub(crate) const fn text(name: &'static str, word: &'static str, about: &'static str) -> Self {
        Self { name, takes: Takes::Text(word), about, field: None }
    }

    /// `-name=7`.
    #[must_use]
    pub(crate) const fn number(name: &'static str, about: &'static str) -> Self {
        Self { name, takes: Takes::Number("N"), about, field: None }
    }

    /// `-name=TEXT`, as often as there are texts.
    #[must_use]
    pub(crate) const fn list(name: &'static str, word: &'static str, about: &'static str) -> Self {
        Self { name, takes: Takes::List(word), about, field: None }
    }

    /// `-name=A,B`, also as often as there are names.
    #[must_use]
    pub(crate) const fn names(name: &'static str, word: &'static str, about: &'static str) -> Self {
        Self { name, takes: Takes::Names(word), about, field: None }
    }

    /// `-name=name=value`, as often as there are pairs.
    #[must_use]
    pub(crate) const fn pairs(name: &'static str, about: &'static str) -> Self {
        Self { name, takes: Takes::Pairs, about, field: None }
    }

    /// The same, filling a field of the request's body.
    #[must_use]
    pub(crate) const fn fills(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }
}

/// The names of a value with commas.
pub(crate) fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim)
}

/// The name, which is not empty, and the value, which may hold more equals signs.
pub(crate) fn split_pair(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| !name.is_empty())
}
