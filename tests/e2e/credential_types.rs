//! Credentials other than passwords, with a database plugin whose users have public keys: the
//! database holds the public half of the issued key.

use crate::world::{World, with};
use bulkhead_tests::paths::guest;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::{Value, json};

/// A world with a keyring connection `keys`, open to any role.
fn world() -> World {
    let world = World::empty();
    let line = format!("sql:postgres://127.0.0.1:{}", world.postgres.port);
    let place = "sys/plugins/catalog/database/keyring-database-plugin";
    let answer = world.root.upload(&format!("{place}?grants={line}"), &guest("keyring"));
    assert!(answer.status < 300, "{answer:?}");
    let grants = json!({
        "add_grants": [line, "address:127.0.0.0/8", "database:keyring-database-plugin"],
    });
    world.root.write("sys/mounts/database/tune", &grants).expect(204);
    let config = json!({
        "plugin_name": "keyring-database-plugin", "allowed_roles": "*", "username": "bulkhead",
        "password": world.postgres.password, "port": world.postgres.port,
    });
    let written = world.root.write("database/config/keys", &config);
    assert!(written.status < 300, "{written:?}");
    world
}

fn role(more: Value) -> Value {
    let keys = json!({ "db_name": "keys", "credential_type": "rsa_private_key" });
    with(keys, more)
}

/// The user's public key in the database.
fn stored_key(world: &World, username: &str) -> String {
    let comment = "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname";
    world.postgres.query(&format!("{comment} = '{username}'"))
}

/// The public half of a key, computed by another program, with PostgreSQL's line ends.
fn public_half(private_key: &str) -> String {
    let key = KeyPair::from_pem(private_key).expect("a private key in PEM");
    key.public_key_pem().replace('\r', "").trim_end().to_owned()
}

#[test]
fn caller_gets_rsa_key_and_database_public_half() {
    let world = world();
    let bits = json!({ "credential_config": { "key_bits": 3072 } });
    world.root.write("database/roles/signer", &role(bits)).expect(204);
    let answer = world.root.read("database/creds/signer").expect(200);
    let username = answer.text("username").to_owned();
    assert_eq!(stored_key(&world, &username), public_half(answer.text("rsa_private_key")));
    assert!(answer.body["data"].get("password").is_none());
    let role = world.root.read("database/roles/signer").expect(200);
    let config = json!({ "format": "pkcs8", "key_bits": 3072 });
    assert_eq!(role.body["data"]["credential_config"], config);
    world.revoke(answer.lease());
    assert!(!world.postgres.has_user(&username));
}

#[test]
fn a_static_role_rotates_keys() {
    let world = world();
    world.postgres.query("CREATE ROLE app");
    let static_role = role(json!({ "username": "app", "rotation_period": "1h" }));
    world.root.write("database/static-roles/app", &static_role).expect(204);
    let shown = || {
        let answer = world.root.read("database/static-creds/app").expect(200);
        answer.text("rsa_private_key").to_owned()
    };
    let first = shown();
    assert_eq!(stored_key(&world, "app"), public_half(&first));
    world.root.write("database/rotate-role/app", &json!({})).expect(204);
    assert_ne!(shown(), first);
    assert_eq!(stored_key(&world, "app"), public_half(&shown()));
}

#[test]
fn credential_type_unknown_to_plugin_is_refused() {
    let world = world();
    let password = role(json!({ "credential_type": "password" }));
    let refused = world.root.write("database/roles/signer", &password).expect(400);
    assert!(refused.errors().contains("unsupported credential_type"), "{refused:?}");
    world.root.read("database/roles/signer").expect(404);
}

/// A certificate for the key; `is_ca` marks it as an authority.
fn certificate(key: &KeyPair, is_ca: IsCa) -> String {
    let mut wanted = CertificateParams::default();
    wanted.is_ca = is_ca;
    wanted.self_signed(key).expect("a certificate").pem()
}

#[test]
fn errors_about_an_authority_are_not_redacted() {
    let world = World::new();
    let [key, other] = [(); 2].map(|()| KeyPair::generate().expect("a key"));
    let authority = certificate(&key, IsCa::Ca(BasicConstraints::Unconstrained));
    let (pem, both) = (key.serialize_pem(), key.serialize_pem() + &other.serialize_pem());
    let label = |name: &str| format!("-----BEGIN {name}-----\nAAAA\n-----END {name}-----\n");
    for (ca_cert, ca_private_key, why) in [
        (&authority, both, "the PEM text must hold one private key"),
        (&authority, label("ENCRYPTED PRIVATE KEY"), "the private key is encrypted"),
        (&authority, label("PRIVATE KEY"), "the private key is damaged"),
        (&authority, other.serialize_pem(), "ca_private_key is not the key of ca_cert"),
        (&certificate(&key, IsCa::NoCa), pem, "the given certificate is not marked for CA use"),
    ] {
        let role = json!({
            "db_name": "demo", "creation_statements": ["CREATE ROLE \"{{name}}\" LOGIN"],
            "credential_type": "client_certificate",
            "credential_config": {
                "common_name_template": "{{.Username}}", "key_type": "ec", "ca_cert": ca_cert,
                "ca_private_key": ca_private_key,
            },
        });
        let refused = world.root.write("database/roles/certified", &role).expect(400).errors();
        assert!(refused.contains(why), "{refused}");
        assert!(!refused.contains("[secret]"), "{refused}");
    }
}
