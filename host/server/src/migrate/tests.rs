//! The command line and the results of `bulkhead operator migrate`.

use super::*;
use bulkhead_store::{SealKey, Store, StoreOptions};
use std::path::Path;

fn parse_words(words: &[&str]) -> Result<MigrateAction, String> {
    parse(words.iter().map(OsString::from))
}

#[test]
fn migrate_takes_published_options_and_needs_file() {
    let request = |is_reset| {
        Ok(MigrateAction::Migrate(MigrateRequest { file: PathBuf::from("m.hcl"), is_reset }))
    };
    assert_eq!(parse_words(&["-config=m.hcl"]), request(false));
    assert_eq!(parse_words(&["-config", "m.hcl", "-reset"]), request(true));
    assert_eq!(parse_words(&["-reset=false", "--config=m.hcl"]), request(false));
    let ignored =
        ["-config=m.hcl", "-max-parallel=10", "-log-level=debug", "-log-format=json", "-start="];
    assert_eq!(parse_words(&ignored), request(false));
    assert_eq!(parse_words(&["-help"]), Ok(MigrateAction::Help));
    for (words, part) in [
        (&[][..], "-config=FILE"),
        (&["-config="], "-config=FILE"),
        (&["-config=a", "-config=b"], "twice"),
        (&["-config=a", "-start=core/"], "copies all records"),
        (&["-config=a", "-max-parallel=0"], "is not a number from 1"),
        (&["-config=a", "-reset=maybe"], "is not a flag"),
        (&["-config=a", "data"], "operator migrate -help"),
    ] {
        let why = parse_words(words).unwrap_err();
        assert!(why.contains(part), "{words:?}: {why}");
    }
}

/// A folder with a file of a migration, removed when dropped.
struct MigrationFolder(PathBuf);

impl MigrationFolder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("bulkhead-migrate-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "storage_source \"sqlite\" {{ path = {:?} }}\n\
             storage_destination \"sqlite\" {{ path = {:?} }}\n\
             cluster_addr = \"https://127.0.0.1:8201\"\n",
            folder.join("from"),
            folder.join("to")
        );
        std::fs::write(folder.join("m.hcl"), text).unwrap();
        Self(folder)
    }

    async fn run(&self, is_reset: bool) -> (Result<(), String>, String, String) {
        let request = MigrateRequest { file: self.0.join("m.hcl"), is_reset };
        let (mut screen, mut out) = (Vec::new(), Vec::new());
        let outcome = run(&request, ProgressScreen::new(&mut screen, false), &mut out).await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (outcome, text(screen), text(out))
    }

    async fn open(&self, name: &str) -> Result<(), String> {
        let options = StoreOptions::at(self.0.join(name));
        let opened = Store::open(options, SealKey::from_bytes([1; 32])).await;
        opened.map_err(|fault| fault.to_string())?.close().await;
        Ok(())
    }
}

impl Drop for MigrationFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[tokio::test]
async fn migration_reports_progress_and_next_steps() {
    let folder = MigrationFolder::new("report");
    let (outcome, _, _) = folder.run(false).await;
    assert!(outcome.unwrap_err().contains("holds no data"));
    assert!(!folder.0.join("to").exists(), "a refused migration creates nothing");
    folder.open("from").await.unwrap();
    let (outcome, screen, out) = folder.run(false).await;
    assert_eq!(outcome, Ok(()));
    assert!(screen.contains("cluster_addr: a migration needs no cluster"), "{screen}");
    assert!(screen.contains("compared 0 of 0 records (100 %)"), "{screen}");
    assert!(out.contains("0 records of the cluster ") && out.contains("-reset"), "{out}");
    assert!(folder.open("from").await.unwrap_err().contains("were migrated to"));
    folder.open("to").await.unwrap();
    let (outcome, _, _) = folder.run(false).await;
    assert!(outcome.unwrap_err().contains("complete already"));
    let (outcome, _, out) = folder.run(true).await;
    assert!(outcome.is_ok() && out.contains("The mark was removed"), "{out}");
    folder.open("from").await.unwrap();
    let (outcome, _, out) = folder.run(true).await;
    assert!(outcome.is_ok() && out.contains("nothing was changed"), "{out}");
}

#[tokio::test]
async fn unreadable_file_is_refused_with_its_name() {
    let request = MigrateRequest { file: PathBuf::from("/nonexistent/m.hcl"), is_reset: false };
    let (mut screen, mut out) = (Vec::new(), Vec::new());
    let outcome = run(&request, ProgressScreen::new(&mut screen, false), &mut out).await;
    let why = outcome.unwrap_err();
    assert!(why.contains("/nonexistent/m.hcl cannot be read"), "{why}");
    assert!(!Path::new("/nonexistent").exists());
}
