//! `config`: mistakes are found when they are written, and nothing is sent to a server that does
//! not prove its identity.

use super::{DirectoryStage, FIRST};
use bulkhead_tests::operators::Operators;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::storage;
use bulkhead_tests::{Bulkhead, DirectoryKind, DirectoryServer};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn config_dry_run_reports_mistake_and_stores_nothing() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::empty(kind);
        let other = if kind == DirectoryKind::Samba { "openldap" } else { "ad" };
        let nowhere = format!("OU=nowhere,{}", stage.branch.dn);
        for (what, changes, status, why) in [
            ("password", json!({ "bindpass": "Jm6-Yt2-Hd8-Vc5" }), 400, "binddn and bindpass"),
            ("schema", json!({ "schema": other }), 400, "schema"),
            ("userdn", json!({ "userdn": nowhere }), 400, "userdn"),
            ("server", json!({ "url": "ldaps://127.0.0.1:1" }), 502, "ldaps://127.0.0.1:1"),
        ] {
            let changes = crate::world::with(changes, json!({ "verify": true }));
            let refused = stage.configure(changes).expect(status);
            assert!(refused.errors().contains(why), "{what}: {}", refused.errors());
        }
        let tried = stage.configure(json!({ "verify": true })).expect(200);
        assert_eq!(tried.body["data"]["verified"], true);
        stage.root.read("directory/config").expect(404);
        stage.assert_silent("Jm6-Yt2-Hd8-Vc5");
    }
}

/// Refusal of a formatter without exactly one placeholder.
const ONE_PLACE: &str = "must contain {{PASSWORD}} exactly once";

#[test]
fn bad_directory_settings_are_refused_and_change_nothing() {
    let stage = DirectoryStage::new(DirectoryKind::OpenLdap);
    let before = stage.root.read("directory/config").expect(200).body["data"].clone();
    for (changes, words) in [
        (json!({ "url": "http://127.0.0.1" }), "is not ldap://host"),
        (json!({ "url": " , " }), "url names 0 servers"),
        (json!({ "schema": "novell" }), "\"novell\" is none of ad and openldap"),
        (json!({ "binddn": "" }), "binddn is required"),
        (json!({ "bindpass": "" }), "bindpass is required"),
        (json!({ "length": 13 }), "length 13 is none of 14 to 256"),
        (json!({ "length": 20, "password_policy": "strong" }), "exclude each other"),
        (json!({ "formatter": "no place" }), ONE_PLACE),
        (json!({ "formatter": "{{PASSWORD}}{{PASSWORD}}" }), ONE_PLACE),
        (json!({ "formatter": "{{PASSWORD}", "length": 40 }), ONE_PLACE),
        (json!({ "tls_min_version": "tls10" }), "\"tls10\" is none of tls12 and tls13"),
        (
            json!({ "tls_min_version": "tls13", "tls_max_version": "tls12" }),
            "tls_min_version is above tls_max_version",
        ),
        (json!({ "certificate": "nonsense" }), "certificate: the certificate is not PEM"),
        (json!({ "ttl": "2h", "max_ttl": "1h" }), "ttl 2h is longer than max_ttl 1h"),
        (json!({ "ttl": -1 }), "ttl: -1 is not a duration"),
        (json!({ "request_timeout": "soon" }), "request_timeout: \"soon\" is not a duration"),
    ] {
        stage.root.write("directory/config", &changes).refused(400, words);
        let now = stage.root.read("directory/config").expect(200).body["data"].clone();
        assert_eq!(now, before, "{changes}");
    }
    stage.root.delete("directory/config").expect(204);
    stage.root.read("directory/config").expect(404);
    stage.root.read("directory/creds/none").expect(404);
    let set = json!({ "service_account_names": "a" });
    for (path, body) in [("library/team", set), ("rotate-root", json!({}))] {
        let refused = stage.root.write(&format!("directory/{path}"), &body);
        refused.refused(400, "there is no configuration");
    }
}

#[test]
fn ldaps_and_starttls_require_known_server_authority() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::empty(kind);
        let server = stage.branch.server;
        let starttls = json!({ "url": server.clear_url(), "starttls": true });
        let stranger = UntrustedAuthority::new().certificate.pem();
        for way in [json!({}), starttls] {
            let with = |changes: Value| {
                let changes = crate::world::with(changes, json!({ "verify": true }));
                stage.configure(crate::world::with(way.clone(), changes))
            };
            with(json!({})).expect(200);
            with(json!({ "tls_min_version": "tls13" })).expect(200);
            with(json!({ "tls_max_version": "tls12" })).expect(200);
            for (certificate, why) in [("", "no authority"), (stranger.as_str(), "another one")] {
                let refused = with(json!({ "certificate": certificate }));
                assert_eq!(refused.status, 502, "{why}: {refused:?}");
                let errors = refused.errors();
                assert!(
                    errors.contains("give certificate for a private authority"),
                    "{why}: {errors}"
                );
            }
            let insecure = with(json!({ "certificate": "", "insecure_tls": true })).expect(200);
            assert!(insecure.warnings().contains("insecure_tls"), "{}", insecure.warnings());
        }
    }
}

/// The server's configuration names the authority, because no component has a list of authorities.
#[test]
fn the_operators_authority_is_the_default() {
    let branch = DirectoryServer::shared(DirectoryKind::OpenLdap).branch();
    let (folder, data) = (Folder::new("directory-authority"), Folder::new("directory-operator"));
    let (authority, file) = (folder.path().join("ca.pem"), folder.path().join("bulkhead.hcl"));
    fs::write(&authority, branch.server.authority()).expect("a file can be written");
    let text = format!(
        "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
         {}\n\
         outbound {{ ca_file = \"{}\" }}\n",
        storage::block(data.path()),
        authority.display()
    );
    fs::write(&file, text).expect("a file can be written");
    let mut server = Bulkhead::prepared(binary(), data).configured(file);
    server.start_again();
    let operators = Operators::initialise(&server, 1, 1);
    operators.unseal(&server);
    let root = operators.root(&server);
    root.write("sys/mounts/directory", &json!({ "type": "directory" })).expect(204);
    let configure = |certificate: &str| {
        let changes = json!({ "certificate": certificate, "verify": true });
        root.write("directory/config", &crate::world::with(branch.config(), changes))
    };
    configure("").expect(200);
    let refused = configure(&UntrustedAuthority::new().certificate.pem()).expect(502);
    assert!(refused.errors().contains("certificate"), "{}", refused.errors());
}

/// OpenLDAP accepts passwords without TLS.
#[test]
fn plaintext_active_directory_takes_no_password_and_warns() {
    let stage = DirectoryStage::empty(DirectoryKind::Samba);
    let clear = json!({ "url": stage.branch.server.clear_url() });
    let answer = stage.configure(clear).expect(200);
    assert!(answer.warnings().contains("in clear"), "{}", answer.warnings());
    let role = json!({ "service_account_name": stage.branch.upn_of("svc1") });
    let refused = stage.root.write("directory/roles/build", &role).expect(400);
    assert!(refused.errors().contains("secured connection"), "{}", refused.errors());
}

#[test]
fn expired_weak_and_nameless_certificates_are_not_trusted() {
    let authority = UntrustedAuthority::new();
    for (what, why) in [
        ("expired", "expired"),
        ("nameless", "name"),
        ("of another host", "name"),
        ("signed with SHA-1", "certificate"),
    ] {
        let folder = authority.server(what);
        let server = DirectoryServer::with_certificate(folder.path());
        let stage = DirectoryStage::of(server.branch());
        let ways = [json!({}), json!({ "url": server.clear_url(), "starttls": true })];
        let verify = |way: &Value, changes: Value| {
            let changes = crate::world::with(changes, json!({ "verify": true }));
            stage.configure(crate::world::with(way.clone(), changes))
        };
        for way in &ways {
            let refused = verify(way, json!({}));
            assert_eq!(refused.status, 502, "{what}: {refused:?}");
            assert!(refused.errors().contains(why), "{what}: {}", refused.errors());
        }
        assert!(!server.log().contains("BIND dn=\"CN=t1-engine"), "no password was sent to it");
        for way in &ways {
            verify(way, json!({ "insecure_tls": true })).expect(200);
        }
        server.stop();
    }
}

#[test]
fn tls_versions_are_as_configured() {
    let server = DirectoryServer::own(DirectoryKind::OpenLdap);
    let stage = DirectoryStage::of(server.branch());
    let spoken = |changes: Value| {
        let before = server.log().len();
        stage.configure(crate::world::with(changes, json!({ "verify": true }))).expect(200);
        let log = server.log()[before..].to_owned();
        ["TLS1.2", "TLS1.3"].map(|version| log.contains(&format!("tls_proto={version}")))
    };
    assert_eq!(spoken(json!({})), [false, true]);
    assert_eq!(spoken(json!({ "tls_max_version": "tls12" })), [true, false]);
    assert_eq!(spoken(json!({ "tls_min_version": "tls13" })), [false, true]);
    server.stop();
}

#[test]
fn next_server_follows_missing_server_but_not_refusal() {
    for kind in bulkhead_tests::directory_server::KINDS {
        let stage = DirectoryStage::empty(kind);
        let url = stage.branch.server.url();
        let urls = format!("ldaps://127.0.0.1:1, {url}");
        stage.configure(json!({ "url": urls, "verify": true })).expect(200);
        let wrong = json!({ "url": urls, "bindpass": "Jm6-Yt2-Hd8-Vc5", "verify": true });
        stage.configure(wrong).refused(400, "binddn and bindpass");
        stage.configure(json!({ "url": urls })).expect(204);
        stage.role("build", "svc1");
        stage.creds("build");
    }
}

#[test]
fn a_mount_reaches_only_configured_and_granted_servers() {
    let stage = DirectoryStage::new(DirectoryKind::OpenLdap);
    stage.role("build", "svc1");
    let grant = |line: String| {
        let grants = json!({ "grants": [line] });
        stage.root.write("sys/mounts/directory/tune", &grants).expect(204);
    };
    grant("ldap:ldaps://dc1.corp.example".to_owned());
    let refused = stage.root.read("directory/creds/build");
    assert!((400..500).contains(&refused.status), "{refused:?}");
    assert!(refused.errors().contains("secrets tune --grant"), "{}", refused.errors());
    assert!(stage.takes("svc1", FIRST));
    grant(format!("ldap:{}", stage.branch.server.url()));
    stage.creds("build");
}

#[test]
fn configuration_never_reaches_cloud_metadata_or_this_server() {
    let stage = DirectoryStage::empty(DirectoryKind::OpenLdap);
    let own = stage.bulkhead.address().port();
    for url in [
        format!("ldap://127.0.0.1:{own}"),
        format!("ldap://localhost:{own}"),
        "ldap://169.254.169.254:80".to_owned(),
        "ldap://[::ffff:169.254.169.254]:80".to_owned(),
        "ldap://[fe80::1]:389".to_owned(),
    ] {
        let refused = stage.configure(json!({ "url": url, "verify": true })).expect(400);
        assert!(refused.errors().contains("never dialled"), "{url}: {}", refused.errors());
    }
}

/// Clients use the engine under the name of an earlier engine.
#[test]
fn mount_of_type_ad_is_directory_engine() {
    let stage = DirectoryStage::empty(DirectoryKind::Samba);
    stage.root.write("sys/mounts/ad", &json!({ "type": "ad" })).expect(204);
    stage.root.write("ad/config", &stage.branch.config()).expect(204);
    let role = json!({ "service_account_name": stage.branch.upn_of("svc1") });
    stage.root.write("ad/roles/build", &role).expect(204);
    let shown = stage.root.read("ad/creds/build").expect(200);
    assert!(stage.takes("svc1", shown.text("current_password")));
}

#[test]
fn passwords_follow_the_configuration() {
    let stage = DirectoryStage::new(DirectoryKind::OpenLdap);
    stage.role("build", "svc1");
    let policy = r#"length = 30
        rule "charset" { charset = "abcdefghijklmnopqrstuvwxyz" min-chars = 30 }"#;
    stage.root.write("sys/policies/password/low", &json!({ "policy": policy })).expect(204);
    let is_low = |text: &str| text.len() == 30 && text.bytes().all(|one| one.is_ascii_lowercase());
    for (changes, fits) in [
        (
            json!({ "length": 50 }),
            (|text| text.len() == 50 && text.starts_with("?@09AZ")) as fn(&str) -> bool,
        ),
        (json!({ "formatter": "x-{{PASSWORD}}-y", "length": 40 }), |text| {
            text.len() == 40 && text.starts_with("x-") && text.ends_with("-y")
        }),
        (json!({ "password_policy": "low" }), is_low),
    ] {
        stage.root.write("directory/config", &changes).expect(204);
        stage.root.write("directory/rotate-role/build", &json!({})).expect(204);
        let password = stage.creds("build").text("current_password").to_owned();
        assert!(fits(&password) && stage.takes("svc1", &password), "{changes}");
    }
}

/// An authority that issues certificates that must not be trusted.
struct UntrustedAuthority {
    certificate: CertifiedIssuer<'static, KeyPair>,
}

impl UntrustedAuthority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of the tests");
        let key = KeyPair::generate().expect("a key");
        let certificate = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        Self { certificate }
    }

    /// Writes the files of a server with a certificate of the given kind.
    fn server(&self, what: &str) -> Folder {
        let names = match what {
            "nameless" => Vec::new(),
            "of another host" => vec!["dc1.corp.example".to_owned()],
            _ => vec!["127.0.0.1".to_owned()],
        };
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, "127.0.0.1");
        if what == "expired" {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.certificate).expect("a certificate");
        let folder = Folder::new("certificates");
        if what == "signed with SHA-1" {
            self.sign_with_sha1(folder.path());
            return folder;
        }
        for (name, pem) in [
            ("ca.pem", self.certificate.pem()),
            ("server.pem", certificate.pem()),
            ("server.key", key.serialize_pem()),
        ] {
            fs::write(folder.path().join(name), pem).expect("a file of ours");
        }
        folder
    }

    /// Signs with SHA-1, as only old programs do.
    fn sign_with_sha1(&self, folder: &Path) {
        let file = |name: &str| folder.join(name).display().to_string();
        fs::write(file("ca.pem"), self.certificate.pem()).expect("a file of ours");
        let key = self.certificate.key().serialize_pem();
        fs::write(file("ca.key"), key).expect("a file of ours");
        let done = Command::new("openssl")
            .args(["req", "-x509", "-sha1", "-nodes", "-days", "2", "-newkey", "ec"])
            .args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=127.0.0.1"])
            .args(["-addext", "subjectAltName=IP:127.0.0.1"])
            .args(["-CA", &file("ca.pem"), "-CAkey", &file("ca.key")])
            .args(["-out", &file("server.pem"), "-keyout", &file("server.key")])
            .output()
            .expect("openssl starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}
