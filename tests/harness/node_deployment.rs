//! The deployment of `docs/nodes.md` §5: certificates, a database, nodes and HAProxy by the
//! commands and files of the document, with other addresses and folders.

use crate::documents::{block_of, substituted};
use crate::haproxy::NodeTransport;
use crate::paths::{Folder, binary, profile};
use crate::wait::until_true;
use crate::{Bulkhead, Client, HaProxy, Postgres};
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

const DOCUMENT: &str = "docs/nodes.md";

/// Role of the nodes at the database server.
const ROLE: &str = "of_nodes";

/// Longest wait for a node that opens or gets requests, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Running nodes behind HAProxy.
pub struct NodeDeployment {
    pub proxy: HaProxy,
    /// The nodes `node-1`, `node-2` and so on.
    pub nodes: Vec<Bulkhead>,
    pub database: Postgres,
    /// Root token.
    pub root: String,
    /// Files of the operator: certificates, keys and configurations.
    folder: Folder,
}

/// Returns an address of this process that nobody else has: ports of loopback addresses of their
/// own stay free while a node is down.
fn own_address() -> SocketAddr {
    static PORT: AtomicU16 = AtomicU16::new(20_000);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let ip = Ipv4Addr::new(127, 64 | high & 63, middle, low);
    (ip, PORT.fetch_add(1, Ordering::Relaxed)).into()
}

/// Returns the name of a node by its place.
fn name_of(place: usize) -> String {
    format!("node-{}", place + 1)
}

impl NodeDeployment {
    /// Starts and initialises as many nodes, with HAProxy in front of them.
    pub fn start(count: usize, transport: NodeTransport) -> Self {
        Self::start_on(Postgres::start(), count, transport)
    }

    /// As [`NodeDeployment::start`], on this database server.
    pub fn start_on(database: Postgres, count: usize, transport: NodeTransport) -> Self {
        let folder = Folder::new("deployment");
        make_certificates(&folder, count);
        create_database(&folder, &database);
        let names: Vec<_> = (0..count).map(|place| (name_of(place), own_address())).collect();
        let mut nodes: Vec<Bulkhead> = names
            .iter()
            .map(|(name, address)| prepared(&folder, &database, (name, *address), transport))
            .collect();
        nodes[0].start_again();
        let root = initialise(&folder, &nodes[0], transport);
        for node in &mut nodes[1..] {
            node.start_again();
        }
        let proxy =
            HaProxy::start(folder.path(), &names, [own_address(), own_address()], transport);
        let deployment = Self { proxy, nodes, database, root, folder };
        (0..count).for_each(|place| deployment.wait_until_used(place));
        deployment
    }

    /// Returns a client of HAProxy with the root token.
    pub fn client(&self) -> Client {
        self.proxy.client(&self.root)
    }

    /// Waits until HAProxy sends requests to this node.
    #[track_caller]
    pub fn wait_until_used(&self, place: usize) {
        let client = self.client();
        let address = format!("https://{}.example.com:8200", name_of(place));
        until_true("HAProxy uses the node", PATIENCE, || {
            let answer = client.attempt("GET", "sys/leader", b"");
            answer.is_ok_and(|answer| answer.body["leader_address"] == *address)
        });
    }

    /// Types a block of the document into a shell that uses the commands at this address, with
    /// `input` on standard input. Returns the output.
    #[track_caller]
    pub fn types(&self, block: &str, (name, address): (&str, SocketAddr), input: &str) -> String {
        typed(&self.folder, &block_of(DOCUMENT, block), (name, address), input)
    }

    /// Path of a file of the operator, such as `ca.crt`.
    pub fn path_of(&self, file: &str) -> String {
        self.folder.path().join(file).display().to_string()
    }
}

/// Makes the files of step 1, with certificates for this number of nodes.
fn make_certificates(folder: &Folder, count: usize) {
    let names = (0..count).map(name_of).collect::<Vec<_>>().join(" ");
    let commands = block_of(DOCUMENT, "certificates");
    let commands = substituted(&commands, &[("node-1 node-2", 1, &names)]);
    run(folder, &commands, &[], "");
}

/// Creates the role, the database and the schema of step 2. The superuser of the test has the name
/// of the role.
fn create_database(folder: &Folder, database: &Postgres) {
    let printed = block_of(DOCUMENT, "database");
    let roles = ["ROLE bulkhead", "AUTHORIZATION bulkhead", "TO bulkhead;"];
    let others = roles.map(|text| text.replace("bulkhead", ROLE));
    let texts = [0, 1, 2].map(|place| (roles[place], 1, &*others[place]));
    let script = folder.file("database.sql", &substituted(&printed, &texts));
    let password = fs::read_to_string(folder.path().join("database-password")).expect("a password");
    let mut psql = database.psql_at(database.port, "");
    psql.args(["-v", &format!("password={}", password.trim()), "-f", &script]);
    let done = psql.output().expect("psql can be started");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Writes the configuration of step 3 for a node, and returns the node, which is not started.
fn prepared(
    folder: &Folder,
    database: &Postgres,
    (name, address): (&str, SocketAddr),
    transport: NodeTransport,
) -> Bulkhead {
    let data = Folder::new(name);
    let [here, data_path] = [folder, &data].map(|folder| folder.path().display().to_string());
    let at = |file: &str| format!("{here}/{file}");
    let printed = block_of(DOCUMENT, "node");
    let tls = printed.lines().filter(|line| line.contains("  tls_")).collect::<Vec<_>>().join("\n");
    let printed = match transport {
        NodeTransport::Tls => printed,
        NodeTransport::Plain => substituted(&printed, &[(&*tls, 1, "  tls_disable = true")]),
    };
    let count = if transport == NodeTransport::Tls { 1 } else { 0 };
    let text = substituted(
        &printed,
        &[
            ("node-1", 2, name),
            ("0.0.0.0:8200", 1, &address.to_string()),
            ("/etc/bulkhead/tls.crt", count, &at(&format!("{name}.crt"))),
            ("/etc/bulkhead/tls.key", count, &at(&format!("{name}.key"))),
            ("10.0.0.5", 1, "127.0.0.1"),
            ("postgresql://bulkhead@", 1, &format!("postgresql://{ROLE}@")),
            ("db.example.com:5432", 1, &format!("127.0.0.1:{}", database.port)),
            ("/etc/bulkhead/ca.crt", 1, &database.authority.0.join("ca.pem").display().to_string()),
            ("/etc/bulkhead/database-password", 1, &at("database-password")),
            ("/etc/bulkhead/seal.key", 1, &at("seal.key")),
            ("/var/lib/bulkhead", 1, &data_path),
            ("/var/log/bulkhead", 1, &data_path),
        ],
    );
    let file = folder.file(&format!("{name}.hcl"), &text);
    Bulkhead::prepared(binary(), data).configured(file.into())
}

/// Initialises the first node as step 3 does, and returns the root token.
fn initialise(folder: &Folder, node: &Bulkhead, transport: NodeTransport) -> String {
    let mut commands = block_of(DOCUMENT, "initialise");
    if transport == NodeTransport::Plain {
        commands = substituted(&commands, &[("https://", 1, "http://")]);
    }
    let output = typed(folder, &commands, ("node-1", node.address()), "");
    let token = output.lines().find_map(|line| line.strip_prefix("Initial Root Token: "));
    token.unwrap_or_else(|| panic!("no root token in {output}")).trim().to_owned()
}

/// Types commands for the server of this name, which is at this address.
#[track_caller]
fn typed(
    folder: &Folder,
    commands: &str,
    (name, address): (&str, SocketAddr),
    input: &str,
) -> String {
    let server = format!("{name}.example.com");
    let here = format!("{}/", folder.path().display());
    let mut commands = commands.replace(&format!("{server}:8200"), &address.to_string());
    for folder in ["/etc/bulkhead/", "/etc/haproxy/"] {
        commands = commands.replace(folder, &here);
    }
    let authority = format!("{here}ca.crt");
    let address = format!("https://{address}");
    let environment = [
        ("BULKHEAD_ADDR", &*address),
        ("BULKHEAD_CACERT", &*authority),
        ("BULKHEAD_TLS_SERVER_NAME", &*server),
    ];
    run(folder, &commands, &environment, input)
}

/// Runs commands in the folder of the operator, and returns the output.
#[track_caller]
fn run(folder: &Folder, commands: &str, environment: &[(&str, &str)], input: &str) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("bash");
    shell
        .args(["-eu", "-o", "pipefail", "-c", commands])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", profile().display()))
        .env("HOME", folder.path())
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = shell.spawn().expect("bash can be started");
    let mut pipe = child.stdin.take().expect("the standard input is piped");
    pipe.write_all(input.as_bytes()).expect("the shell reads its input");
    drop(pipe);
    let done = child.wait_with_output().expect("the shell ends");
    let [output, error] = [done.stdout, done.stderr]
        .map(|bytes| String::from_utf8(bytes).expect("the output is text"));
    assert!(done.status.success(), "{commands}\n{output}\n{error}");
    output
}
