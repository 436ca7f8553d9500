//! Credentials of MariaDB, checked in the database.

use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Bulkhead, Client, MariaDb};
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::world::with;

mod creations;
mod identities;
mod login_causes;
mod rights;

const CREATION: &str = "CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'; \
                        GRANT SELECT ON demo.orders TO '{{name}}'@'%'";

/// A server, a database, and the connection `sea` between them.
struct MysqlStage {
    /// Declared first, so that the server ends first.
    _bulkhead: Bulkhead,
    mariadb: MariaDb,
    root: Client,
}

struct MysqlCredential {
    username: String,
    password: String,
    lease: String,
}

impl MysqlStage {
    fn new(options: &[&str]) -> Self {
        let mariadb = MariaDb::start(options);
        let bulkhead = Bulkhead::start();
        let root = bulkhead.root();
        Self { _bulkhead: bulkhead, mariadb, root }
    }

    fn connected() -> Self {
        let sea = Self::new(&[]);
        sea.connect(json!({})).expect_success();
        sea.role("reader", json!({ "creation_statements": [CREATION] }));
        sea
    }

    /// Configures `sea` with the usual fields and `fields`.
    fn connect(&self, fields: Value) -> Answer {
        let usual = json!({
            "plugin_name": "mysql-database-plugin",
            "allowed_roles": "*",
            "connection_url": self.mariadb.url(),
            "username": "bulkhead",
            "password": self.mariadb.password,
        });
        self.root.write("database/config/sea", &with(usual, fields))
    }

    #[track_caller]
    fn role(&self, name: &str, fields: Value) {
        let usual = json!({ "db_name": "sea", "default_ttl": "1h" });
        let answer = self.root.write(&format!("database/roles/{name}"), &with(usual, fields));
        assert!(answer.status < 300, "{answer:?}");
    }

    #[track_caller]
    fn credential(&self, role: &str) -> MysqlCredential {
        let answer = self.root.read(&format!("database/creds/{role}")).expect(200);
        MysqlCredential {
            username: answer.text("username").to_owned(),
            password: answer.text("password").to_owned(),
            lease: answer.lease().to_owned(),
        }
    }

    #[track_caller]
    fn revoke(&self, credential: &MysqlCredential) {
        let lease = json!({ "lease_id": credential.lease });
        self.root.write("sys/leases/revoke", &lease).expect(204);
    }
}

#[test]
fn credential_logs_in_and_revocation_ends_sessions() {
    let sea = MysqlStage::connected();
    let credential = sea.credential("reader");
    let (name, password) = (&credential.username, &credential.password);
    assert!(name.starts_with("v-root-reader-") && name.len() <= 32, "{name}");
    let read = sea.mariadb.login(name, password, "SELECT item FROM orders ORDER BY id");
    assert_eq!(read.as_deref(), Ok("rope\nlantern"));
    let refused = sea.mariadb.login(name, password, "DELETE FROM orders").unwrap_err();
    assert!(refused.contains("1142"), "{refused}");
    let mut session = sea.mariadb.sleeper(name, password);
    sea.revoke(&credential);
    assert_eq!(sea.mariadb.users(), Vec::<String>::new());
    until_true("the open session is ended", Duration::from_secs(5), || {
        session.try_wait().expect("the client is ours").is_some()
    });
    sea.revoke(&credential);
}

#[test]
fn revocation_removes_other_host_accounts_and_accepts_missing() {
    let sea = MysqlStage::connected();
    sea.role(
        "local",
        json!({ "creation_statements": [
            "CREATE USER '{{name}}'@'127.0.0.1' IDENTIFIED BY '{{password}}'",
            "GRANT SELECT ON demo.orders TO '{{name}}'@'127.0.0.1'",
            "CREATE USER `{{name}}`@`10.%` IDENTIFIED BY \"{{password}}\"",
        ] }),
    );
    let credential = sea.credential("local");
    assert_eq!(sea.mariadb.users().len(), 2);
    assert!(sea.mariadb.login(&credential.username, &credential.password, "SELECT 1").is_ok());
    sea.revoke(&credential);
    assert_eq!(sea.mariadb.users(), Vec::<String>::new());
    let credential = sea.credential("reader");
    sea.mariadb.query(&format!("DROP USER '{}'@'%'", credential.username));
    sea.revoke(&credential);
}

#[test]
fn an_expired_lease_removes_its_mariadb_user() {
    let sea = MysqlStage::connected();
    sea.role("brief", json!({ "creation_statements": [CREATION], "default_ttl": "2s" }));
    let end = Instant::now() + Duration::from_secs(20);
    let credential = sea.credential("brief");
    let renewed = json!({ "lease_id": credential.lease });
    sea.root.write("sys/leases/renew", &renewed).expect(200);
    let left = end.saturating_duration_since(Instant::now());
    until_true("the user goes at its end", left, || sea.mariadb.users().is_empty());
}

#[test]
fn a_partly_failed_creation_leaves_no_user() {
    let sea = MysqlStage::connected();
    let broken = json!({ "creation_statements": [CREATION, "GRANT nothing TO '{{name}}'@'%'"] });
    sea.role("broken", broken);
    let refused = sea.root.read("database/creds/broken").expect(400);
    // MariaDB reports a missing user, MySQL a missing role.
    let has_number =
        ["(error 1", "(error 3523)"].iter().any(|number| refused.errors().contains(number));
    assert!(has_number, "the error has no number of the database: {}", refused.errors());
    assert_eq!(sea.mariadb.users(), Vec::<String>::new());
}

#[test]
fn wrong_password_or_database_is_refused_without_storing() {
    let sea = MysqlStage::new(&[]);
    let wrong = sea.connect(json!({ "password": "not-the-password" })).expect(400);
    assert!(wrong.errors().contains("1045"), "{}", wrong.errors());
    assert!(!wrong.errors().contains("not-the"), "{}", wrong.errors());
    let nowhere = json!({ "connection_url": sea.mariadb.url().replace("/demo", "/nowhere") });
    let missing = sea.connect(nowhere.clone()).expect(400).errors();
    assert!(missing.contains("database nowhere of connection"), "{missing}");
    assert!(missing.contains("does not exist") && missing.contains("1049"), "{missing}");
    sea.mariadb.query("CREATE USER 'weak'@'%' IDENTIFIED BY 'Hv3-Pq8-Lm5'");
    let weak = with(nowhere, json!({ "username": "weak", "password": "Hv3-Pq8-Lm5" }));
    let closed = sea.connect(weak).expect(400).errors();
    assert!(closed.contains("or user weak has no privilege there (error 1044)"), "{closed}");
    for url in
        ["u@unix(/run/mysqld.sock)/", "u@tcp(169.254.169.254)/", "u@tcp(db)/?allowAllFiles=1"]
    {
        let refused = sea.connect(json!({ "connection_url": url }));
        assert!((400..500).contains(&refused.status), "{url}: {refused:?}");
    }
    sea.root.read("database/config/sea").expect(404);
}

#[test]
fn errors_name_expired_password_and_locked_account() {
    let sea = MysqlStage::new(&[]);
    sea.mariadb.query("CREATE USER 'due'@'%' IDENTIFIED BY 'Hv3-Pq8-Lm5' PASSWORD EXPIRE");
    sea.mariadb.query("CREATE USER 'shut'@'%' IDENTIFIED BY 'Hv3-Pq8-Lm5' ACCOUNT LOCK");
    sea.mariadb.query("GRANT SELECT ON demo.orders TO 'due'@'%'");
    let connect = |user: &str| {
        let login = json!({ "username": user, "password": "Hv3-Pq8-Lm5" });
        sea.connect(login).expect(400).errors()
    };
    let due = connect("due");
    assert!(due.contains("the password of user due of connection"), "{due}");
    assert!(due.contains("has expired and must be reset"), "{due}");
    let shut = connect("shut");
    assert!(shut.contains("the account of user shut") && shut.contains("is locked"), "{shut}");
    sea.root.read("database/config/sea").expect(404);
}

#[test]
fn errors_name_an_account_blocked_after_failed_logins() {
    let sea = MysqlStage::new(&[]);
    let is_mariadb = sea.mariadb.query("SELECT VERSION()").contains("MariaDB");
    let (lock, number) = if is_mariadb {
        ("", 4150)
    } else {
        ("FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME 1", 3955)
    };
    if is_mariadb {
        sea.mariadb.query("SET GLOBAL max_password_errors = 1");
    }
    sea.mariadb.query(&format!("CREATE USER 'barred'@'%' IDENTIFIED BY 'Hv3-Pq8-Lm5' {lock}"));
    for _ in 0..2 {
        sea.mariadb.login("barred", "wrong", "SELECT 1").expect_err("the password is wrong");
    }
    let login = json!({ "username": "barred", "password": "Hv3-Pq8-Lm5" });
    let refusal = sea.connect(login).expect(400).errors();
    let text = format!("is locked, or blocked after failed logins (error {number})");
    assert!(refusal.contains(&text), "{refusal}");
}

#[test]
fn mariadb_nonrandom_username_template_removes_no_other_user() {
    let sea = MysqlStage::new(&[]);
    let answer = sea.connect(json!({ "username_template": "app-{{.RoleName}}" })).expect(200);
    assert!(answer.body["warnings"].to_string().contains("eight random characters"), "{answer:?}");
    sea.role("reader", json!({ "creation_statements": [CREATION] }));
    let first = sea.credential("reader");
    assert_eq!(first.username, "app-reader");
    let second = sea.root.read("database/creds/reader").expect(400).errors();
    assert!(second.contains("creates an existing user"), "{second}");
    let at_once: Vec<u16> = std::thread::scope(|scope| {
        let request_status = || sea.root.read("database/creds/reader").status;
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(request_status)).collect();
        callers.into_iter().map(|caller| caller.join().expect("no caller panics")).collect()
    });
    assert_eq!(at_once, [400; 8]);
    let login = sea.mariadb.login(&first.username, &first.password, "SELECT 1");
    assert!(login.is_ok(), "the first user is there: {login:?}");
    sea.revoke(&first);
    sea.credential("reader");
}

#[test]
fn unlimited_sessions_are_capped_with_warning() {
    let sea = MysqlStage::new(&[]);
    let answer = sea.connect(json!({ "max_open_connections": -1 })).expect(200);
    assert!(
        answer.body["warnings"].to_string().contains("a connection has at most 64"),
        "{answer:?}"
    );
    sea.role("reader", json!({ "creation_statements": [CREATION] }));
    let credential = sea.credential("reader");
    sea.revoke(&credential);
}

#[test]
fn read_shows_no_password_in_any_url_form() {
    let sea = MysqlStage::new(&[]);
    let (port, password) = (sea.mariadb.port, sea.mariadb.password.clone());
    for url in [
        format!("bulkhead:{password}@tcp(127.0.0.1:{port})/demo"),
        format!("mysql://bulkhead:{password}@127.0.0.1:{port}/demo"),
        sea.mariadb.url(),
    ] {
        sea.connect(json!({ "connection_url": url })).expect_success();
        let read = sea.root.read("database/config/sea").expect(200).body.to_string();
        assert!(!read.contains(&password), "{url}: {read}");
        assert!(
            !read.contains("\"plugin_name\":\"mysql-database-plugin\",\"plugin_name"),
            "{read}"
        );
        let details = sea.root.read("database/config/sea").expect(200);
        assert!(details.body["data"]["connection_details"]["plugin_name"].is_null(), "{read}");
    }
}

#[test]
fn caller_chosen_names_cannot_escape_quotes() {
    let sea = MysqlStage::connected();
    for template in [
        "{{ .DisplayName | truncate 12 }}{{ random 20 | truncate 20 }}",
        "x{{ random 12 }}'{{ .RoleName }}",
    ] {
        sea.connect(json!({ "username_template": template })).expect_success();
        let credential = sea.credential("reader");
        let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte);
        assert!(credential.username.bytes().all(harmless), "{}", credential.username);
        let login = sea.mariadb.login(&credential.username, &credential.password, "SELECT 1");
        assert_eq!(login.as_deref(), Ok("1"));
        sea.revoke(&credential);
        assert!(sea.mariadb.login(&credential.username, &credential.password, "SELECT 1").is_err());
    }
}

#[test]
fn usernames_of_older_servers_have_sixteen_characters() {
    let sea = MysqlStage::connected();
    for plugin in [
        "mysql-aurora-database-plugin",
        "mysql-rds-database-plugin",
        "mysql-legacy-database-plugin",
    ] {
        sea.connect(json!({ "plugin_name": plugin })).expect_success();
        let credential = sea.credential("reader");
        let name = &credential.username;
        assert!(name.starts_with("v-read-") && name.len() == 16, "{plugin}: {name}");
        sea.revoke(&credential);
    }
    let read = sea.root.read("database/config/sea").expect(200);
    assert_eq!(read.text("plugin_name"), "mysql-legacy-database-plugin");
}

#[test]
fn connection_presents_certificate_and_verifies_server_certificate() {
    let sea = MysqlStage::new(&["--require-secure-transport=ON"]);
    sea.mariadb.query(
        "CREATE USER 'certified'@'%' REQUIRE SUBJECT '/CN=certified'; \
         GRANT CREATE USER, PROCESS ON *.* TO 'certified'@'%'; \
         GRANT SELECT ON mysql.user TO 'certified'@'%'; \
         GRANT SELECT ON demo.orders TO 'certified'@'%' WITH GRANT OPTION",
    );
    let shown = |subject: &str, more: Value| {
        let (certificate, key) = sea.mariadb.authority.client(subject);
        let usual = json!({
            "username": "certified",
            "password": "",
            "tls_ca": sea.mariadb.authority.certificate(),
            "tls_certificate_key": certificate + &key,
        });
        sea.connect(with(usual, more))
    };
    sea.connect(json!({ "connection_url": format!("{}?tls=false", sea.mariadb.url()) }))
        .expect(400);
    shown("/CN=other", json!({})).expect(400);
    shown("/CN=certified", json!({ "tls_server_name": "elsewhere.example" })).expect(503);
    shown("/CN=certified", json!({ "tls_server_name": "db.example" })).expect_success();
    sea.role("reader", json!({ "creation_statements": [CREATION] }));
    let credential = sea.credential("reader");
    let read = sea.root.read("database/config/sea").expect(200).body.to_string();
    assert!(!read.contains("PRIVATE KEY"), "{read}");
    sea.revoke(&credential);
    assert_eq!(sea.mariadb.users(), Vec::<String>::new());
}

#[test]
fn password_changed_at_server_is_reported_and_replaceable() {
    let sea = MysqlStage::connected();
    let before = sea.credential("reader");
    let renewed = json!({ "lease_id": before.lease, "increment": "30m" });
    sea.root.write("sys/leases/renew", &renewed).expect(200);
    sea.mariadb.query("ALTER USER 'bulkhead'@'%' IDENTIFIED BY 'Pq3-Rm8-Ls2'");
    sea.root.write("database/reset/sea", &json!({})).expect(400);
    sea.connect(json!({ "password": "Pq3-Rm8-Ls2" })).expect_success();
    sea.revoke(&before);
    let users = sea.mariadb.login(
        "bulkhead",
        "Pq3-Rm8-Ls2",
        "SELECT COUNT(*) FROM mysql.user WHERE User LIKE 'v-%'",
    );
    assert_eq!(users.as_deref(), Ok("0"));
}

#[test]
fn a_protocol_error_fails_only_its_own_call() {
    let sea = MysqlStage::connected();
    let liar = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = liar.local_addr().expect("an address").port();
    // A greeting that is cut after its version.
    let greeting = [3, 0, 0, 0, 10, b'5', 0];
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = liar.accept() {
            // The client may have closed the connection.
            let _ = stream.write_all(&greeting);
        }
    });
    let url = format!("bulkhead@tcp(127.0.0.1:{port})/");
    sea.connect(json!({ "connection_url": url })).expect(502);
    let credential = sea.credential("reader");
    sea.revoke(&credential);
}

#[test]
fn issued_certificate_logs_in_until_lease_ends() {
    let sea = MysqlStage::connected();
    let authority = &sea.mariadb.authority;
    let config = json!({
        "common_name_template": "app-{{.Username}}", "key_type": "ec",
        "ca_cert": authority.certificate(), "ca_private_key": authority.key(),
    });
    let creation = "CREATE USER '{{name}}'@'%' REQUIRE SUBJECT '{{subject}}'; \
                    GRANT SELECT ON demo.orders TO '{{name}}'@'%'";
    let certified = json!({
        "credential_type": "client_certificate", "credential_config": config,
        "creation_statements": [creation],
    });
    sea.role("certified", certified);
    let [one, other] = [(); 2].map(|()| sea.root.read("database/creds/certified").expect(200));
    let login = |user: &Answer, shown: &Answer| {
        let [certificate, key] = ["client_certificate", "private_key"].map(|name| shown.text(name));
        let query = "SELECT item FROM orders WHERE id = 1";
        sea.mariadb.login_certified(user.text("username"), certificate, key, query)
    };
    assert_eq!(login(&one, &one).as_deref(), Ok("rope"));
    assert!(login(&one, &other).is_err(), "a certificate is of one user");
    for answer in [&one, &other] {
        sea.root.write("sys/leases/revoke", &json!({ "lease_id": answer.lease() })).expect(204);
        assert!(login(answer, answer).is_err());
    }
}

/// The displayed password of `app`.
fn shown(sea: &MysqlStage) -> String {
    let answer = sea.root.read("database/static-creds/app").expect(200);
    answer.text("password").to_owned()
}

#[test]
fn static_role_changes_account_at_every_host() {
    let sea = MysqlStage::connected();
    for host in ["%", "127.0.0.1"] {
        sea.mariadb.query(&format!("CREATE USER 'app'@'{host}' IDENTIFIED BY 'Hv3-Pq8-Lm5'"));
        sea.mariadb.query(&format!("GRANT SELECT ON demo.orders TO 'app'@'{host}'"));
    }
    let role = json!({ "db_name": "sea", "username": "app", "rotation_period": "1h" });
    sea.root.write("database/static-roles/app", &role).expect(204);
    let first = shown(&sea);
    sea.root.write("database/rotate-role/app", &json!({})).expect(204);
    let second = shown(&sea);
    let logs_in = |password: &str| sea.mariadb.login("app", password, "SELECT 1").is_ok();
    assert_eq!([logs_in("Hv3-Pq8-Lm5"), logs_in(&first), logs_in(&second)], [false, false, true]);
    sea.mariadb.query("DROP USER 'app'@'127.0.0.1'");
    assert!(logs_in(&second), "the other user still logs in");
}

#[test]
fn account_of_userless_connection_changes_own_password() {
    let sea = MysqlStage::new(&[]);
    sea.mariadb.query("CREATE USER 'app'@'%' IDENTIFIED BY 'Hv3-Pq8-Lm5'");
    sea.mariadb.query("GRANT SELECT ON demo.orders TO 'app'@'%'");
    let managed = json!({ "self_managed": true, "username": "", "password": "" });
    sea.connect(managed).expect_success();
    let role = json!({
        "db_name": "sea", "username": "app", "rotation_period": "1h", "password": "Hv3-Pq8-Lm5",
    });
    let wrong = with(role.clone(), json!({ "password": "wrong-one" }));
    sea.root.write("database/static-roles/app", &wrong).expect(400);
    sea.root.write("database/static-roles/app", &role).expect(204);
    sea.root.write("database/rotate-role/app", &json!({})).expect(204);
    let login = sea.mariadb.login("app", &shown(&sea), "SELECT item FROM orders WHERE id = 1");
    assert_eq!(login.as_deref(), Ok("rope"));
    assert!(sea.mariadb.login("app", "Hv3-Pq8-Lm5", "SELECT 1").is_err());
}

#[test]
fn connection_works_after_rotating_its_own_password() {
    let sea = MysqlStage::connected();
    let before = sea.credential("reader");
    sea.root.write("database/rotate-root/sea", &json!({})).expect(204);
    let login = sea.mariadb.login("bulkhead", &sea.mariadb.password, "SELECT 1");
    assert!(login.is_err(), "the first password is over");
    sea.revoke(&before);
    let after = sea.credential("reader");
    assert!(sea.mariadb.login(&after.username, &after.password, "SELECT 1").is_ok());
    sea.root.write("database/rotate-root/sea", &json!({})).expect(204);
    sea.revoke(&after);
    let login = sea.mariadb.login(&after.username, &after.password, "SELECT 1");
    assert!(login.is_err());
}
