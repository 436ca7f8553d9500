//! TLS with real clients: curl, openssl and the command line; certificates renewed under load; and
//! abandoned handshakes.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::tls_client;
use bulkhead_tests::wait::until_true;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

fn over_tls() -> Bulkhead {
    let mut server = Bulkhead::prepared(binary(), Folder::new("tls")).over_tls();
    server.start_again();
    server
}

/// Returns the exit code and all output.
fn run(command: &mut Command) -> (i32, String) {
    let done = command.stdin(Stdio::null()).output().expect("the program is installed");
    let mut text = String::from_utf8_lossy(&done.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&done.stderr));
    (done.status.code().unwrap_or(-1), text)
}

fn curl(server: &Bulkhead, arguments: &[&str]) -> (i32, String) {
    let url = format!("{}/v1/auth/token/lookup-self", server.url());
    let token = format!("X-Vault-Token: {ROOT}");
    let mut command = Command::new("curl");
    let shown = " version %{http_version} status %{http_code}";
    command.args(["-sS", "-q", "--noproxy", "*", "-w", shown, "-H", &token]).args(arguments);
    run(command.arg(url))
}

#[test]
fn curl_with_known_authority_uses_both_http_versions() {
    let server = over_tls();
    let authority = server.authority().display().to_string();
    for (version, shown) in [("--http1.1", "version 1.1 status 200"), ("--http2", "status 200")] {
        let (code, text) = curl(&server, &["--cacert", &authority, version]);
        assert!(code == 0 && text.contains("\"display_name\"") && text.contains(shown), "{text}");
    }
    let write = ["--cacert", &authority, "-X", "PUT", "-d", "null"];
    let (code, text) = curl(&server, &write);
    assert!(code == 0 && text.contains("status 200"), "a body of null is not a body: {text}");
    let (code, text) = curl(&server, &[]);
    assert_eq!(code, 60, "an authority that curl does not know: {text}");
}

#[test]
fn published_documents_name_the_https_url() {
    let server = over_tls();
    let url = format!("{}/v1/identity/oidc/plugins/.well-known", server.url());
    let mut command = Command::new("curl");
    command.args(["-sS", "-q", "--noproxy", "*", "--cacert"]).arg(server.authority());
    let (code, text) = run(command.arg(format!("{url}/openid-configuration")));
    let document: serde_json::Value = serde_json::from_str(&text).expect("a document");
    assert_eq!((code, document["jwks_uri"].as_str()), (0, Some(format!("{url}/keys").as_str())));
}

/// The output of openssl's client for a connection with the typed `input`.
fn s_client(server: &Bulkhead, arguments: &[&str], input: &str) -> (bool, String) {
    let (address, authority) = (server.address().to_string(), server.authority());
    let mut child = Command::new("openssl")
        .args(["s_client", "-connect", &address, "-verify_return_error", "-CAfile"])
        .arg(authority)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl is installed");
    let mut typed = child.stdin.take().expect("the standard input is piped");
    typed.write_all(input.as_bytes()).expect("openssl reads its input");
    // The client ends with its input.
    drop(typed);
    let done = child.wait_with_output().expect("openssl ends");
    let mut text = String::from_utf8_lossy(&done.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&done.stderr));
    (done.status.success(), text)
}

#[test]
fn openssl_verifies_chain_and_older_tls_is_refused() {
    let server = over_tls();
    for (version, shown) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let (ok, text) = s_client(&server, &[version, "-alpn", "h2,http/1.1"], "");
        assert!(ok && text.contains(shown), "{version}: {text}");
        assert!(text.contains("Verify return code: 0 (ok)"), "{text}");
        assert!(text.contains("ALPN protocol: h2"), "{text}");
    }
    for version in ["-tls1", "-tls1_1"] {
        let arguments = [version, "-cipher", "ALL:@SECLEVEL=0"];
        assert!(!s_client(&server, &arguments, "").0, "{version}");
    }
}

#[test]
fn tls_renegotiation_is_refused() {
    let server = over_tls();
    let (_, text) = s_client(&server, &["-tls1_2"], "R\n");
    assert!(
        text.contains("Secure Renegotiation IS supported"),
        "secure renegotiation is not announced: {text}"
    );
    assert!(text.to_lowercase().contains("no renegotiation"), "{text}");
    let authority = server.authority().display().to_string();
    assert_eq!(curl(&server, &["--cacert", &authority]).0, 0);
}

#[test]
fn command_line_uses_tls_with_two_printed_lines() {
    let server = over_tls();
    let printed = server.printed();
    let authority = server.authority().display().to_string();
    assert!(printed.contains(&format!("export BULKHEAD_CACERT={authority}\n")), "{printed}");
    assert!(printed.contains(&format!("export BULKHEAD_ADDR={} ", server.url())), "{printed}");
    let lookup = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = server.command(&["token", "lookup"]);
        run(command.args(arguments).envs(variables.iter().copied()))
    };
    for name in ["BULKHEAD_CACERT", "VAULT_CACERT"] {
        let (code, text) = lookup(&[(name, &authority)], &[]);
        assert!(code == 0 && text.contains("display_name"), "{text}");
    }
    let folder = Folder::new("authorities");
    fs::copy(&authority, folder.path().join("one.pem")).expect("a file can be copied");
    let folder = folder.path().display().to_string();
    assert_eq!(lookup(&[("BULKHEAD_CAPATH", &folder)], &[]).0, 0);
    assert_eq!(lookup(&[], &["-ca-cert", &authority]).0, 0);
    let (code, text) = lookup(&[], &["-tls-skip-verify"]);
    assert!(code == 0 && text.contains("warning: "), "{text}");
    for (variables, arguments, says) in [
        (&[][..], &[][..], "set BULKHEAD_CACERT"),
        (&[("VAULT_CACERT", authority.as_str())], &["-tls-server-name=a.example"], "another name"),
        (&[("BULKHEAD_CACERT", "/nonexistent")], &[], "/nonexistent cannot be read"),
        (&[("BULKHEAD_CLIENT_CERT", authority.as_str())], &[], "BULKHEAD_CLIENT_KEY"),
    ] {
        let (code, text) = lookup(variables, arguments);
        assert!(code == 2 && text.contains(says) && text.lines().count() == 1, "{code}: {text}");
    }
    let plain = server.url().replace("https", "http");
    let (code, text) = lookup(&[], &["-address", &plain]);
    assert!(code == 1 && text.contains("write https://"), "{code}: {text}");
}

struct UntrustedAuthority(CertifiedIssuer<'static, KeyPair>);

impl UntrustedAuthority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no name is refused");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be made");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate can be made"))
    }

    /// A certificate of this machine, and its key.
    fn sign(&self) -> (String, String) {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).expect("these are names");
        let key = KeyPair::generate().expect("a key can be made");
        let signed = params.signed_by(&key, &self.0).expect("a certificate can be signed");
        (signed.pem(), key.serialize_pem())
    }
}

/// Replaces a file atomically, as certificate renewal does.
fn replace(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let beside = file.with_extension("new");
    fs::write(&beside, text).expect("a file can be written");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600))
        .expect("the mode of the file can be set");
    fs::rename(beside, file).expect("a file can be moved");
}

fn connector(authorities: &[CertificateDer<'static>]) -> TlsConnector {
    tls_client::trust(authorities.iter().cloned(), &[])
}

type Connection = TlsStream<TcpStream>;

async fn connect(connector: &TlsConnector, stream: TcpStream) -> Result<Connection, String> {
    let name = ServerName::try_from("localhost").expect("a name");
    connector.connect(name, stream).await.map_err(|error| format!("handshake: {error}"))
}

async fn open(connector: &TlsConnector, address: SocketAddr) -> Result<Connection, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| format!("connect: {error}"))?;
    connect(connector, stream).await
}

/// Sends a request on a connection, which stays open.
async fn ask(connection: &mut Connection) -> Result<(), String> {
    let request = format!(
        "GET /v1/auth/token/lookup-self HTTP/1.1\r\nhost: x\r\nx-vault-token: {ROOT}\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await.map_err(|error| format!("write: {error}"))?;
    let (mut answer, mut buffer) = (String::new(), [0; 4096]);
    loop {
        let count = connection.read(&mut buffer).await.map_err(|error| format!("read: {error}"))?;
        if count == 0 {
            return Err(format!("the connection ended after {answer:?}"));
        }
        answer.push_str(&String::from_utf8_lossy(&buffer[..count]));
        // The last member of the envelope, and its end.
        if answer.contains("\"mount_type\"") && answer.ends_with('}') {
            break;
        }
    }
    if answer.starts_with("HTTP/1.1 200 ") { Ok(()) } else { Err(answer) }
}

/// Requests per second on kept and on new connections, and number of connections.
const KEPT: u32 = 800;
const FRESH: u32 = 200;
const CONNECTIONS: u32 = 8;

/// Sends requests at a connection's share of the rate until `stop`. Returns the number of answers.
async fn keep_asking(
    connector: TlsConnector,
    address: SocketAddr,
    is_fresh: bool,
    stop: Arc<AtomicBool>,
    seen: Arc<std::sync::Mutex<BTreeSet<Vec<u8>>>>,
) -> Result<u32, String> {
    let rate = if is_fresh { FRESH } else { KEPT };
    let mut turn = tokio::time::interval(Duration::from_secs(1) * CONNECTIONS / rate);
    let mut connection = open(&connector, address).await?;
    let mut answered = 0;
    while !stop.load(Ordering::Relaxed) {
        turn.tick().await;
        if is_fresh {
            connection = open(&connector, address).await?;
            let shown = connection.get_ref().1.peer_certificates().expect("a server shows one");
            seen.lock().expect("no thread panicked").insert(shown[0].to_vec());
        }
        ask(&mut connection).await?;
        answered += 1;
    }
    Ok(answered)
}

#[test]
fn certificates_are_renewed_under_load_without_failed_request() {
    let server = over_tls();
    let folder = server.data().join("tls");
    let (of_dev, ours) = (
        CertificateDer::from_pem_file(server.authority()).expect("the server's authority"),
        UntrustedAuthority::new(),
    );
    let connector = connector(&[of_dev, ours.0.der().clone()]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let asking: Vec<_> = (0..2 * CONNECTIONS)
        .map(|number| {
            let (connector, stop) = (connector.clone(), Arc::clone(&stop));
            let (address, seen) = (server.address(), Arc::clone(&seen));
            runtime.spawn(keep_asking(connector, address, number % 2 == 0, stop, seen))
        })
        .collect();
    let begun = Instant::now();
    let served = || server.printed().matches("event=certificate-served").count();
    for round in 0..4 {
        let before = served();
        let (certificate, key) = ours.sign();
        replace(&folder.join("cert.pem"), &certificate);
        replace(&folder.join("key.pem"), &key);
        if round % 2 == 1 {
            server.signal("HUP");
        }
        until_true("the new certificate is served", Duration::from_secs(20), || served() > before);
    }
    // The server ignores a certificate that does not fit its key.
    replace(&folder.join("cert.pem"), &ours.sign().0);
    until_true("the bad one is told", Duration::from_secs(20), || {
        server.printed().contains("is not the key of the first certificate")
    });
    stop.store(true, Ordering::Relaxed);
    let answered: u32 = asking
        .into_iter()
        .map(|one| runtime.block_on(one).expect("no task panicked"))
        .map(|answered| answered.unwrap_or_else(|why| panic!("a request failed: {why}")))
        .sum();
    let different = seen.lock().expect("no thread panicked").len();
    println!("{:.0} requests/s", f64::from(answered) / begun.elapsed().as_secs_f64());
    assert!(different >= 4, "{different} certificates were seen");
}

/// Most memory for five hundred half-open handshakes, in bytes.
const GROWTH: u64 = 20 << 20;

#[test]
fn half_open_handshake_flood_harms_no_other_client() {
    let server = over_tls();
    let authority = CertificateDer::from_pem_file(server.authority())
        .expect("the server's authority is readable");
    let connector = connector(&[authority]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let other = async |connector: &TlsConnector| {
        let mut slowest = Duration::ZERO;
        for _ in 0..50 {
            let begun = Instant::now();
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(([127, 0, 0, 2], 0).into()).expect("an address of this machine");
            let stream = socket.connect(server.address()).await.expect("the server listens");
            let mut connection = connect(connector, stream).await.expect("a handshake");
            ask(&mut connection).await.expect("an answer");
            slowest = slowest.max(begun.elapsed());
        }
        slowest
    };
    runtime.block_on(async {
        let before = (other(&connector).await, server.memory());
        let mut halfway = Vec::new();
        for _ in 0..500 {
            let mut stream = TcpStream::connect(server.address())
                .await
                .expect("the server accepts a connection");
            // The first part of a record of 512 bytes with a hello.
            let mut begin = vec![22, 3, 1, 2, 0, 1, 0, 1, 252];
            begin.extend([3; 200]);
            stream.write_all(&begin).await.expect("the server reads");
            halfway.push(stream);
        }
        let beside = (other(&connector).await, server.memory());
        println!("slowest before and beside: {:?}, {:?}", before.0, beside.0);
        println!("memory before and beside: {}, {} bytes", before.1, beside.1);
        assert!(beside.0 < Duration::from_secs(2), "{:?}", beside.0);
        assert!(beside.1 < before.1 + GROWTH, "{} bytes, then {}", before.1, beside.1);
        drop(halfway);
    });
}

#[test]
fn unix_socket_serves_clients_until_removed_at_stop() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, data) = (Folder::new("socket"), Folder::new("data"));
    let socket = folder.path().join("b.sock");
    let file = folder.path().join("bulkhead.hcl");
    let text = format!(
        "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
         listener \"unix\" {{\n  address = \"{}\"\n  socket_mode = \"0660\"\n}}\n\
         storage \"sqlite\" {{ path = \"{}\" }}\n",
        socket.display(),
        data.path().display()
    );
    fs::write(&file, text).expect("a file can be written");
    let mut server = Bulkhead::prepared(binary(), data).configured(file);
    server.start_again();
    assert!(server.printed().contains(&format!("listening on unix://{}\n", socket.display())));
    let mode = fs::metadata(&socket).expect("the socket is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--noproxy", "*", "--unix-socket"]).arg(&socket);
    let (code, text) = run(curl.arg("http://localhost/v1/sys/seal-status"));
    assert!(code == 0 && text.contains("\"sealed\":true"), "{text}");
    let address = format!("unix://{}", socket.display());
    let (code, text) = run(server.command(&["status"]).args(["-address", &address]));
    assert!(code == 2 && text.contains("sealed"), "{text}");
    assert!(server.stop() && !socket.exists());
}

#[test]
fn server_with_unusable_certificate_does_not_start() {
    let (folder, authority) = (Folder::new("bad-certificate"), UntrustedAuthority::new());
    let file = |name: &str| folder.path().join(name);
    let ((certificate, key), (_, another)) = (authority.sign(), authority.sign());
    replace(&file("cert.pem"), &certificate);
    let text = format!(
        "listener \"tcp\" {{\n  address = \"127.0.0.1:0\"\n  tls_cert_file = \"{}\"\n  \
         tls_key_file = \"{}\"\n}}\nstorage \"sqlite\" {{ path = \"{}\" }}\n",
        file("cert.pem").display(),
        file("key.pem").display(),
        file("data").display()
    );
    fs::write(file("bulkhead.hcl"), text).expect("a file can be written");
    let refuses = |why: &str| {
        for options in [&["server"][..], &["server", "--check"]] {
            let mut command = Command::new(binary());
            command.args(options).arg("--config").arg(file("bulkhead.hcl")).env_clear();
            let (code, said) = run(&mut command);
            assert!(code == 1 && said.contains(why) && said.lines().count() == 1, "{said}");
        }
    };
    refuses("cannot be read");
    replace(&file("key.pem"), &another);
    refuses("matching pair");
    replace(&file("key.pem"), &key);
    fs::set_permissions(file("key.pem"), std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .expect("the mode of the file can be set");
    refuses("chmod 600");
    assert!(!file("data").exists(), "nothing was made");
    for options in [&["--dev", "--dev-listen-address"][..], &["--listen-address"]] {
        let mut command = Command::new(binary());
        command.arg("server").args(options).arg("0.0.0.0:0").env_clear();
        let (code, said) = run(command.current_dir(folder.path()));
        assert!(code == 1 && said.contains("--tls-disable"), "{options:?}: {said}");
    }
}
