//! A server that reaches a test's internet through the proxy.

use super::Internet;
use crate::bulkhead::Bulkhead;
use crate::client::Client;
use crate::clock::Clock;
use crate::operators::Operators;
use crate::paths::{Folder, binary};
use crate::storage;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// An unsealed server without dev mode and without mounts.
pub struct Online {
    pub server: Bulkhead,
    /// Keys to unseal the server after each start.
    pub operators: Operators,
    pub root: Client,
    folder: Folder,
    /// The machine's clock, from the first restart on.
    clock: Clock,
}

impl Internet {
    /// Starts and unseals a server of the released binary that uses this proxy and trusts its
    /// authority. `more` is appended to the configuration.
    #[track_caller]
    pub fn server(&self, more: &str) -> Online {
        self.server_of(binary(), more, &[])
    }

    /// Like [`Internet::server`], for another build and with additions to the environment.
    #[track_caller]
    pub fn server_of(&self, build: PathBuf, more: &str, environment: &[(&str, String)]) -> Online {
        let folder = Folder::new("online");
        let block = format!("http_proxy = \"{}\"", self.proxy());
        Online::start(
            self,
            folder,
            build,
            &format!("outbound {{\n  {block}\n{CA}\n}}\n{more}"),
            environment,
        )
    }

    /// Starts a server with `block` and the authority as its `outbound` block. `folder` holds the
    /// files that the block names.
    #[track_caller]
    pub fn server_with(
        &self,
        folder: Folder,
        block: &str,
        environment: &[(&str, String)],
    ) -> Online {
        let text = format!("outbound {{\n  {block}\n{CA}\n}}\n");
        Online::start(self, folder, binary(), &text, environment)
    }
}

/// Placeholder for the line that names the authority's file.
const CA: &str = "  # ca";

impl Online {
    #[track_caller]
    fn start(
        internet: &Internet,
        folder: Folder,
        build: PathBuf,
        text: &str,
        environment: &[(&str, String)],
    ) -> Self {
        let authority = folder.path().join("authority.pem");
        fs::write(&authority, internet.authority()).expect("a file can be written");
        let data = Folder::new("online-data");
        let named = format!("  ca_file = \"{}\"", authority.display());
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
             {}\n{}",
            storage::block(data.path()),
            text.replace(CA, &named)
        );
        let file = folder.path().join("bulkhead.hcl");
        fs::write(&file, text).expect("a file can be written");
        let mut server = Bulkhead::prepared(build, data).configured(file);
        server.start_with(environment).unwrap_or_else(|_| panic!("{}", server.printed()));
        let operators = Operators::initialise(&server, 1, 1);
        operators.unseal(&server);
        let root = operators.root(&server);
        Self { server, operators, root, folder, clock: Clock::right() }
    }

    pub fn configuration(&self) -> PathBuf {
        self.folder.path().join("bulkhead.hcl")
    }

    /// Kills the server, starts it again on the same data, and unseals it.
    #[track_caller]
    pub fn restart(&mut self) {
        self.server.kill();
        self.restart_with(&[]);
    }

    /// Stops the server gracefully, sets the clock ahead, and starts and unseals the server.
    #[track_caller]
    pub fn restart_later(&mut self, by: Duration) {
        assert!(self.server.stop(), "{}", self.server.printed());
        self.clock.set_ahead(i64::try_from(by.as_secs()).expect("a while"));
        let environment = self.clock.over();
        self.restart_with(&environment);
    }

    #[track_caller]
    fn restart_with(&mut self, environment: &[(&str, String)]) {
        let started = self.server.start_with(environment);
        started.unwrap_or_else(|_| panic!("{}", self.server.printed()));
        self.operators.unseal(&self.server);
        self.root = self.operators.root(&self.server);
    }
}

/// Writes a file that only the owner may read, and returns its path.
pub fn secret_file(folder: &Folder, name: &str, text: &str) -> PathBuf {
    let file = folder.path().join(name);
    fs::write(&file, text).expect("a file can be written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))
        .expect("the mode of the file can be set");
    file
}
