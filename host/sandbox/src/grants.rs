//! Grants: one act that a mount's plugin may do, asked in the first line of every import.
//!
//! One method an act. A refusal names the act, its target and the line that would allow it.
//! The literal forms are those of the operator's guide: `sql:postgres://db.example:5432`.

use bulkhead_wire::failure::Failure;

/// What the calls of one mount may do beyond its own storage.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    mount: String,
    database_plugins: bool,
    configured_targets: bool,
    sql: Vec<String>,
}

impl Grants {
    /// None: what a third party's component starts with.
    #[must_use]
    pub fn none(mount: &str) -> Self {
        Self { mount: mount.to_owned(), ..Self::default() }
    }

    /// What the official engines get: database plugins, and the targets that their own mount's
    /// configuration names, private and loopback addresses included.
    #[must_use]
    pub fn official(mount: &str) -> Self {
        Self { mount: mount.to_owned(), database_plugins: true, configured_targets: true, sql: Vec::new() }
    }

    /// May this call reach database plugins?
    ///
    /// # Errors
    /// `permission-denied`, with the line to add.
    pub fn database(&self, plugin: &str) -> Result<(), Failure> {
        if self.database_plugins { Ok(()) } else { Err(self.refusal(&format!("database:{plugin}"))) }
    }

    /// For a nested call: these grants plus the SQL targets that the connection's settings name.
    #[must_use]
    pub(crate) fn for_targets(&self, targets: Vec<String>) -> Self {
        let mut nested = self.clone();
        if self.configured_targets {
            nested.sql.extend(targets);
        }
        nested.database_plugins = false;
        nested
    }

    /// May this call dial `driver://host:port`?
    ///
    /// # Errors
    /// `permission-denied`, with the line to add.
    pub fn sql(&self, driver: &str, host: &str, port: u16) -> Result<(), Failure> {
        let target = if host.contains(':') {
            format!("{driver}://[{host}]:{port}")
        } else {
            format!("{driver}://{host}:{port}")
        };
        if self.sql.contains(&target) { Ok(()) } else { Err(self.refusal(&format!("sql:{target}"))) }
    }

    fn refusal(&self, line: &str) -> Failure {
        let mount = &self.mount;
        Failure::denied(format!(
            "mount {mount} was not granted {line}; to allow it: bulkhead secrets tune --grant '{line}' {mount}"
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;

    #[test]
    fn only_the_targets_that_the_configuration_names_are_dialled() {
        let grants = Grants::official("database/").for_targets(vec!["postgres://db.example:5432".into()]);
        assert!(grants.sql("postgres", "db.example", 5432).is_ok());
        let refused = grants.sql("postgres", "db.example", 5433).unwrap_err();
        assert!(refused.message.contains("--grant 'sql:postgres://db.example:5433' database/"), "{refused}");
    }

    #[test]
    fn a_mount_without_grants_reaches_nothing_even_when_it_is_configured() {
        let grants = Grants::none("third/");
        assert!(grants.database("postgresql-database-plugin").is_err());
        assert!(grants.for_targets(vec!["postgres://h:1".into()]).sql("postgres", "h", 1).is_err());
    }

    #[test]
    fn a_nested_plugin_cannot_reach_a_further_one() {
        assert!(Grants::official("database/").for_targets(Vec::new()).database("x").is_err());
    }
}
