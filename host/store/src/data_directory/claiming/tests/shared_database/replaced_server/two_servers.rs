//! A primary server of a test with a synchronous standby, which the test promotes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;

/// The servers, stopped when dropped.
pub(super) struct TwoServers {
    pub(super) primary: u16,
    pub(super) standby: u16,
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl TwoServers {
    /// Starts both servers. Each commit of the primary waits for the standby.
    pub(super) fn start() -> TwoServers {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/servers/postgres.sh");
        let mut process = Command::new(script)
            .args(["--until-eof", "-c", "fsync=off"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut servers = TwoServers { primary: 0, standby: 0, process, answers };
        let ready = servers.next_line();
        servers.primary = bulkhead_test_database::value_of(&ready, "port").parse().unwrap();
        let followed = servers.order("follow");
        servers.standby = bulkhead_test_database::value_of(&followed, "port").parse().unwrap();
        servers
    }

    /// Makes the standby the second primary server. The first one still serves.
    pub(super) fn promote(&mut self) {
        self.order("promote");
    }

    /// Stops the standby: no commit of the primary ends.
    pub(super) fn kill_standby(&mut self) {
        self.order("kill-standby");
    }

    /// Kills the primary server.
    pub(super) fn stop_primary(&mut self) {
        self.order("kill");
    }

    /// Starts the stopped standby.
    pub(super) fn start_standby(&mut self) {
        self.order("start-standby");
    }

    fn order(&mut self, act: &str) -> String {
        writeln!(self.process.stdin.as_mut().unwrap(), "{act}").unwrap();
        let answer = self.next_line();
        assert!(answer.ends_with("done\n"), "{act}: {answer}");
        answer
    }

    fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line
    }

    /// Returns a directory with an initialised store on the primary server.
    pub(super) async fn scratch(&self) -> ScratchDirectory {
        let mut scratch = behind(&ScratchDirectory::on(TestDatabase::Postgres), &[self.primary]);
        let schema = "public".to_owned();
        scratch.change_place(|place| PostgresPlace { schema, ..place.clone() });
        scratch.open().await.close().await;
        scratch
    }
}

impl Drop for TwoServers {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }
}
