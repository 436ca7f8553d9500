//! Bodies in files: complete, aborted, too large, and several at a time.

use super::*;
use std::os::unix::fs::PermissionsExt;

/// A folder of this process, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("bulkhead-reception-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn count(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[tokio::test]
async fn body_is_private_file_until_last_drop() {
    let folder = Folder::new("whole");
    let receptions = FileReceptions::new(&folder.0);
    let mut reception = receptions.begin(Some(11)).unwrap();
    reception.write(b"first ").await.unwrap();
    reception.write(b"bytes").await.unwrap();
    let (file, length) = reception.finish().await.unwrap();
    assert_eq!((length, fs::read(file.path()).unwrap().as_slice()), (11, &b"first bytes"[..]));
    assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    let name = file.path().file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("restore-") && name.ends_with(".unfinished"), "{name}");
    let clone = file.clone();
    drop(file);
    assert!(clone.path().exists());
    drop(clone);
    assert_eq!(folder.count(), 0);
}

#[tokio::test]
async fn second_body_waits_for_first_to_end() {
    let folder = Folder::new("turns");
    let receptions = FileReceptions::new(&folder.0);
    let mut first = receptions.begin(None).unwrap();
    first.write(b"some").await.unwrap();
    let busy = receptions.clone().begin(None).err().unwrap();
    assert_eq!((busy.kind, busy.retry_after), (FailureKind::Unavailable, Some(RETRY_AFTER)));
    assert!(busy.message.contains("another snapshot"), "{}", busy.message);
    assert_eq!(folder.count(), 1);
    drop(first);
    assert_eq!(folder.count(), 0, "an aborted body leaves no file");
    let (file, _) = receptions.begin(None).unwrap().finish().await.unwrap();
    assert!(receptions.begin(None).is_err(), "the body is still in use");
    drop(file);
    receptions.begin(None).unwrap();
}

#[test]
fn too_large_body_is_refused_without_file() {
    let folder = Folder::new("large");
    let receptions = FileReceptions::new(&folder.0);
    let refused = receptions.begin(Some(MAX_FILE_BODY + 1)).err().unwrap();
    assert_eq!(refused.kind, FailureKind::TooLarge);
    assert!(refused.message.contains("1024GiB"), "{}", refused.message);
    // No disk of a machine that runs tests has this space.
    let refused = check_space(&folder.0, u64::MAX).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Unavailable);
    assert!(refused.message.contains("MiB that stay free"), "{}", refused.message);
    check_space(&folder.0, 0).unwrap();
    assert_eq!(folder.count(), 0);
}

#[test]
fn missing_directory_ends_turn_of_refused_body() {
    let folder = Folder::new("missing");
    let receptions = FileReceptions::new(&folder.0.join("none"));
    for _ in 0..2 {
        let refused = receptions.begin(None).err().unwrap();
        assert!(refused.message.contains("cannot be stored in"), "{}", refused.message);
    }
}
