//! Accepted files, refused files with their messages, and reloads.

use super::testing::{TestAuthority, set_mode};
use super::*;
use crate::log::testing::RecordingLog;
use bulkhead_access::log::Log;
use std::time::{Duration, Instant};

#[track_caller]
fn refused(settings: &TlsSettings) -> String {
    let why = server_config(settings).expect_err("these files cannot be served");
    assert!(!why.contains('\n') && why.len() < 400, "the error is not one short sentence: {why}");
    why
}

#[track_caller]
fn says(why: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(why.contains(part), "{part:?} is not in: {why}"));
}

#[test]
fn a_certificate_and_its_key_are_served_in_both_versions() {
    let authority = TestAuthority::new();
    let settings = authority.serve(&authority.sign(7));
    let (config, ends) = server_config(&settings).unwrap();
    assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    assert_eq!(config.max_early_data_size, 0, "nothing that can be played again");
    assert!(ends.starts_with("20") && ends.ends_with('Z') && ends.len() == 20, "{ends}");
    assert_eq!(settings.protocol_versions().len(), 2);
}

#[test]
fn files_that_cannot_be_served_are_refused_each_with_what_to_do() {
    let authority = TestAuthority::new();
    let good = authority.sign(7);
    let settings = authority.serve(&good);
    let cert = |text: &str| TlsSettings {
        cert_file: authority.write("other.pem", text),
        ..settings.clone()
    };
    says(&refused(&cert(&authority.sign(7).certificate)), &["is not the key of", "together"]);
    says(&refused(&cert(&authority.sign(-1).certificate)), &["certificate 1", "ended at", "renew"]);
    says(&refused(&cert("nothing")), &["holds no certificate", "BEGIN CERTIFICATE"]);
    let half = good.certificate.len() / 2;
    says(&refused(&cert(&good.certificate[..half])), &["no END line"]);
    let (chain, upside_down) = (
        format!("{}{}", good.certificate, authority.pem()),
        format!("{}{}", authority.pem(), good.certificate),
    );
    assert!(server_config(&cert(&chain)).is_ok());
    says(&refused(&cert(&upside_down)), &["certificate 1", "write the server's own first"]);
    let absent = TlsSettings { cert_file: authority.file("absent"), ..settings.clone() };
    says(&refused(&absent), &["tls_cert_file", "cannot be read", "may read"]);
    let device = TlsSettings { cert_file: "/dev/zero".into(), ..settings.clone() };
    says(&refused(&device), &["not an ordinary file"]);
}

#[test]
fn a_key_that_others_may_read_or_that_is_not_a_key_is_refused_and_never_repeated() {
    let authority = TestAuthority::new();
    let settings = authority.serve(&authority.sign(7));
    for mode in [0o604, 0o620, 0o644, 0o666] {
        set_mode(&settings.key_file, mode);
        says(&refused(&settings), &["open to others", &format!("{mode:04o}"), "chmod 600"]);
    }
    set_mode(&settings.key_file, 0o640);
    assert!(server_config(&settings).is_ok(), "a group may be let read it");
    let key = |text: &str| TlsSettings {
        key_file: authority.write("other.key", text),
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
    let asking =
        |file| TlsSettings { clients: ClientCertificates::Required(file), ..settings.clone() };
    assert!(server_config(&asking(authority.ca_file())).is_ok());
    let empty = authority.write("empty.pem", "");
    says(&refused(&asking(empty)), &["tls_client_ca_file", "holds no certificate"]);
    let ended = authority.write("ended.pem", &authority.sign(-1).certificate);
    says(&refused(&asking(ended)), &["certificate 1 of tls_client_ca_file", "ended at", "renew"]);
}

#[test]
fn suites_are_chosen_within_their_version_and_the_others_stay() {
    let (aes, of) = find_suite("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384").unwrap();
    assert_eq!(of, TlsVersion::Tls12);
    let settings =
        TlsSettings { cipher_suites: vec![aes], ..TlsSettings::of("/c".into(), "/k".into()) };
    let left: Vec<_> = provider(&settings).cipher_suites.iter().map(|one| one.suite()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
    assert!(left.contains(&aes));
    assert!(
        find_suite("TLS_AES_128_GCM_SHA256").is_some()
            && find_suite("TLS_RSA_WITH_AES_128_CBC_SHA").is_none()
    );
}

/// Waits until the log has an event `times` times.
async fn until(lines: &RecordingLog, event: &str, times: usize) {
    let end = Instant::now() + Duration::from_secs(20);
    while lines.events().iter().filter(|one| **one == event).count() < times {
        assert!(Instant::now() < end, "no {event} in {:?}", lines.events());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn files_that_change_are_served_and_bad_ones_leave_what_was_there() {
    let authority = TestAuthority::new();
    let lines = Arc::new(RecordingLog::default());
    let log: Arc<dyn Log> = Arc::clone(&lines) as Arc<dyn Log>;
    let settings = authority.serve(&authority.sign(7));
    let tls = ListenerTls::load(settings.clone(), &log).unwrap();
    let following = Arc::clone(&tls).follow_files(Arc::clone(&log));
    let following = tokio::spawn(async move { match following.await {} });
    let first = tls.config();
    let next = authority.sign(7);
    authority.write("cert.pem", &next.certificate);
    until(&lines, "certificate-refused", 1).await;
    assert!(Arc::ptr_eq(&first, &tls.config()), "a certificate without its key is not served");
    authority.write("key.pem", &next.key);
    until(&lines, "certificate-served", 2).await;
    let second = tls.config();
    assert!(!Arc::ptr_eq(&first, &second));
    tls.renew(&log).await;
    assert!(!Arc::ptr_eq(&second, &tls.config()), "a signal reads files that did not change");
    std::fs::remove_file(&settings.cert_file).unwrap();
    until(&lines, "certificate-refused", 2).await;
    following.abort();
}

#[test]
fn nearly_certificates_do_not_read_and_do_no_harm() {
    let authority = TestAuthority::new();
    let whole = authority.der();
    assert!(der::parse_members(&whole).is_some());
    for cut in 0..whole.len() {
        der::parse_members(&whole[..cut]);
        let mut bent = whole.to_vec();
        bent[cut] ^= 0xff;
        der::parse_members(&bent);
    }
    assert_eq!(der::parse_members(&[]), None);
    assert_eq!(der::parse_members(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
}
