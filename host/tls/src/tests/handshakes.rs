//! Handshakes between a listener and a client: the rules of trust, and the faults of each side.

use super::{PROTOCOLS, RecordedEvents, says};
use crate::testing::TestAuthority;
use crate::{
    Authorities, ClientCertificates, ClientConfigFault, ClientIdentity, ClientSettings,
    ListenerTls, NamedFile, PeerVerification, ServerTlsSettings, TlsFault, TlsVersion,
    VersionRange, server_name,
};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Returns the first byte that the server sent, or the fault that the client sees.
async fn greet(
    settings: &ServerTlsSettings,
    client: ClientSettings,
    name: &str,
) -> Result<u8, TlsFault> {
    let events = Arc::new(RecordedEvents::default());
    let tls = ListenerTls::load(settings.clone(), PROTOCOLS, events).unwrap();
    let (near, far) = tokio::io::duplex(64 << 10);
    let serving = tokio::spawn(async move {
        // A refused handshake is the client's result.
        let Ok(mut stream) = tls.accept(far).await else { return };
        stream.write_all(b"!").await.unwrap_or_default();
        stream.shutdown().await.unwrap_or_default();
    });
    let client = client.client().unwrap();
    let met = async {
        let mut stream = client.connect(server_name(name).unwrap(), near).await?;
        stream.read_u8().await
    };
    let met = met.await;
    serving.await.unwrap();
    met.map_err(|error| TlsFault::find(&error).expect("the fault is one of TLS"))
}

fn full(authority: &TestAuthority) -> ClientSettings {
    let trusted = Authorities::only(&[authority.der()]).unwrap();
    ClientSettings::new(PeerVerification::Full(trusted))
}

#[tokio::test]
async fn server_must_have_chain_name_and_time() {
    let (authority, other_authority) = (TestAuthority::new(), TestAuthority::new());
    let settings = authority.serve(&authority.sign(7));
    assert_eq!(greet(&settings, full(&authority), "localhost").await, Ok(b'!'));
    assert_eq!(greet(&settings, full(&authority), "127.0.0.1").await, Ok(b'!'));
    for name in ["a.example", "127.0.0.2"] {
        assert_eq!(greet(&settings, full(&authority), name).await, Err(TlsFault::WrongName));
    }
    let refused = greet(&settings, full(&other_authority), "localhost").await;
    assert_eq!(refused, Err(TlsFault::UnknownIssuer));
    let public = PeerVerification::Full(Authorities::public_and(&[]).unwrap());
    let refused = greet(&settings, ClientSettings::new(public), "localhost").await;
    assert_eq!(refused, Err(TlsFault::UnknownIssuer));
}

#[tokio::test]
async fn client_verifies_less_only_if_configured() {
    let (authority, other_authority) = (TestAuthority::new(), TestAuthority::new());
    let settings = authority.serve(&authority.sign(7));
    let any_name = |of: &TestAuthority| {
        let trusted = Authorities::only(&[of.der()]).unwrap();
        ClientSettings::new(PeerVerification::AnyName(trusted))
    };
    assert_eq!(greet(&settings, any_name(&authority), "a.example").await, Ok(b'!'));
    let refused = greet(&settings, any_name(&other_authority), "localhost").await;
    assert_eq!(refused, Err(TlsFault::UnknownIssuer), "the chain is still verified");
    let anything = ClientSettings::new(PeerVerification::AnyCertificate);
    assert_eq!(greet(&settings, anything, "a.example").await, Ok(b'!'));
    let nobody = Authorities::only(&[]).unwrap();
    let client = ClientSettings::new(PeerVerification::Full(nobody)).client();
    assert_eq!(client.unwrap_err(), ClientConfigFault::Authorities);
}

#[tokio::test]
async fn an_authority_is_trusted_until_its_end() {
    let (valid, ended) = (TestAuthority::new(), TestAuthority::ending_in(-1));
    let of_valid = valid.serve(&valid.sign(7));
    let of_ended = ended.serve(&ended.sign(7));
    let both = Authorities::only(&[ended.der(), valid.der()]).unwrap();
    let full = |trusted: &Authorities| ClientSettings::new(PeerVerification::Full(trusted.clone()));
    let any_name = ClientSettings::new(PeerVerification::AnyName(both.clone()));
    assert_eq!(greet(&of_valid, full(&both), "localhost").await, Ok(b'!'));
    assert_eq!(greet(&of_valid, full(&both), "a.example").await, Err(TlsFault::WrongName));
    let refused = Err(TlsFault::EndedAuthority);
    assert_eq!(greet(&of_ended, full(&both), "localhost").await, refused);
    assert_eq!(greet(&of_ended, any_name, "a.example").await, refused);
    let alone = Authorities::only(&[ended.der()]).unwrap();
    assert_eq!(greet(&of_ended, full(&alone), "localhost").await, refused);
    assert_eq!(greet(&of_valid, full(&alone), "localhost").await, Err(TlsFault::UnknownIssuer));
    let public_too = Authorities::public_and(&[ended.der()]).unwrap();
    assert_eq!(greet(&of_ended, full(&public_too), "localhost").await, refused);
}

#[tokio::test]
async fn both_sides_need_a_common_version() {
    let authority = TestAuthority::new();
    let only = |version| VersionRange::new(version, version).unwrap();
    for (served, offered) in [
        (TlsVersion::Tls12, TlsVersion::Tls12),
        (TlsVersion::Tls13, TlsVersion::Tls13),
        (TlsVersion::Tls12, TlsVersion::Tls13),
        (TlsVersion::Tls13, TlsVersion::Tls12),
    ] {
        let settings =
            ServerTlsSettings { versions: only(served), ..authority.serve(&authority.sign(7)) };
        let client = ClientSettings { versions: only(offered), ..full(&authority) };
        let expected = match served == offered {
            true => Ok(b'!'),
            false => Err(TlsFault::NothingInCommon),
        };
        assert_eq!(greet(&settings, client, "localhost").await, expected, "{served:?}");
    }
}

#[tokio::test]
async fn required_client_certificate_is_requested_and_verified() {
    let (authority, of_clients) = (TestAuthority::new(), TestAuthority::new());
    let file = of_clients.write("ca.pem", &of_clients.pem());
    let clients = ClientCertificates::Required(NamedFile::new("tls_client_ca_file", file));
    let settings = ServerTlsSettings { clients, ..authority.serve(&authority.sign(7)) };
    let showing = |signer: &TestAuthority| {
        let issued = signer.sign(7);
        let (chain, key) = (issued.certificate.as_bytes(), issued.key.expose().as_bytes());
        let identity = ClientIdentity::parse(chain, key, ["certificate", "key"]).unwrap();
        ClientSettings { identity: Some(identity), ..full(&authority) }
    };
    assert_eq!(greet(&settings, showing(&of_clients), "localhost").await, Ok(b'!'));
    let absent = greet(&settings, full(&authority), "localhost").await;
    assert_eq!(absent, Err(TlsFault::CertificateRequired));
    let foreign = greet(&settings, showing(&authority), "localhost").await;
    assert_eq!(foreign, Err(TlsFault::CertificateRejected));
}

#[test]
fn identity_needs_matching_key_and_quotes_nothing() {
    let authority = TestAuthority::new();
    let (one, other) = (authority.sign(7), authority.sign(7));
    let parse = |chain: &str, key: &str| {
        ClientIdentity::parse(chain.as_bytes(), key.as_bytes(), ["client_cert", "client_key"])
    };
    let mixed = parse(&one.certificate, other.key.expose()).unwrap();
    assert!(!format!("{mixed:?}").contains("BEGIN"), "a key is not shown");
    let settings = ClientSettings { identity: Some(mixed), ..full(&authority) };
    let fault = settings.client().unwrap_err();
    assert_eq!(fault, ClientConfigFault::OtherKey);
    says(&fault.to_string(), &["is not the key of", "matching pair"]);
    let torn = "-----BEGIN PRIVATE KEY-----\ncanary!\n-----END PRIVATE KEY-----\n";
    for (chain, key, parts) in [
        ("canary", one.key.expose(), ["client_cert holds no certificate", "BEGIN CERTIFICATE"]),
        (&one.certificate, "canary", ["client_key holds no private key", "BEGIN PRIVATE KEY"]),
        (&one.certificate, torn, ["client_key is not PEM", "not base64"]),
        (&one.certificate, "ENCRYPTED canary", ["client_key is encrypted", "openssl pkey"]),
    ] {
        let why = parse(chain, key).unwrap_err();
        says(&why, &parts);
        assert!(!why.contains("canary"), "{why}");
    }
}
