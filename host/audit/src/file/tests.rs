//! Tests of `file.rs`.

use super::*;
use rustix::fs::FileType;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("bulkhead-audit-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> LineFile {
        LineFile::new(AuditTarget::File(self.0.join(name)), 0o600, false)
    }

    fn within(&self, name: &str) -> LineFile {
        let place = AuditTarget::Within { directory: self.0.join("api"), name: name.to_owned() };
        LineFile::new(place, 0o600, false)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pipe(path: &Path) -> File {
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    OpenOptions::new().read(true).custom_flags(non_blocking()).open(path).unwrap()
}

fn non_blocking() -> i32 {
    i32::try_from(OFlags::NONBLOCK.bits()).unwrap()
}

#[tokio::test]
async fn lines_of_many_stand_one_after_the_other() {
    let folder = Folder::new("many");
    let file = Arc::new(folder.file("log"));
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..50 {
        let file = Arc::clone(&file);
        writers.spawn(async move {
            file.append(&[b"line ", format!("{number:02}").as_bytes()], LONG).await.unwrap()
        });
    }
    writers.join_all().await;
    let text = folder.read("log");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> = (0..50).map(|number| format!("line {number:02}")).collect();
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn audit_file_is_owner_only_with_mode_corrected() {
    let folder = Folder::new("mode");
    let mode = || fs::metadata(folder.0.join("log")).unwrap().permissions().mode() & 0o7777;
    folder.file("log").append(&[b"x"], LONG).await.unwrap();
    assert_eq!(mode(), 0o600);
    fs::set_permissions(folder.0.join("log"), fs::Permissions::from_mode(0o755)).unwrap();
    folder.file("log").append(&[b"x"], LONG).await.unwrap();
    assert_eq!(mode(), 0o600);
    fs::set_permissions(folder.0.join("log"), fs::Permissions::from_mode(0o640)).unwrap();
    LineFile::new(AuditTarget::File(folder.0.join("log")), 0, false)
        .append(&[b"x"], LONG)
        .await
        .unwrap();
    assert_eq!(mode(), 0o640);
    assert_eq!(folder.read("log"), "x\nx\nx\n");
}

#[tokio::test]
async fn unfinished_line_of_dead_process_is_terminated_first() {
    let folder = Folder::new("dead");
    fs::write(folder.0.join("log"), "{\"half\":").unwrap();
    let file = folder.file("log");
    file.append(&[b"whole"], LONG).await.unwrap();
    file.append(&[b"next"], LONG).await.unwrap();
    assert_eq!(folder.read("log"), "{\"half\":\nwhole\nnext\n");
}

#[tokio::test]
async fn truncated_line_is_terminated_before_next_line() {
    let folder = Folder::new("cut");
    let mut reader = pipe(&folder.0.join("pipe"));
    let file = folder.file("pipe");
    let long = vec![b'a'; 100_000];
    let late = file.append(&[&long], Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    let mut read = vec![0; 100_000];
    let half = reader.read(&mut read).unwrap();
    assert!(half < long.len(), "{half}");
    file.append(&[b"next"], LONG).await.unwrap();
    let next = reader.read(&mut read).unwrap();
    assert_eq!(read.get(..next).unwrap(), b"\nnext\n");
}

#[tokio::test]
async fn line_longer_than_pipe_is_written_in_parts() {
    let folder = Folder::new("long");
    let mut reader = pipe(&folder.0.join("pipe"));
    let file = folder.file("pipe");
    let (long, mut read) = (vec![b'a'; 200_000], Vec::new());
    let line = [long.as_slice()];
    let append = file.append(&line, LONG);
    tokio::pin!(append);
    loop {
        let mut piece = vec![0; 65_536];
        tokio::select! {
            done = &mut append => break done.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(1)) => {
                let length = reader.read(&mut piece).unwrap_or_default();
                read.extend(piece.into_iter().take(length));
            }
        }
    }
    drop(reader.read_to_end(&mut read));
    assert_eq!((read.len(), read.last()), (200_001, Some(&b'\n')));
}

#[tokio::test]
async fn full_disk_or_missing_folder_fails_until_retry() {
    let folder = Folder::new("errors");
    let full = LineFile::new(AuditTarget::File("/dev/full".into()), 0o600, false);
    assert_eq!(full.append(&[b"x"], LONG).await.unwrap_err().kind(), io::ErrorKind::StorageFull);
    let file = folder.file("later/log");
    assert_eq!(file.append(&[b"x"], LONG).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    fs::create_dir(folder.0.join("later")).unwrap();
    file.append(&[b"y"], LONG).await.unwrap();
    assert_eq!(folder.read("later/log"), "y\n");
}

#[tokio::test]
async fn api_directory_is_created_rejecting_links_and_pipes() {
    let folder = Folder::new("within");
    folder.within("a.log").append(&[b"x"], LONG).await.unwrap();
    assert_eq!(folder.read("api/a.log"), "x\n");
    assert_eq!(fs::metadata(folder.0.join("api")).unwrap().permissions().mode() & 0o777, 0o700);
    fs::write(folder.0.join("victim"), "").unwrap();
    symlink(folder.0.join("victim"), folder.0.join("api/link")).unwrap();
    folder.within("link").append(&[b"x"], LONG).await.unwrap_err();
    let _reader = pipe(&folder.0.join("api/pipe"));
    folder.within("pipe").append(&[b"x"], LONG).await.unwrap_err();
    folder.within("..").append(&[b"x"], LONG).await.unwrap_err();
    assert_eq!(folder.read("victim"), "");
}

#[tokio::test]
async fn moved_file_is_released_once_path_reopens() {
    let folder = Folder::new("moved");
    let file = LineFile::new(AuditTarget::File(folder.0.join("log")), 0o600, true);
    file.reopen().await.unwrap();
    file.reopen().await.unwrap();
    file.append(&[b"one"], LONG).await.unwrap();
    fs::rename(folder.0.join("log"), folder.0.join("old")).unwrap();
    file.append(&[b"two"], LONG).await.unwrap();
    fs::create_dir(folder.0.join("log")).unwrap();
    file.reopen().await.unwrap_err();
    file.append(&[b"three"], LONG).await.unwrap();
    fs::remove_dir(folder.0.join("log")).unwrap();
    file.reopen().await.unwrap();
    file.append(&[b"four"], LONG).await.unwrap();
    assert_eq!(
        (folder.read("old").as_str(), folder.read("log").as_str()),
        ("one\ntwo\nthree\n", "four\n")
    );
}
