//! Files of a data directory whose records are on a server: the id of the node, and the last known
//! commit.
//!
//! This file prevents a server that continues on a database which lost acknowledged writes, on the
//! backup of another cluster, or on an empty database: the directory notes the cluster and the
//! number of its last known commit, and an opening compares both.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use aws_lc_rs::digest;
use bulkhead_wire::{hexadecimal, sync};

use crate::directory;
use bulkhead_record::cipher;
use bulkhead_record::fault::StoreFault;

const NODE_FILE: &str = "node-id";
const MARK_FILE: &str = "database-mark";
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The identity of a data directory on a machine. Processes with the same id never run at the same
/// time, because the directory has a lock.
pub type NodeId = Vec<u8>;

/// Returns the id of the directory; `None` if the directory has none yet.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the file cannot be read.
pub fn read_node(directory: &Path) -> Result<Option<NodeId>, StoreFault> {
    let path = directory.join(NODE_FILE);
    let Some(random) = read_if_exists(&path)? else { return Ok(None) };
    let status = fs::metadata(&path);
    let status = status.map_err(|error| directory::file_failure("read", &path, &error))?;
    // A copy of the directory, as in a cloned machine, is another node.
    let parts = format!("{}/{}/{}", random.trim(), status.ino(), host_name());
    Ok(Some(digest::digest(&digest::SHA256, parts.as_bytes()).as_ref().to_vec()))
}

/// Returns the id of the directory, and creates the id if missing.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the file cannot be read or written.
pub fn ensure_node(directory: &Path) -> Result<Option<NodeId>, StoreFault> {
    if let Some(node) = read_node(directory)? {
        return Ok(Some(node));
    }
    let path = directory.join(NODE_FILE);
    let random = hexadecimal::text(&cipher::random::<16>()?);
    directory::write_whole(&path, format!("{random}\n").as_bytes())
        .map_err(|error| directory::file_failure("create", &path, &error))?;
    directory::flush(directory)?;
    read_node(directory)
}

/// Returns the words for this process in the messages of other nodes.
pub fn process_name() -> String {
    format!("process {} on host {}", std::process::id(), host_name())
}

/// Returns the name of this machine; `unknown` if the kernel does not show a name.
pub fn host_name() -> String {
    let name = fs::read_to_string(HOST_NAME).unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

fn read_if_exists(path: &Path) -> Result<Option<String>, StoreFault> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(directory::file_failure("read", path, &error)),
    }
}

/// The file with the cluster, a node, and the number of the node's last known commit.
pub struct MarkFile {
    directory: PathBuf,
    cluster: String,
    /// The content of the file.
    mark: Mutex<KnownCommit>,
    /// Lock of the file. `true` once nothing more is written.
    is_closed: Mutex<bool>,
}

/// The last known commit of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownCommit {
    /// Name of the row of the node. A directory that was moved, or is on a machine with another
    /// name, is another node, and its mark is of the node before.
    pub node: String,
    /// Number of the commit; 0 without a mark.
    pub commits: i64,
}

impl MarkFile {
    /// Reads the mark of `directory` for a database of `cluster`.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if the mark is of another cluster, or cannot be understood;
    /// [`StoreFault::Unavailable`] if the file cannot be read.
    pub fn open(directory: &Path, cluster: &str) -> Result<MarkFile, StoreFault> {
        let mark = read_mark(directory)?;
        if let Some((marked, _)) = &mark
            && marked != cluster
        {
            return Err(StoreFault::Refused(format!(
                "the data directory {} belonged to cluster {marked}, and the database is of \
                 cluster {cluster}; {}",
                directory.display(),
                remedy(directory)
            )));
        }
        let mark = mark.map(|(_, mark)| mark).unwrap_or_default();
        Ok(MarkFile::with(directory, (cluster, mark)))
    }

    /// Creates the mark of a process that replaces the data, whichever mark `directory` has.
    pub fn unread(directory: &Path) -> MarkFile {
        MarkFile::with(directory, ("", KnownCommit::default()))
    }

    fn with(directory: &Path, (cluster, mark): (&str, KnownCommit)) -> MarkFile {
        MarkFile {
            directory: directory.to_owned(),
            cluster: cluster.to_owned(),
            mark: Mutex::new(mark),
            is_closed: Mutex::new(false),
        }
    }

    /// Returns the content of the file.
    pub fn mark(&self) -> KnownCommit {
        sync::lock(&self.mark).clone()
    }

    /// Writes a commit of another node than in the file, or with a higher number. A mark that
    /// cannot be written stays: the mark is an additional proof, and the commits do not depend on
    /// the file. Writes nothing after [`MarkFile::close`].
    pub fn raise(&self, known: KnownCommit) {
        let is_closed = sync::lock(&self.is_closed);
        let mark = self.mark();
        if *is_closed || mark.node == known.node && known.commits <= mark.commits {
            return;
        }
        let KnownCommit { node, commits } = &known;
        let text = format!("cluster {}\nnode {node}\ncommits {commits}\n", self.cluster);
        let path = self.directory.join(MARK_FILE);
        if directory::write_whole(&path, text.as_bytes()).is_ok() {
            *sync::lock(&self.mark) = known;
            _ = directory::flush(&self.directory);
        }
    }

    /// Ends the writing, after a write in progress: a late thread must not write the mark again
    /// after the removal of the file.
    pub fn close(&self) {
        *sync::lock(&self.is_closed) = true;
    }

    /// Removes the file, directly before other data replace the data of the database, and ends the
    /// writing.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the file cannot be removed.
    pub fn remove(&self) -> Result<(), StoreFault> {
        let mut is_closed = sync::lock(&self.is_closed);
        *is_closed = true;
        let path = self.directory.join(MARK_FILE);
        match fs::remove_file(&path) {
            Ok(()) => directory::flush(&self.directory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(directory::file_failure("remove", &path, &error)),
        }
    }

    /// Returns the fault for a database with fewer commits than a server knows of.
    pub fn lost_commits(&self, database: &Path, found: i64, known: i64) -> String {
        format!(
            "{} has commit {found}, and this server knows of commit {known}: acknowledged writes \
             are lost, as after a failover to a standby that was behind, or after the restore of a \
             backup; {}",
            database.display(),
            remedy(&self.directory)
        )
    }
}

/// Checks that no database belonged to the directory, because the database has no data.
///
/// # Errors
/// [`StoreFault::Refused`] if a database belonged to the directory.
pub fn check_unmarked(directory: &Path, database: &Path) -> Result<(), StoreFault> {
    let Some((cluster, KnownCommit { commits, .. })) = read_mark(directory)? else {
        return Ok(());
    };
    Err(StoreFault::Refused(format!(
        "{} holds no data, and the data directory {} belonged to cluster {cluster} with commit \
         {commits}; {}",
        database.display(),
        directory.display(),
        remedy(directory)
    )))
}

fn remedy(directory: &Path) -> String {
    format!(
        "nothing was changed; give the right database, or remove the file {} to accept the \
         database as found",
        directory.join(MARK_FILE).display()
    )
}

/// Returns the cluster and the last known commit.
fn read_mark(directory: &Path) -> Result<Option<(String, KnownCommit)>, StoreFault> {
    let path = directory.join(MARK_FILE);
    let Some(text) = read_if_exists(&path)? else { return Ok(None) };
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let commits = value("commits ").and_then(|number| number.parse().ok());
    match (value("cluster "), commits) {
        (Some(cluster), Some(commits)) => {
            let node = value("node ").unwrap_or_default().to_owned();
            Ok(Some((cluster.to_owned(), KnownCommit { node, commits })))
        }
        _ => Err(StoreFault::Refused(format!(
            "the file {} does not hold a cluster and a number; {}",
            path.display(),
            remedy(directory)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("bulkhead-{name}-{}", std::process::id()));
            directory::create(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn node_id_lasts_and_copy_is_another_node() {
        let (Folder(node_folder), Folder(copy)) = (&Folder::new("node"), &Folder::new("copy"));
        assert_eq!(read_node(node_folder), Ok(None));
        let node = ensure_node(node_folder).unwrap();
        assert!(node.is_some());
        assert_eq!(ensure_node(node_folder).unwrap(), node);
        fs::copy(node_folder.join(NODE_FILE), copy.join(NODE_FILE)).unwrap();
        assert_ne!(read_node(copy).unwrap(), node);
    }

    #[test]
    fn mark_rises_and_refuses_other_clusters() {
        let Folder(path) = &Folder::new("mark");
        assert_eq!(check_unmarked(path, Path::new("db")), Ok(()));
        let mark = MarkFile::open(path, "a").unwrap();
        let commit_of = |node: &str, commits| KnownCommit { node: node.to_owned(), commits };
        for (raised, expected) in [
            (commit_of("n", 7), commit_of("n", 7)),
            (commit_of("n", 6), commit_of("n", 7)),
            (commit_of("moved", 1), commit_of("moved", 1)),
        ] {
            mark.raise(raised);
            assert_eq!(MarkFile::open(path, "a").unwrap().mark(), expected);
        }
        let refusal = MarkFile::open(path, "b").err().unwrap().to_string();
        assert!(refusal.contains("cluster a") && refusal.contains(MARK_FILE), "{refusal}");
        assert!(check_unmarked(path, Path::new("db")).is_err());
        fs::write(path.join(MARK_FILE), "commits x").unwrap();
        assert!(MarkFile::open(path, "a").is_err());
        MarkFile::unread(path).remove().unwrap();
        mark.close();
        mark.raise(commit_of("n", 8));
        MarkFile::unread(path).remove().unwrap();
        assert_eq!(MarkFile::open(path, "b").unwrap().mark(), KnownCommit::default());
    }
}
