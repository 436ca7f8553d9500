//! Accepted files, refused files with their messages, and reloads.

use super::testing::{TestAuthority, set_mode};
use super::*;
use crate::server::{provider, server_config};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

mod handshakes;

/// Application protocols of the tests.
const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

#[track_caller]
fn refused(settings: &ServerTlsSettings) -> String {
    let why = server_config(settings, PROTOCOLS).expect_err("these files cannot be served");
    assert!(!why.contains('\n') && why.len() < 400, "the error is not one short sentence: {why}");
    why
}

#[track_caller]
fn says(why: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(why.contains(part), "{part:?} is not in: {why}"));
}

#[test]
fn certificate_and_key_serve_both_tls_versions() {
    let authority = TestAuthority::new();
    let settings = authority.serve(&authority.sign(7));
    let (config, ends) = server_config(&settings, PROTOCOLS).unwrap();
    assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    assert_eq!(config.max_early_data_size, 0, "nothing that can be played again");
    assert!(ends.starts_with("20") && ends.ends_with('Z') && ends.len() == 20, "{ends}");
    assert_eq!(settings.versions.protocols().len(), 2);
}

#[test]
fn unusable_certificate_files_are_refused_with_remedy() {
    let authority = TestAuthority::new();
    let good = authority.sign(7);
    let settings = authority.serve(&good);
    let cert = |text: &str| ServerTlsSettings {
        certificates: NamedFile::new("tls_cert_file", authority.write("other.pem", text)),
        ..settings.clone()
    };
    says(&refused(&cert(&authority.sign(7).certificate)), &["is not the key of", "matching"]);
    says(&refused(&cert(&authority.sign(-1).certificate)), &["certificate 1", "ended at", "renew"]);
    says(&refused(&cert("nothing")), &["holds no certificate", "BEGIN CERTIFICATE"]);
    let half = good.certificate.len() / 2;
    says(&refused(&cert(&good.certificate[..half])), &["no END line"]);
    let (chain, upside_down) = (
        format!("{}{}", good.certificate, authority.pem()),
        format!("{}{}", authority.pem(), good.certificate),
    );
    assert!(cert(&chain).check().is_ok());
    says(&refused(&cert(&upside_down)), &["certificate 1", "the server's own certificate"]);
    let at = |path| ServerTlsSettings {
        certificates: NamedFile::new("tls_cert_file", path),
        ..settings.clone()
    };
    let absent = at(authority.file("absent"));
    says(&refused(&absent), &["tls_cert_file", "cannot be read", "readable"]);
    says(&refused(&at("/dev/zero".into())), &["not an ordinary file"]);
}

#[test]
fn exposed_or_invalid_key_is_refused_without_repetition() {
    let authority = TestAuthority::new();
    let settings = authority.serve(&authority.sign(7));
    for mode in [0o604, 0o620, 0o644, 0o666] {
        set_mode(settings.key.path(), mode);
        says(&refused(&settings), &["open to others", &format!("{mode:04o}"), "chmod 600"]);
    }
    set_mode(settings.key.path(), 0o640);
    assert!(settings.check().is_ok(), "a group may be let read it");
    let key = |text: &str| ServerTlsSettings {
        key: NamedFile::new("tls_key_file", authority.write("other.key", text)),
        ..settings.clone()
    };
    says(&refused(&key("canary")), &["holds no private key"]);
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    says(&refused(&key(locked)), &["is encrypted", "openssl pkey"]);
    let torn = refused(&key("-----BEGIN PRIVATE KEY-----\ncanary!\n-----END PRIVATE KEY-----\n"));
    assert!(!torn.contains("canary"), "{torn}");
}

#[test]
fn authorities_of_clients_are_certificates() {
    let authority = TestAuthority::new();
    let settings = authority.serve(&authority.sign(7));
    let asking = |path| ServerTlsSettings {
        clients: ClientCertificates::Required(NamedFile::new("tls_client_ca_file", path)),
        ..settings.clone()
    };
    assert_eq!(asking(authority.write("ca.pem", &authority.pem())).check(), Ok(()));
    let empty = authority.write("empty.pem", "");
    says(&refused(&asking(empty)), &["tls_client_ca_file", "holds no certificate"]);
    let ended = authority.write("ended.pem", &authority.sign(-1).certificate);
    says(&refused(&asking(ended)), &["certificate 1 of tls_client_ca_file", "ended at", "renew"]);
}

#[test]
fn suites_are_chosen_within_version_and_others_stay() {
    let aes = TlsSuite::find("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384").unwrap();
    assert_eq!(aes.version, TlsVersion::Tls12);
    let left = |suites| provider(&AllowedSuites::new(suites)).cipher_suites;
    assert_eq!(left(vec![aes]).len(), 4, "one, and the three of TLS 1.3");
    assert_eq!(left(Vec::new()).len(), TlsSuite::names().len());
    assert!(TlsSuite::find("TLS_AES_128_GCM_SHA256").is_some());
    assert!(TlsSuite::find("TLS_RSA_WITH_AES_128_CBC_SHA").is_none());
}

#[test]
fn version_range_is_nonempty_and_excludes_older_versions() {
    use TlsVersion::{Tls12, Tls13};
    assert_eq!(VersionRange::new(Tls13, Tls12), None);
    assert_eq!(VersionRange::new(Tls12, Tls13), Some(VersionRange::ALL));
    let only = VersionRange::new(Tls13, Tls13).unwrap();
    assert!(only.contains(Tls13) && !only.contains(Tls12) && only.protocols().len() == 1);
    for (word, read) in [
        ("tls12", Ok(Tls12)),
        ("tls13", Ok(Tls13)),
        ("tls11", Err(UnusableVersion::Broken)),
        ("TLS1.3", Err(UnusableVersion::Unknown)),
    ] {
        assert_eq!(TlsVersion::parse(word), read, "{word}");
    }
}

#[test]
fn too_long_file_is_refused_and_not_cut() {
    let authority = TestAuthority::new();
    let mut text = authority.pem();
    let padding = " ".repeat((1 << 20) - text.len());
    text.push_str(&padding);
    let file = NamedFile::new("ca_file", authority.write("long.pem", &text));
    assert_eq!(file.certificates().unwrap().len(), 1, "1 MiB is read");
    authority.write("long.pem", &format!("{text} "));
    let why = file.certificates().unwrap_err();
    says(&why, &["ca_file /", "cannot be read", "more than 1 MiB"]);
    assert_eq!(file.secret().unwrap_err(), why);
}

#[test]
fn file_may_lack_certificates_only_if_reader_allows() {
    let authority = TestAuthority::new();
    let file = NamedFile::new("-ca-path", authority.write("README", "nothing"));
    assert_eq!(file.certificates_if_any(), Ok(Vec::new()));
    says(&file.certificates().unwrap_err(), &["-ca-path", "holds no certificate"]);
    authority.write("README", "-----BEGIN CERTIFICATE-----\nAAAA");
    says(&file.certificates_if_any().unwrap_err(), &["is not PEM", "no END line"]);
}

#[test]
fn pipe_is_read_only_if_reader_allows() {
    let (receiver, mut sender) = std::io::pipe().unwrap();
    let authority = TestAuthority::new();
    std::io::Write::write_all(&mut sender, authority.pem().as_bytes()).unwrap();
    drop(sender);
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&receiver));
    says(&NamedFile::new("ca_file", &path).certificates().unwrap_err(), &["not an ordinary file"]);
    assert_eq!(NamedFile::or_pipe("-ca-cert", &path).certificates().unwrap().len(), 1);
}

#[test]
fn given_authorities_are_trusted_alone_or_beside_public() {
    let authority = TestAuthority::new();
    let authorities = [authority.der()];
    let public = Authorities::public_and(&[]).unwrap().count();
    assert!(public > 100);
    assert_eq!(Authorities::public_and(&authorities).unwrap().count(), public + 1);
    assert_eq!(Authorities::only(&authorities).unwrap().count(), 1);
    let torn = CertificateDer::from(vec![0x30, 0x00]);
    let fault = Authorities::only(&[authority.der(), torn]).unwrap_err();
    assert_eq!(fault.position, 2);
    says(&fault.to_string(), &["certificate 2 is not an authority's"]);
}

#[test]
fn server_name_is_host_name_or_address() {
    for (text, name) in [("[::1]", "::1"), ("127.0.0.1", "127.0.0.1"), ("a.example", "a.example")] {
        assert_eq!(server_name(text).unwrap().to_str(), name);
    }
    says(&server_name("a b").unwrap_err().to_string(), &["\"a b\" is neither a host name"]);
}

/// The results that a listener reports.
#[derive(Default)]
struct RecordedEvents(Mutex<Vec<&'static str>>);

impl RecordedEvents {
    fn count(&self, event: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|one| **one == event).count()
    }
}

impl CertificateEvents for RecordedEvents {
    fn served(&self, _file: &Path, _ends: &str) {
        self.0.lock().unwrap().push("served");
    }

    fn refused(&self, _why: &str) {
        self.0.lock().unwrap().push("refused");
    }
}

/// Waits until the listener has reported an event `times` times.
async fn until(events: &RecordedEvents, event: &str, times: usize) {
    let end = Instant::now() + Duration::from_secs(20);
    while events.count(event) < times {
        assert!(Instant::now() < end, "no {event}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn changed_certificate_files_are_served_unless_invalid() {
    let authority = TestAuthority::new();
    let events = Arc::new(RecordedEvents::default());
    let settings = authority.serve(&authority.sign(7));
    let tls = ListenerTls::load(settings.clone(), PROTOCOLS, events.clone()).unwrap();
    let following = Arc::clone(&tls).follow_files();
    let following = tokio::spawn(async move { match following.await {} });
    let first = tls.config();
    let next = authority.sign(7);
    authority.write("cert.pem", &next.certificate);
    until(&events, "refused", 1).await;
    assert!(Arc::ptr_eq(&first, &tls.config()), "a certificate without its key is not served");
    authority.write("key.pem", next.key.expose());
    until(&events, "served", 2).await;
    let second = tls.config();
    assert!(!Arc::ptr_eq(&first, &second));
    tls.renew().await;
    assert!(!Arc::ptr_eq(&second, &tls.config()), "a signal reads files that did not change");
    std::fs::remove_file(settings.certificates.path()).unwrap();
    until(&events, "refused", 2).await;
    following.abort();
}
