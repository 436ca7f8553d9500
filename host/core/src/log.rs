//! Where lines for the operator go. The server decides how they look.

/// A sink for log lines. What is written is already free of secrets.
pub trait Log: Send + Sync {
    /// One line. `level` is `debug`, `info`, `warn` or `error`; `event` a fixed word.
    fn line(&self, level: &str, event: &str, pairs: &[(&str, String)]);
}
