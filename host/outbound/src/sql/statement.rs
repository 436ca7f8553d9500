//! A statement for a database.

/// A statement that a plugin runs.
pub struct SqlStatement {
    /// The text in the server's language.
    pub text: String,
    /// The text contains a secret, so no failure shows the server's message.
    pub secret: bool,
    /// The transaction continues if the statement fails.
    pub may_fail: bool,
}
