//! Names, due times, rights of the directory, retention, and unfinished files.

use super::file::flush_directory;
use super::*;
use bulkhead_wire::failure::Failure;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// 2026-11-28T03:00:00Z, in milliseconds since 1970.
const THREE: u64 = 1_795_834_800_000;
const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// A directory of a test, deleted at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bulkhead-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }

    fn plan(&self, retain: usize) -> ScheduledSnapshot {
        let name = SnapshotName::parse("nightly").unwrap();
        let schedule = SnapshotSchedule::parse("0 3 * * *").unwrap();
        ScheduledSnapshot { name, schedule, directory: self.0.clone(), retain }
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn file_name_has_time_of_snapshot() {
    let name = SnapshotName::parse("nightly").unwrap();
    let file = name.file_of(THREE + 999).unwrap();
    assert_eq!(file, "nightly-2026-11-28T03-00-00Z.snap");
    assert_eq!(name.time_of(&file), Some(THREE));
    let unfinished = name.unfinished_file_of(THREE).unwrap();
    assert_eq!(unfinished, format!("{file}.unfinished"));
    assert!(name.is_unfinished(&unfinished) && !name.is_unfinished(&file));
    assert_eq!((name.time_of(&unfinished), name.file_of(u64::MAX)), (None, None));
    for foreign in [
        "nightly.snap",
        "nightly-2026-11-28.snap",
        "nightly-2026-11-28T03-00-00Z.snap.gz",
        "nightly-2026-11-31T03-00-00Z.snap",
        "nightly-2026-11-28T3-00-00Z.snap",
        "nightly--2026-11-28T03-00-00Z.snap",
        "nightly-2026-11-28T03-00-00Z",
        "weekly-2026-11-28T03-00-00Z.snap",
        "nightly-b-2026-11-28T03-00-00Z.snap",
        "nightly-+2026-11-28T03-00-00Z.snap",
    ] {
        assert_eq!(name.time_of(foreign), None, "{foreign}");
    }
}

#[test]
fn snapshot_name_begins_file_in_its_directory() {
    for name in ["nightly", "a", "0.hourly_to-nas", &"x".repeat(64)] {
        assert_eq!(SnapshotName::parse(name).unwrap().as_str(), name);
    }
    for name in ["", ".hidden", "-x", "a/b", "..", "a b", "\u{e4}", &"x".repeat(65)] {
        let why = SnapshotName::parse(name).unwrap_err();
        assert!(why.contains("letters, digits"), "{why}");
    }
}

#[test]
fn missed_time_is_due_once() {
    let nightly = SnapshotSchedule::parse("0 3 * * *").unwrap();
    // The server was off for three days: a single snapshot is due, and the next at its usual time.
    assert_eq!(nightly.due_after(Some(THREE)), THREE + DAY);
    let late = THREE + 3 * DAY + HOUR;
    assert_eq!(nightly.due_after(Some(late)), THREE + 4 * DAY);
    let interval = SnapshotSchedule::parse(" every  6h ").unwrap();
    assert_eq!(interval.due_after(Some(THREE)), THREE + 3 * HOUR);
    assert_eq!(interval.due_after(Some(THREE + 3 * HOUR)), THREE + 9 * HOUR);
    assert_eq!(interval.due_after(Some(u64::MAX)), u64::MAX);
    assert_eq!((nightly.due_after(None), interval.due_after(None)), (0, 0));
    assert_eq!(interval.to_string(), "every  6h");
}

#[test]
fn wrong_schedule_is_refused_with_both_forms() {
    for (text, part) in [
        ("", "five fields"),
        ("@daily", "five fields"),
        ("0 3 * *", "every 6h"),
        ("0 3 30 2 *", "never due"),
        ("every", "five fields"),
        ("every day", "is not a duration"),
        ("every 0s", "not between 1s and 366d"),
        ("every 367d", "not between 1s and 366d"),
        ("CRON_TZ=Europe/Paris 99 2 * * *", "minute"),
    ] {
        let why = SnapshotSchedule::parse(text).unwrap_err();
        assert!(why.contains(part), "{text}: {why}");
    }
}

#[test]
fn oldest_complete_files_beyond_retention_are_deleted() {
    let scratch = Scratch::new("retention");
    let plan = scratch.plan(2);
    let foreign = ["nightly.snap", "weekly-2026-11-28T03-00-00Z.snap", "notes.txt"];
    for name in foreign {
        fs::write(scratch.0.join(name), "").unwrap();
    }
    let at = |time| plan.name.file_of(time).unwrap();
    for day in 0..5 {
        fs::write(scratch.0.join(at(THREE + day * DAY)), "").unwrap();
    }
    // A directory with such a name is not a file of this snapshot.
    fs::create_dir(scratch.0.join(at(THREE - DAY))).unwrap();
    let saved = THREE + 4 * DAY;
    assert_eq!(plan.newest_until(saved + HOUR).unwrap(), Some(saved));
    assert_eq!(plan.newest_until(saved - HOUR).unwrap(), Some(saved - DAY));
    let retention = |deleted, later| Retention { deleted, later };
    assert_eq!(plan.delete_oldest(saved + 999).unwrap(), retention(3, 0));
    let mut expected: Vec<String> = foreign.map(str::to_owned).into();
    expected.extend([at(THREE - DAY), at(saved - DAY), at(saved)]);
    expected.sort();
    assert_eq!(scratch.files(), expected);
    // Files of a clock that was ahead stay, and take no place of a file of the right time.
    for day in [1, 300] {
        fs::write(scratch.0.join(at(saved + day * DAY)), "").unwrap();
    }
    assert_eq!(plan.delete_oldest(saved).unwrap(), retention(0, 2));
    assert!(scratch.0.join(at(saved)).exists() && scratch.0.join(at(saved - DAY)).exists());
    assert_eq!(plan.delete_oldest(saved - 1_000).unwrap(), retention(0, 3));
}

#[test]
fn failed_flush_of_directory_is_reported() {
    let scratch = Scratch::new("flush");
    flush_directory(&scratch.0.join("any.snap")).unwrap();
    let Err(failure) = flush_directory(&scratch.0.join("missing").join("any.snap")) else {
        panic!("the directory is missing")
    };
    assert!(failure.message.contains("flush the directory of"), "{}", failure.message);
}

#[test]
fn unfinished_file_without_rights_is_deleted() {
    let scratch = Scratch::new("without-rights");
    let plan = scratch.plan(1);
    let file = scratch.0.join(plan.name.unfinished_file_of(THREE).unwrap());
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o000)).unwrap();
    plan.delete_unfinished().unwrap();
    assert!(scratch.files().is_empty());
}

#[test]
fn incomplete_file_never_has_final_name() {
    let scratch = Scratch::new("incomplete");
    let plan = scratch.plan(1);
    let name = plan.name.unfinished_file_of(THREE).unwrap();
    let mut file = UnfinishedSnapshot::create(&plan, THREE).unwrap();
    file.append(b"not a snapshot").unwrap();
    assert_eq!(scratch.files(), std::slice::from_ref(&name));
    let mode = fs::metadata(scratch.0.join(&name)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Another process still writes the file.
    plan.delete_unfinished().unwrap_err();
    let Err(Failure { message, .. }) = file.complete(|| true) else { panic!("complete") };
    assert!(message.contains("not a complete snapshot"), "{message}");
    assert!(scratch.files().is_empty(), "{:?}", scratch.files());
    // A killed process leaves the file.
    fs::write(scratch.0.join(&name), "").unwrap();
    fs::write(scratch.0.join("other.snap.unfinished"), "").unwrap();
    plan.delete_unfinished().unwrap();
    assert_eq!(scratch.files(), ["other.snap.unfinished"]);
}

#[test]
fn unusable_directory_is_refused_with_remedy() {
    let (scratch, data) = (Scratch::new("directory"), Scratch::new("directory-data"));
    let plan = scratch.plan(1);
    plan.check_directory(&data.0).unwrap();
    plan.check_directory(Path::new("/nowhere/at/all")).unwrap();
    let refused = |plan: &ScheduledSnapshot, part: &str| {
        let message = plan.check_directory(&data.0).unwrap_err().message;
        assert!(message.contains(part) && message.contains("\"nightly\""), "{message}");
    };
    for mode in [0o701, 0o704, 0o720, 0o755] {
        fs::set_permissions(&scratch.0, Permissions::from_mode(mode)).unwrap();
        refused(&plan, &format!("mode {mode:04o}"));
    }
    fs::set_permissions(&scratch.0, Permissions::from_mode(0o750)).unwrap();
    plan.check_directory(&data.0).unwrap();
    let below = data.0.join("snapshots");
    fs::create_dir(&below).unwrap();
    fs::set_permissions(&below, Permissions::from_mode(0o700)).unwrap();
    for directory in [below, data.0.clone()] {
        refused(&ScheduledSnapshot { directory, ..plan.clone() }, "inside of the data directory");
    }
    let (missing, file) = (scratch.0.join("missing"), scratch.0.join("file"));
    fs::write(&file, "").unwrap();
    refused(&ScheduledSnapshot { directory: missing, ..plan.clone() }, "create ");
    refused(&ScheduledSnapshot { directory: file, ..plan }, "is not a directory");
}
