//! A private HAProxy with the configuration of `docs/nodes.md`, with other addresses and files.

use crate::client::{Answers, Client};
use crate::documents::{block_of, substituted};
use crate::server_script::ServerScript;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// Lines that need root, or a service of the machine.
const OF_MACHINE: [&str; 4] =
    ["    user haproxy\n", "    group haproxy\n", "    chroot /var/lib/haproxy\n", "/dev/log"];

/// A running HAProxy.
pub struct HaProxy {
    /// Address that speaks TLS.
    pub tls_address: SocketAddr,
    /// Address of plain HTTP, which the document does not have.
    pub plain_address: SocketAddr,
    log: String,
    answers: Answers,
    _script: ServerScript,
}

impl HaProxy {
    /// Starts HAProxy in front of the nodes, with the files of the document in `folder`. `nodes`
    /// are names and addresses; `addresses` are those of TLS and of plain HTTP.
    ///
    /// # Panics
    /// If the configuration of the document lacks a text that is replaced.
    pub fn start(
        folder: &Path,
        nodes: &[(String, SocketAddr)],
        addresses: [SocketAddr; 2],
        transport: NodeTransport,
    ) -> Self {
        let [tls_address, plain_address] = addresses;
        let file = folder.join("haproxy.cfg");
        let text = configuration(folder, nodes, addresses, transport);
        fs::write(&file, text).expect("a file can be written");
        let listener = format!("{}/{}", plain_address.ip(), plain_address.port());
        let environment = [
            ("BULKHEAD_HAPROXY_FILE", &*file.display().to_string()),
            ("BULKHEAD_HAPROXY_ADDRESS", &*listener),
        ];
        let script = ServerScript::start("haproxy", &[], &environment);
        let (log, answers) = (script.said("log"), Answers::default());
        Self { tls_address, plain_address, log, answers, _script: script }
    }

    /// Returns a client of plain HTTP with this token.
    pub fn client(&self, token: &str) -> Client {
        Client::new(&format!("http://{}", self.plain_address), Some(token), self.answers.clone())
    }

    /// Returns the lines of the log about failed requests and changes of nodes.
    pub fn failures(&self) -> String {
        let log = fs::read_to_string(&self.log).expect("the log can be read");
        let is_success =
            |line: &&str| [" 200 ", " 204 "].iter().any(|status| line.contains(status));
        log.lines().filter(|line| !is_success(line)).map(|line| format!("{line}\n")).collect()
    }
}

/// Transport between HAProxy and the nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NodeTransport {
    /// As in the document.
    Tls,
    /// For a benchmark that compares nodes without TLS.
    Plain,
}

fn configuration(
    folder: &Path,
    nodes: &[(String, SocketAddr)],
    [tls_address, plain_address]: [SocketAddr; 2],
    transport: NodeTransport,
) -> String {
    let printed = block_of("docs/nodes.md", "haproxy") + "\n";
    let bind = format!("    bind {plain_address}\n    bind {tls_address} ssl");
    let here = format!("{}/", folder.display());
    let mut texts: Vec<_> = OF_MACHINE[..3].iter().map(|line| (*line, 1, "")).collect();
    texts.extend([
        (OF_MACHINE[3], 1, "stdout format raw"),
        ("    bind :8200 ssl", 1, &*bind),
        ("/etc/haproxy/", 2, &*here),
    ]);
    let authority = format!("ssl verify required ca-file {here}ca.crt ");
    let mut text = substituted(&printed, &texts);
    let servers: Vec<String> =
        text.lines().filter(|line| line.starts_with("    server ")).map(str::to_owned).collect();
    let one = servers[0].clone();
    assert_eq!(servers, [one.clone(), one.replace("node-1", "node-2")], "lines of two nodes");
    for line in &servers {
        text = text.replace(&format!("{line}\n"), "");
    }
    for (name, address) in nodes {
        let line = one.replace("node-1.example.com:8200", &address.to_string());
        text += &format!("{}\n", line.replace("node-1", name));
    }
    match transport {
        NodeTransport::Tls => text,
        NodeTransport::Plain => {
            let text = substituted(&text, &[(&*authority, 1, "")]);
            let plain = |line: &str| match line.split_once(" verifyhost ") {
                Some((server, _)) => server.to_owned(),
                None => line.to_owned(),
            };
            text.lines().map(plain).map(|line| line + "\n").collect()
        }
    }
}
