//! The Unix socket of the listener.
//!
//! This file prevents 3 mistakes: a socket that others can open before its mode is set, an
//! operator's file that is removed because it is taken for an old socket, and 2 servers on the same
//! path.

use crate::config::UnixSettings;
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid};
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// A bound Unix socket, removed when dropped if this process created the file.
pub(crate) struct UnixSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the created file. `None`: the service manager has the socket, and the
    /// next server uses the same one.
    made: Option<(u64, u64)>,
}

impl UnixSocket {
    /// Binds the path of `settings`.
    ///
    /// # Errors
    /// The obstacle and its remedy.
    pub(crate) fn bind(settings: &UnixSettings) -> Result<Self, String> {
        let path = &settings.path;
        let shown = path.display();
        let user =
            settings.user.as_deref().map(|name| resolve_id(name, "/etc/passwd", "socket_user"));
        let group =
            settings.group.as_deref().map(|name| resolve_id(name, "/etc/group", "socket_group"));
        let (user, group) = (user.transpose()?, group.transpose()?);
        make_room(path)?;
        let cannot = |error: io::Error| {
            format!("cannot listen on {shown}: {error}; choose another path, or create the folder")
        };
        // The umask keeps other users out until the mode is set (see hardening.rs).
        let listener = UnixListener::bind(path).map_err(cannot)?;
        let file_identity = identity(&std::fs::symlink_metadata(path).map_err(cannot)?);
        let socket = Self { listener, path: path.clone(), made: Some(file_identity) };
        let owned = rustix::fs::chownat(
            CWD,
            path,
            user.map(Uid::from_raw),
            group.map(Gid::from_raw),
            AtFlags::SYMLINK_NOFOLLOW,
        );
        owned.map_err(|error| {
            format!(
                "{shown} cannot be given to socket_user and socket_group: {error}; name a group of \
                 this process's user, or start the server as root"
            )
        })?;
        let mode = Mode::from_raw_mode(settings.mode);
        std::fs::set_permissions(path, Permissions::from_mode(mode.as_raw_mode()))
            .map_err(|error| format!("the mode of {shown} cannot be set: {error}"))?;
        Ok(socket)
    }

    /// Takes a socket that the service manager bound to `path`.
    ///
    /// # Errors
    /// The runtime cannot watch the socket.
    pub(crate) fn handed_over(
        socket: std::os::unix::net::UnixListener,
        path: &Path,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let listener = UnixListener::from_std(socket)?;
        Ok(Self { listener, path: path.to_path_buf(), made: None })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let Some(made) = self.made else { return };
        let is_ours = std::fs::symlink_metadata(&self.path).is_ok_and(|it| identity(&it) == made);
        if is_ours {
            // A socket that cannot be removed is found and reported at the next start.
            std::fs::remove_file(&self.path).unwrap_or_default();
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Removes the socket of a server that died.
fn make_room(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(format!(
            "{shown} exists and is not a socket; choose another path, or move the file away"
        ));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| {
                format!("the old socket {shown} cannot be removed: {error}; remove it")
            })
        }
        _ => Err(format!(
            "a server listens on {shown} already; stop that server, or choose another path"
        )),
    }
}

/// Returns the number of a user or group, given as a number or as a name in `file`.
fn resolve_id(name: &str, file: &str, key: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{file} cannot be read: {error}"))?;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(account, _)| *account == name)
        .and_then(|(_, rest)| rest.split(':').nth(1)?.parse().ok())
        .ok_or_else(|| {
            format!("{key} {name:?} is not in {file}; give a name in this file, or a number")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_access::random;

    /// A folder of this test's own, removed with it.
    struct TestFolder(PathBuf);

    impl TestFolder {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("bh-{}", random::base62(8).unwrap()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn socket(&self, mode: u32) -> UnixSettings {
            let (path, user, group) = (self.0.join("s"), None, None);
            UnixSettings { path, mode, user, group, is_trusted_proxy: false, opens_metrics: false }
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[tokio::test]
    async fn socket_has_requested_mode_and_ends_with_server() {
        let folder = TestFolder::new();
        let settings = folder.socket(0o660);
        let socket = UnixSocket::bind(&settings).unwrap();
        let mode = std::fs::metadata(&settings.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let error = UnixSocket::bind(&settings).err().unwrap();
        assert!(
            error.contains("a server listens on") && error.contains("stop that server"),
            "{error}"
        );
        assert!(UnixStream::connect(&settings.path).is_ok(), "the first one still listens");
        drop(socket);
        assert!(!settings.path.exists());
    }

    #[tokio::test]
    async fn stale_socket_is_replaced_but_operator_file_stays() {
        let folder = TestFolder::new();
        let settings = folder.socket(0o600);
        drop(std::os::unix::net::UnixListener::bind(&settings.path).unwrap());
        drop(UnixSocket::bind(&settings).unwrap());
        std::fs::write(&settings.path, "precious").unwrap();
        let error = UnixSocket::bind(&settings).err().unwrap();
        assert!(error.contains("not a socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&settings.path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn owner_is_name_or_number_and_must_exist() {
        assert_eq!(resolve_id("root", "/etc/passwd", "socket_user"), Ok(0));
        assert_eq!(resolve_id("17", "/etc/group", "socket_group"), Ok(17));
        let folder = TestFolder::new();
        let user = Some("no-such-user".to_owned());
        let settings = UnixSettings { user, ..folder.socket(0o600) };
        let error = UnixSocket::bind(&settings).err().unwrap();
        assert!(error.contains("socket_user \"no-such-user\""), "{error}");
        assert!(!settings.path.exists());
    }
}
