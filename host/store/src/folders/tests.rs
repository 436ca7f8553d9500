//! Numbers of folders, after commits inside and outside.

use super::*;
use crate::testing::data;

fn number(folders: &FolderNumbers, folder: &str) -> u64 {
    folders.number(folder, || false)
}

fn write(folders: &FolderNumbers, key: &str) {
    folders.begin_writing([data(key)].iter());
    folders.end_writing([data(key)].iter());
}

#[test]
fn folder_number_changes_only_with_writes_inside() {
    let folders = FolderNumbers::new().unwrap();
    let (roles, all) = (number(&folders, "m/roles/"), number(&folders, "m/"));
    for elsewhere in ["m/rolesy", "m/roles", "n/roles/a", "config"] {
        write(&folders, elsewhere);
        assert_eq!(number(&folders, "m/roles/"), roles, "{elsewhere}");
    }
    let after = number(&folders, "m/");
    assert_ne!(after, all, "m/rolesy lies in m/");
    write(&folders, "m/roles/a/b");
    assert!(number(&folders, "m/roles/") != roles && number(&folders, "m/") != after);
    let mine = folders.unused_number();
    assert!(!folders.has("m/", mine));
}

#[test]
fn folder_number_is_invalid_while_folder_is_written() {
    let folders = FolderNumbers::new().unwrap();
    let before = number(&folders, "m/");
    folders.begin_writing([data("m/new/a")].iter());
    let meanwhile = number(&folders, "m/");
    let new = folders.number("m/new/", || true);
    assert!(!folders.holds("m/", before) && !folders.holds("m/", meanwhile));
    assert!(!folders.holds("m/new/", new));
    assert!(folders.has("m/", before), "the committer itself is not about to change it again");
    folders.end_writing([data("m/new/a")].iter());
    assert!(!folders.has("m/", before) && !folders.has("m/", meanwhile));
    assert!(!folders.has("m/new/", new));
    assert!(folders.holds("m/", number(&folders, "m/")));
}

#[test]
fn many_folders_of_mount_evict_only_own_numbers() {
    let folders = FolderNumbers::new().unwrap();
    let (other, own) = (number(&folders, "n/"), number(&folders, "m/first/"));
    for count in 0..2 * MOST_FOLDERS {
        number(&folders, &format!("m/{count}/"));
    }
    assert!(folders.has("n/", other) && !folders.has("m/first/", own));
    assert_eq!(folders.lock().mounts["m"].len(), MOST_FOLDERS);
    assert_ne!(number(&folders, "m/first/"), own, "no number is given twice");
}

#[test]
fn the_mounts_are_bounded() {
    let folders = FolderNumbers::new().unwrap();
    for count in 0..=MOST_MOUNTS {
        number(&folders, &format!("{count}/"));
    }
    assert_eq!(folders.lock().mounts.len(), 1);
}
