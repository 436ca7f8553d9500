//! A server whose data are on PostgreSQL, by a configuration file with a static seal: each start
//! opens by itself.

use crate::paths::Folder;
use crate::{Bulkhead, static_seal};
use std::path::PathBuf;

/// Returns a server with its configuration, which is not started, and the folder of the
/// configuration. The servers of all calls have the same key.
pub fn prepared(program: PathBuf, url: &str) -> (Bulkhead, Folder) {
    let folder = Folder::new("postgres-storage");
    let server = Bulkhead::prepared(program, Folder::new("postgres-data"))
        .configured(folder.path().join("bulkhead.hcl"));
    configure(&folder, &server, url);
    (server, folder)
}

/// Writes the configuration with this connection URL, for the next start.
pub fn configure(folder: &Folder, server: &Bulkhead, url: &str) {
    let text = format!(
        "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
         storage \"postgresql\" {{ connection_url = {url:?}\npath = {path:?} }}\n{seal}",
        path = server.data(),
        seal = static_seal::block(folder.path(), &["1"]),
    );
    std::fs::write(folder.path().join("bulkhead.hcl"), text).expect("a file can be written");
}
