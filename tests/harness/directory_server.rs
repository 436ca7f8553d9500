//! A private OpenLDAP or Active Directory (Samba).
//!
//! All tests of a program share one server of each kind. Each test has its own organizational unit,
//! with an account for the engine that has exactly the rights of `docs/directory.md`. The harness
//! reads and changes the directory with OpenLDAP's clients.

use crate::server_script::ServerScript;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

const ADMINISTRATOR: &str = "Hull-8241-Wv";
/// The engine's password in every branch until the first rotation.
const ENGINE: &str = "Xk7-Qz2-Wv9-Jt4";
/// LDAP result code `invalidCredentials`.
const REFUSED: i32 = 49;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryKind {
    /// OpenLDAP with password policies.
    OpenLdap,
    /// Samba as an Active Directory.
    Samba,
}

pub const KINDS: [DirectoryKind; 2] = [DirectoryKind::OpenLdap, DirectoryKind::Samba];

impl DirectoryKind {
    /// Value of `schema` in the engine's configuration.
    pub fn schema(self) -> &'static str {
        match self {
            Self::OpenLdap => "openldap",
            Self::Samba => "ad",
        }
    }
}

pub struct DirectoryServer {
    pub kind: DirectoryKind,
    script: Mutex<ServerScript>,
    host: String,
    port: u16,
    tls_port: u16,
    folder: PathBuf,
    branches: AtomicU32,
}

/// A test's own organizational unit. In the directory, account names begin with the unit's name,
/// which tests leave out.
pub struct Branch {
    pub server: &'static DirectoryServer,
    pub name: String,
    pub dn: String,
}

impl DirectoryServer {
    /// The server that all tests of this program share.
    pub fn shared(kind: DirectoryKind) -> &'static Self {
        static SHARED: [OnceLock<DirectoryServer>; 2] = [const { OnceLock::new() }; 2];
        let at = usize::from(kind == DirectoryKind::Samba);
        SHARED[at].get_or_init(|| Self::start(kind, &[]))
    }

    /// Starts a server for a test that stops or changes the server.
    pub fn own(kind: DirectoryKind) -> &'static Self {
        Box::leak(Box::new(Self::start(kind, &[])))
    }

    /// Starts an OpenLDAP with `server.pem`, `server.key` and `ca.pem` of a folder.
    pub fn with_certificate(folder: &Path) -> &'static Self {
        let folder = folder.display().to_string();
        Box::leak(Box::new(Self::start(DirectoryKind::OpenLdap, &[("BULKHEAD_LDAP_TLS", &folder)])))
    }

    /// Starts an OpenLDAP with further lines at the end of its configuration.
    pub fn with_settings(lines: &str) -> &'static Self {
        let settings = [("BULKHEAD_LDAP_SETTINGS", lines)];
        Box::leak(Box::new(Self::start(DirectoryKind::OpenLdap, &settings)))
    }

    fn start(kind: DirectoryKind, environment: &[(&str, &str)]) -> Self {
        let name = if kind == DirectoryKind::OpenLdap { "openldap" } else { "samba" };
        let mut all = vec![("BULKHEAD_LDAP_PASSWORD", ADMINISTRATOR)];
        all.extend(environment);
        let script = ServerScript::start(name, &[], &all);
        let (host, port, tls_port) = match kind {
            DirectoryKind::OpenLdap => {
                ("127.0.0.1".to_owned(), script.said("port"), script.said("tls_port"))
            }
            DirectoryKind::Samba => (script.said("address"), 389, 636),
        };
        let folder = script.said("folder");
        let branches = AtomicU32::new(1);
        Self { kind, script: Mutex::new(script), host, port, tls_port, folder, branches }
    }

    /// The `ldap://` URL.
    pub fn clear_url(&self) -> String {
        format!("ldap://{}:{}", self.host, self.port)
    }

    /// The `ldaps://` URL.
    pub fn url(&self) -> String {
        format!("ldaps://{}:{}", self.host, self.tls_port)
    }

    pub fn authority(&self) -> String {
        fs::read_to_string(self.authority_file()).expect("the server's file is there")
    }

    pub fn suffix(&self) -> &'static str {
        match self.kind {
            DirectoryKind::OpenLdap => "dc=corp,dc=example",
            DirectoryKind::Samba => "DC=corp,DC=example,DC=net",
        }
    }

    pub fn branch(&'static self) -> Branch {
        self.branch_called(&format!("t{}", self.branches.fetch_add(1, Ordering::Relaxed)))
    }

    /// Creates a branch with this name, which no other test may use.
    pub fn branch_called(&'static self, name: &str) -> Branch {
        let name = name.to_owned();
        let dn = format!("OU={name},OU=people,{}", self.suffix());
        let branch = Branch { server: self, name, dn };
        self.ldif(&format!(
            "dn: {}\nchangetype: add\nobjectClass: organizationalUnit\nou: {}\n",
            branch.dn, branch.name
        ));
        branch.add("engine", ENGINE);
        branch.give_rights("engine");
        branch
    }

    /// Applies changes as administrator.
    #[track_caller]
    pub fn ldif(&self, changes: &str) {
        let mut command = self.client("ldapmodify", &self.administrator(), ADMINISTRATOR);
        // Nothing reads the output while the changes are written.
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut running = command.spawn().expect("ldapmodify starts");
        let mut input = running.stdin.take().expect("the standard input is piped");
        input.write_all(changes.as_bytes()).expect("ldapmodify reads");
        drop(input);
        let done = running.wait_with_output().expect("ldapmodify ends");
        assert!(done.status.success(), "{changes}\n{}", text(&done.stderr));
    }

    /// Returns `true` if the server accepts the login.
    ///
    /// # Panics
    /// If the login fails for a reason other than the password.
    #[track_caller]
    pub fn takes(&self, name: &str, password: &str) -> bool {
        let mut command = self.client("ldapsearch", name, password);
        let Output { status, stderr, .. } =
            command.args(["-b", "", "-s", "base", "1.1"]).output().expect("ldapsearch starts");
        match status.code() {
            Some(0) => true,
            Some(REFUSED) => false,
            other => panic!("{name}: {other:?} {}", text(&stderr)),
        }
    }

    /// Returns the only value of an attribute as the administrator reads it: in base64 if the value
    /// is not plain text.
    #[track_caller]
    pub fn attribute(&self, dn: &str, attribute: &str) -> Option<String> {
        let mut command = self.client("ldapsearch", &self.administrator(), ADMINISTRATOR);
        command.args(["-LLL", "-o", "ldif-wrap=no", "-b", dn, "-s", "base", attribute]);
        let Output { status, stdout, stderr } = command.output().expect("ldapsearch starts");
        assert!(status.success(), "{dn}: {}", text(&stderr));
        let shown = text(&stdout);
        let value = shown.lines().find_map(|line| line.strip_prefix(attribute)?.strip_prefix(':'));
        value.map(|value| value.trim_start_matches(':').trim_start().to_owned())
    }

    /// Counts the logins of this name that OpenLDAP refused because of the password.
    pub fn refused_logins(&self, name: &str) -> usize {
        let log = self.log();
        let bind = format!("BIND dn=\"{name}\"").to_lowercase();
        let connections: BTreeSet<&str> = log
            .lines()
            .filter(|line| line.to_lowercase().contains(&bind))
            .filter_map(operation_of)
            .collect();
        let refused = log.lines().filter(|line| line.contains("RESULT tag=97 err=49"));
        refused.filter_map(operation_of).filter(|of| connections.contains(of)).count()
    }

    /// The folder of the server's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn log(&self) -> String {
        let name = if self.kind == DirectoryKind::OpenLdap { "server.log" } else { "samba.log" };
        fs::read_to_string(self.folder.join(name)).expect("the server's log can be read")
    }

    /// Stops the server for good.
    pub fn stop(&self) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).stop();
    }

    fn administrator(&self) -> String {
        match self.kind {
            DirectoryKind::OpenLdap => format!("cn=admin,{}", self.suffix()),
            DirectoryKind::Samba => "administrator@corp.example.net".to_owned(),
        }
    }

    fn authority_file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Prepares an OpenLDAP client with this login, without the user's own settings. Samba requires
    /// TLS for passwords. OpenLDAP may have a certificate that no client accepts.
    fn client(&self, program: &str, name: &str, password: &str) -> Command {
        let url = if self.kind == DirectoryKind::OpenLdap { self.clear_url() } else { self.url() };
        let mut command = Command::new(program);
        command
            .args(["-x", "-H", &url, "-D", name, "-w", password])
            .env("LDAPCONF", "/dev/null")
            .env("LDAPTLS_CACERT", self.authority_file())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

impl Branch {
    /// The engine's configuration for this branch.
    pub fn config(&self) -> Value {
        json!({
            "url": self.server.url(),
            "certificate": self.server.authority(),
            "binddn": self.dn_of("engine"),
            "bindpass": ENGINE,
            "userdn": self.dn,
            "schema": self.server.kind.schema(),
        })
    }

    #[track_caller]
    pub fn add(&self, name: &str, password: &str) {
        self.add_all(&[(name.to_owned(), password)]);
    }

    #[track_caller]
    pub fn add_all(&self, accounts: &[(String, &str)]) {
        let ldif: Vec<String> =
            accounts.iter().map(|(name, given)| self.entry(name, given)).collect();
        self.server.ldif(&ldif.join("\n"));
    }

    fn entry(&self, name: &str, password: &str) -> String {
        let (dn, full) = (self.dn_of(name), self.full(name));
        let lead = format!("dn: {dn}\nchangetype: add\ncn: {full}\n");
        match self.server.kind {
            DirectoryKind::OpenLdap => format!(
                "{lead}objectClass: inetOrgPerson\nsn: {full}\nuid: {full}\n\
                 userPassword: {password}\n"
            ),
            DirectoryKind::Samba => format!(
                "{lead}objectClass: user\nsAMAccountName: {full}\nuserPrincipalName: {}\n\
                 userAccountControl: 512\nunicodePwd:: {}\n",
                self.upn_of(name),
                quoted_utf16(password)
            ),
        }
    }

    pub fn full(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    pub fn dn_of(&self, name: &str) -> String {
        format!("CN={},{}", self.full(name), self.dn)
    }

    /// Returns the user principal name of an account of an Active Directory.
    pub fn upn_of(&self, name: &str) -> String {
        format!("{}@corp.example.net", self.full(name))
    }

    /// Returns `true` if the server accepts this password of the account.
    #[track_caller]
    pub fn takes(&self, name: &str, password: &str) -> bool {
        self.server.takes(&self.dn_of(name), password)
    }

    #[track_caller]
    pub fn set_password(&self, name: &str, password: &str) {
        let value = match self.server.kind {
            DirectoryKind::OpenLdap => format!("userPassword\nuserPassword: {password}"),
            DirectoryKind::Samba => format!("unicodePwd\nunicodePwd:: {}", quoted_utf16(password)),
        };
        self.modify(name, &format!("replace: {value}"));
    }

    /// Modifies an account as administrator.
    #[track_caller]
    pub fn modify(&self, name: &str, changes: &str) {
        self.server.ldif(&format!("dn: {}\nchangetype: modify\n{changes}\n", self.dn_of(name)));
    }

    #[track_caller]
    pub fn rename(&self, name: &str, new: &str) {
        self.server.ldif(&format!(
            "dn: {}\nchangetype: modrdn\nnewrdn: CN={}\ndeleteoldrdn: 1\n",
            self.dn_of(name),
            self.full(new)
        ));
    }

    /// Removes the account's right to write other accounts' passwords.
    #[track_caller]
    pub fn take_rights(&self, name: &str) {
        self.change_group("keepers", "delete", name);
    }

    #[track_caller]
    pub fn give_rights(&self, name: &str) {
        self.change_group("keepers", "add", name);
    }

    /// Adds an account of OpenLDAP to a group without read access: `blind` hides everything,
    /// `shortsighted` hides all accounts.
    #[track_caller]
    pub fn take_sight(&self, name: &str, group: &str) {
        self.change_group(group, "add", name);
    }

    #[track_caller]
    pub fn give_sight(&self, name: &str, group: &str) {
        self.change_group(group, "delete", name);
    }

    #[track_caller]
    fn change_group(&self, group: &str, change: &str, name: &str) {
        let suffix = self.server.suffix();
        let group = match self.server.kind {
            DirectoryKind::OpenLdap => format!("cn={group},{suffix}"),
            DirectoryKind::Samba => format!("CN={group},CN=Users,{suffix}"),
        };
        let dn = self.dn_of(name);
        self.server
            .ldif(&format!("dn: {group}\nchangetype: modify\n{change}: member\nmember: {dn}\n"));
    }

    #[track_caller]
    pub fn remove(&self, name: &str) {
        self.server.ldif(&format!("dn: {}\nchangetype: delete\n", self.dn_of(name)));
    }
}

/// Returns `conn=1008 op=0` of a line of OpenLDAP's log.
fn operation_of(line: &str) -> Option<&str> {
    let at = line.find("conn=")?;
    let length = line[at..].match_indices(' ').nth(1)?.0;
    line.get(at..at + length)
}

/// Encodes a value of `unicodePwd` in base64.
fn quoted_utf16(password: &str) -> String {
    let quoted = format!("\"{password}\"");
    STANDARD.encode(quoted.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}
