//! A private OpenLDAP or Active Directory (Samba), and what it knows of its accounts.
//!
//! One of each serves all tests of a program, each test in a branch of its own: an organizational
//! unit with an account for the engine, which has the rights of `docs/directory.md` and no other.
//! It is asked and changed with OpenLDAP's own clients.

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

/// The administrator's password.
const ADMINISTRATOR: &str = "Hull-8241-Wv";
/// The engine's password in every branch, until it is rotated.
const ENGINE: &str = "Xk7-Qz2-Wv9-Jt4";
/// LDAP's word for: invalid credentials.
const REFUSED: i32 = 49;

/// Which server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With password policies.
    OpenLdap,
    /// An Active Directory.
    Samba,
}

/// Both.
pub const KINDS: [Kind; 2] = [Kind::OpenLdap, Kind::Samba];

impl Kind {
    /// What `schema` is for it.
    pub fn schema(self) -> &'static str {
        match self {
            Self::OpenLdap => "openldap",
            Self::Samba => "ad",
        }
    }
}

/// A running server.
pub struct DirectoryServer {
    /// Which it is.
    pub kind: Kind,
    script: Mutex<ServerScript>,
    host: String,
    port: u16,
    tls_port: u16,
    folder: PathBuf,
    branches: AtomicU32,
}

/// A test's own organizational unit. Names of accounts begin with its name in the directory, which
/// tests need not say.
pub struct Branch {
    /// Where it is.
    pub server: &'static DirectoryServer,
    /// Its name.
    pub name: String,
    /// Its DN.
    pub dn: String,
}

impl DirectoryServer {
    /// The one of this test program.
    pub fn shared(kind: Kind) -> &'static Self {
        static SHARED: [OnceLock<DirectoryServer>; 2] = [const { OnceLock::new() }; 2];
        let at = usize::from(kind == Kind::Samba);
        SHARED[at].get_or_init(|| Self::start(kind, &[]))
    }

    /// One that no other test uses, for a test that stops it.
    pub fn own(kind: Kind) -> &'static Self {
        Box::leak(Box::new(Self::start(kind, &[])))
    }

    /// An OpenLDAP whose certificate is `server.pem`, with `server.key` and `ca.pem`, of a folder.
    pub fn with_certificate(folder: &Path) -> &'static Self {
        let folder = folder.display().to_string();
        Box::leak(Box::new(Self::start(Kind::OpenLdap, &[("BULKHEAD_LDAP_TLS", &folder)])))
    }

    fn start(kind: Kind, environment: &[(&str, &str)]) -> Self {
        let name = if kind == Kind::OpenLdap { "openldap" } else { "samba" };
        let mut all = vec![("BULKHEAD_LDAP_PASSWORD", ADMINISTRATOR)];
        all.extend(environment);
        let script = ServerScript::start(name, &[], &all);
        let (host, port, tls_port) = match kind {
            Kind::OpenLdap => {
                ("127.0.0.1".to_owned(), script.said("port"), script.said("tls_port"))
            }
            Kind::Samba => (script.said("address"), 389, 636),
        };
        let folder = script.said("folder");
        let branches = AtomicU32::new(1);
        Self { kind, script: Mutex::new(script), host, port, tls_port, folder, branches }
    }

    /// `ldap://` and its address.
    pub fn clear_url(&self) -> String {
        format!("ldap://{}:{}", self.host, self.port)
    }

    /// `ldaps://` and its address.
    pub fn url(&self) -> String {
        format!("ldaps://{}:{}", self.host, self.tls_port)
    }

    /// The authority of its certificate; PEM.
    pub fn authority(&self) -> String {
        fs::read_to_string(self.authority_file()).expect("the server's file is there")
    }

    /// Where everything is below.
    pub fn suffix(&self) -> &'static str {
        match self.kind {
            Kind::OpenLdap => "dc=corp,dc=example",
            Kind::Samba => "DC=corp,DC=example,DC=net",
        }
    }

    /// A branch of its own for a test.
    pub fn branch(&'static self) -> Branch {
        self.branch_called(&format!("t{}", self.branches.fetch_add(1, Ordering::Relaxed)))
    }

    /// The same with a name that no other test uses, for a test that shows it.
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

    /// Makes changes as administrator.
    ///
    /// # Panics
    /// When the server refuses.
    #[track_caller]
    pub fn ldif(&self, changes: &str) {
        let mut command = self.client("ldapmodify", &self.administrator(), ADMINISTRATOR);
        // It tells of each change: nothing reads that while the changes are written.
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut running = command.spawn().expect("ldapmodify starts");
        let mut input = running.stdin.take().expect("its input was asked for");
        input.write_all(changes.as_bytes()).expect("ldapmodify reads");
        drop(input);
        let done = running.wait_with_output().expect("ldapmodify ends");
        assert!(done.status.success(), "{changes}\n{}", text(&done.stderr));
    }

    /// Whether the server takes the login.
    ///
    /// # Panics
    /// When it does not answer, or refuses for another reason than the password.
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

    /// The only value of an attribute of an entry, as the administrator sees it: in base64, where
    /// it is no plain text.
    ///
    /// # Panics
    /// When there is no such entry.
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

    /// How many logins of that name an OpenLDAP refused for their password.
    ///
    /// # Panics
    /// When the log cannot be read.
    pub fn refused_logins(&self, name: &str) -> usize {
        let log = self.log();
        let asked = format!("BIND dn=\"{name}\"").to_lowercase();
        let connections: BTreeSet<&str> = log
            .lines()
            .filter(|line| line.to_lowercase().contains(&asked))
            .filter_map(operation_of)
            .collect();
        let refused = log.lines().filter(|line| line.contains("RESULT tag=97 err=49"));
        refused.filter_map(operation_of).filter(|of| connections.contains(of)).count()
    }

    /// Everything the server logged: OpenLDAP names each operation.
    pub fn log(&self) -> String {
        let name = if self.kind == Kind::OpenLdap { "server.log" } else { "samba.log" };
        fs::read_to_string(self.folder.join(name)).expect("the server's log can be read")
    }

    /// Ends it for good: a directory that is down.
    pub fn stop(&self) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).stop();
    }

    fn administrator(&self) -> String {
        match self.kind {
            Kind::OpenLdap => format!("cn=admin,{}", self.suffix()),
            Kind::Samba => "administrator@corp.example.net".to_owned(),
        }
    }

    fn authority_file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// A client with that login, whose own settings do not count. Samba wants TLS for passwords;
    /// OpenLDAP's certificate may be one that no client would take.
    fn client(&self, program: &str, name: &str, password: &str) -> Command {
        let url = if self.kind == Kind::OpenLdap { self.clear_url() } else { self.url() };
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
    /// What the engine is configured with.
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

    /// Adds an account.
    #[track_caller]
    pub fn add(&self, name: &str, password: &str) {
        self.add_all(&[(name.to_owned(), password)]);
    }

    /// Adds accounts.
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
            Kind::OpenLdap => format!(
                "{lead}objectClass: inetOrgPerson\nsn: {full}\nuid: {full}\n\
                 userPassword: {password}\n"
            ),
            Kind::Samba => format!(
                "{lead}objectClass: user\nsAMAccountName: {full}\nuserPrincipalName: {}\n\
                 userAccountControl: 512\nunicodePwd:: {}\n",
                self.upn_of(name),
                quoted_utf16(password)
            ),
        }
    }

    /// The name of an account in the directory.
    pub fn full(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// The DN of an account.
    pub fn dn_of(&self, name: &str) -> String {
        format!("CN={},{}", self.full(name), self.dn)
    }

    /// The user principal name of an account of an Active Directory.
    pub fn upn_of(&self, name: &str) -> String {
        format!("{}@corp.example.net", self.full(name))
    }

    /// Whether the server takes that password of the account.
    #[track_caller]
    pub fn takes(&self, name: &str, password: &str) -> bool {
        self.server.takes(&self.dn_of(name), password)
    }

    /// Gives an account a password from outside of the engine.
    #[track_caller]
    pub fn set_password(&self, name: &str, password: &str) {
        let value = match self.server.kind {
            Kind::OpenLdap => format!("userPassword\nuserPassword: {password}"),
            Kind::Samba => format!("unicodePwd\nunicodePwd:: {}", quoted_utf16(password)),
        };
        self.modify(name, &format!("replace: {value}"));
    }

    /// Changes an account, as administrator.
    #[track_caller]
    pub fn modify(&self, name: &str, changes: &str) {
        self.server.ldif(&format!("dn: {}\nchangetype: modify\n{changes}\n", self.dn_of(name)));
    }

    /// Gives an account another name.
    #[track_caller]
    pub fn rename(&self, name: &str, new: &str) {
        self.server.ldif(&format!(
            "dn: {}\nchangetype: modrdn\nnewrdn: CN={}\ndeleteoldrdn: 1\n",
            self.dn_of(name),
            self.full(new)
        ));
    }

    /// Takes the right to write others' passwords from an account.
    #[track_caller]
    pub fn take_rights(&self, name: &str) {
        self.change_group("keepers", "delete", name);
    }

    /// Gives it back.
    #[track_caller]
    pub fn give_rights(&self, name: &str) {
        self.change_group("keepers", "add", name);
    }

    /// Takes the right to see from an account of an OpenLDAP: everything as a member of `blind`,
    /// all accounts as one of `shortsighted`.
    #[track_caller]
    pub fn take_sight(&self, name: &str, group: &str) {
        self.change_group(group, "add", name);
    }

    /// Gives it back.
    #[track_caller]
    pub fn give_sight(&self, name: &str, group: &str) {
        self.change_group(group, "delete", name);
    }

    #[track_caller]
    fn change_group(&self, group: &str, change: &str, name: &str) {
        let suffix = self.server.suffix();
        let group = match self.server.kind {
            Kind::OpenLdap => format!("cn={group},{suffix}"),
            Kind::Samba => format!("CN={group},CN=Users,{suffix}"),
        };
        let dn = self.dn_of(name);
        self.server
            .ldif(&format!("dn: {group}\nchangetype: modify\n{change}: member\nmember: {dn}\n"));
    }

    /// Takes an account away.
    #[track_caller]
    pub fn remove(&self, name: &str) {
        self.server.ldif(&format!("dn: {}\nchangetype: delete\n", self.dn_of(name)));
    }
}

/// `conn=1008 op=0` of a line of OpenLDAP's log.
fn operation_of(line: &str) -> Option<&str> {
    let at = line.find("conn=")?;
    let length = line[at..].match_indices(' ').nth(1)?.0;
    line.get(at..at + length)
}

/// A value of `unicodePwd`, in base64.
fn quoted_utf16(password: &str) -> String {
    let quoted = format!("\"{password}\"");
    STANDARD.encode(quoted.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}
