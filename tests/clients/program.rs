//! The programs of this folder, which run one part at a time.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::{repository, target};
use std::process::Command;

/// A program and its client library.
pub struct Program {
    pub interpreter: &'static str,
    /// File name of the program in this folder.
    pub file: &'static str,
    /// Folder of the client library below the build's `clients`.
    pub client: &'static str,
    /// Environment variable with the interpreter's search path.
    pub path: &'static str,
}

impl Program {
    /// Runs one part of the program against this server, with these additional variables.
    #[track_caller]
    pub fn call(&self, server: &Bulkhead, part: &str, environment: &[(&str, &str)]) {
        let client = target().join("clients").join(self.client);
        assert!(client.is_dir(), "{} is missing: run tests/clients/install.sh", self.client);
        let mut command = Command::new(self.interpreter);
        command
            .arg(repository().join("tests/clients").join(self.file))
            .arg(part)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env(self.path, client)
            .env("VAULT_ADDR", server.url())
            .envs(environment.iter().copied());
        expect_done(&mut command, part, server);
    }
}

/// Prepares a part of a Go program, without an environment.
pub fn go_program(name: &str, part: &str) -> Command {
    let program = target().join("clients/go").join(name);
    assert!(program.is_file(), "{} is missing: run tests/clients/install.sh", program.display());
    let mut command = Command::new(program);
    command.arg(part).env_clear();
    command
}

/// Runs a program. Fails unless the program reports that the part is done.
#[track_caller]
pub fn expect_done(command: &mut Command, part: &str, server: &Bulkhead) {
    let output = command.output().expect("the program can be started");
    let printed = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{part}: {printed}{error}\n{}", server.printed());
    assert_eq!(printed.trim(), format!("{part}: done"), "the part ran to its end");
}
