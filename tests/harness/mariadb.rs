//! A private MariaDB, or a MySQL in its place.

use crate::authority::Authority;
use crate::paths::Folder;
use crate::server_script::ServerScript;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The administrator's password if a test does not choose one.
const ORDINARY: &str = "Xk7-Qz2-Wv9-Jt4";

/// Environment variable that makes the tests start MySQL: `make test-mysql`.
const MYSQL: &str = "BULKHEAD_TEST_MYSQL";

/// A running server with the database `demo` and its table `orders`.
pub struct MariaDb {
    _script: ServerScript,
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Password of the administrator `bulkhead`.
    pub password: String,
    /// Authority that the server trusts; the server presents its certificate.
    pub authority: Authority,
}

impl MariaDb {
    /// Starts a server with these options (such as `--require-secure-transport=ON`).
    pub fn start(options: &[&str]) -> Self {
        let environment = [("BULKHEAD_DB_PASSWORD", ORDINARY)];
        let name = if std::env::var_os(MYSQL).is_some() { "mysql" } else { "mariadb" };
        let script = ServerScript::start(name, options, &environment);
        Self {
            port: script.said("port"),
            authority: Authority(script.said("folder")),
            password: ORDINARY.to_owned(),
            _script: script,
        }
    }

    /// Connection URL for Bulkhead, with placeholders for user and password.
    pub fn url(&self) -> String {
        format!("{{{{username}}}}:{{{{password}}}}@tcp(127.0.0.1:{})/demo", self.port)
    }

    /// Runs SQL as administrator. The answer is rows of tab-separated columns.
    #[track_caller]
    pub fn query(&self, sql: &str) -> String {
        self.login("bulkhead", &self.password, sql)
            .unwrap_or_else(|refusal| panic!("{sql}: {refusal}"))
    }

    /// Logs in with the real client in a new session, and runs SQL.
    ///
    /// # Errors
    /// The client's output, if the login or the statement is refused.
    pub fn login(&self, user: &str, password: &str, sql: &str) -> Result<String, String> {
        finished(self.client(user, password, sql))
    }

    /// Logs in with a certificate and without a password, and runs SQL.
    ///
    /// # Errors
    /// The client's output, if the login or the statement is refused.
    pub fn login_certified(
        &self,
        user: &str,
        certificate: &str,
        key: &str,
        sql: &str,
    ) -> Result<String, String> {
        let folder = Folder::new("login");
        let [certificate, key] = [("client.pem", certificate), ("client.key", key)]
            .map(|(name, pem)| folder.file(name, pem));
        let mut command = self.client(user, "", sql);
        command.arg(format!("--ssl-cert={certificate}")).arg(format!("--ssl-key={key}"));
        finished(command)
    }

    /// Opens a session that sleeps until something ends it.
    pub fn sleeper(&self, user: &str, password: &str) -> Child {
        let child = self
            .client(user, password, "SELECT SLEEP(600)")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the client can be started");
        let asleep =
            format!("SELECT count(*) FROM information_schema.PROCESSLIST WHERE USER = '{user}'");
        crate::wait::until_true("the session is open", Duration::from_secs(10), || {
            self.query(&asleep) == "1"
        });
        child
    }

    /// Lists the accounts that Bulkhead created, as `user@host`, sorted.
    pub fn users(&self) -> Vec<String> {
        let rows = self.query(
            "SELECT CONCAT(User, '@', Host) FROM mysql.user WHERE User LIKE 'v-%' ORDER BY 1",
        );
        rows.lines().map(str::to_owned).collect()
    }

    fn client(&self, user: &str, password: &str, sql: &str) -> Command {
        let mut command = Command::new("mariadb");
        command
            .args(["--no-defaults", "--batch", "--skip-column-names", "--host=127.0.0.1"])
            .args(["--connect-timeout=5", "--ssl", "--database=demo"])
            .args([format!("--port={}", self.port), format!("--user={user}")])
            .args([format!("--password={password}"), format!("--execute={sql}")])
            .stdin(Stdio::null());
        command
    }
}

fn finished(mut command: Command) -> Result<String, String> {
    let Output { status, stdout, stderr } = command.output().expect("the client can be started");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end().to_owned();
    if status.success() { Ok(text(stdout)) } else { Err(text(stderr)) }
}
