//! The file of `bulkhead operator migrate`: a source and a destination.
//!
//! This file prevents a migration from a place that the server's configuration reads otherwise:
//! both blocks have the words of `storage`, and the same function reads the blocks.

use super::findings::{ConfigFindings, ConfigNotice, ConfigRefusal};
use super::parse_file;
use super::seal::SealEnvironment;
use super::section::{ConfigSection, SectionWords, harmless};
use super::storage::{StorageSettings, settings_of};
use super::tree::ConfigEntry;
use bulkhead_store::StoreOptions;
use std::path::Path;

const WORDS: SectionWords = SectionWords {
    keys: &[],
    blocks: &["storage_source", "storage_destination"],
    foreign: &[harmless("cluster_addr", "a migration needs no cluster; leave the line out")],
};

/// The configuration of a migration.
#[derive(Debug)]
pub(crate) struct MigrationConfig {
    /// The place of the data.
    pub(crate) source: StoreOptions,
    /// The place of the copy.
    pub(crate) destination: StoreOptions,
    /// Settings of the file without effect.
    pub(crate) notices: Vec<ConfigNotice>,
}

impl MigrationConfig {
    /// Reads `file` in the syntax of the server's configuration.
    ///
    /// # Errors
    /// A message with each line, its error and the text to write instead; an unusable source of a
    /// connection URL.
    pub(crate) fn read(file: &Path, environment: SealEnvironment<'_>) -> Result<Self, String> {
        let read = parse_file(file)?.and_then(|entries| MigrationFile::of_entries(&entries));
        read.map_err(|refusal| refusal.message(file))?.load(environment)
    }
}

/// The settings of the file, before sources outside of the file are read.
#[derive(Debug)]
struct MigrationFile {
    source: StorageSettings,
    destination: StorageSettings,
    notices: Vec<ConfigNotice>,
}

impl MigrationFile {
    fn of_entries(entries: &[ConfigEntry]) -> Result<Self, ConfigRefusal> {
        let findings = ConfigFindings::default();
        let file = ConfigSection::root(entries, &WORDS, &findings);
        let source = settings_of(&file, "storage_source");
        let destination = settings_of(&file, "storage_destination");
        let (places, notices) = findings.conclude(source.zip(destination))?;
        let (source, destination) = places;
        Ok(Self { source, destination, notices })
    }

    fn load(self, environment: SealEnvironment<'_>) -> Result<MigrationConfig, String> {
        let options = |StorageSettings { data, database, .. }: StorageSettings| {
            let database = database.load(environment)?;
            Ok::<_, String>(StoreOptions { database, ..StoreOptions::at(data) })
        };
        let (source, destination) = (options(self.source)?, options(self.destination)?);
        Ok(MigrationConfig { source, destination, notices: self.notices })
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_text;
    use super::*;
    use bulkhead_store::DatabaseChoice;

    const SOURCE: &str = "storage_source \"sqlite\" { path = \"/data\" }\n";
    const DESTINATION: &str = "storage_destination \"postgresql\" {\n  \
        connection_url = \"postgresql://u:secret-word@h/d\"\n}\n";

    fn parse(text: &str) -> Result<MigrationFile, ConfigRefusal> {
        MigrationFile::of_entries(&parse_text(text, false)?)
    }

    #[test]
    fn migration_has_both_places_and_ignores_cluster_address() {
        let text = format!("{SOURCE}{DESTINATION}cluster_addr = \"https://127.0.0.1:8201\"\n");
        let config = parse(&text).unwrap().load(&|_| None).unwrap();
        assert_eq!(config.source.directory, Path::new("/data"));
        assert!(matches!(config.source.database, DatabaseChoice::SqliteFile));
        assert!(matches!(config.destination.database, DatabaseChoice::Postgres(_)));
        assert_eq!(config.notices.len(), 1);
        assert!(!format!("{config:?}").contains("secret-word"));
    }

    #[test]
    fn migration_ignores_settings_of_shared_database() {
        let shared = DESTINATION.replace('{', "{\n  ha_enabled = \"true\"\n  node_id = \"a\"\n");
        let config = parse(&format!("{SOURCE}{shared}")).unwrap().load(&|_| None).unwrap();
        let named: Vec<&str> =
            config.notices.iter().map(|notice| notice.setting.as_str()).collect();
        assert_eq!(named, ["ha_enabled", "node_id"]);
        assert!(!config.destination.is_shared());
    }

    #[test]
    fn missing_and_unknown_words_are_refused_by_line() {
        for (text, line, says) in [
            (SOURCE.to_owned(), 1, "there is no storage_destination: write storage_destination"),
            (format!("{SOURCE}{DESTINATION}listener \"tcp\" {{}}\n"), 5, "unknown block"),
            (format!("{SOURCE}{SOURCE}{DESTINATION}"), 2, "given on line 1 already"),
            (format!("{DESTINATION}storage_source \"raft\" {{}}\n"), 4, "SQLite or PostgreSQL"),
            (format!("{DESTINATION}storage_source \"sqlite\" {{ pat = 1 }}\n"), 4, "pat"),
        ] {
            let refusal = parse(&text).expect_err(&text);
            let wrong = &refusal.errors[0];
            assert!(wrong.line == line && wrong.message.contains(says), "{text}: {wrong}");
        }
    }
}
