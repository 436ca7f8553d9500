//! Tests against hostile servers. Each session must end in bounded time and memory, with the right
//! code.

use super::*;
use crate::addresses::{AllowedAddresses, LdapServer};
use crate::tls::TlsConfigs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Success of a login, message 1.
const BOUND: &[u8] = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00";
/// Success of a change, message 2.
const MODIFIED: &[u8] = b"\x30\x0c\x02\x01\x02\x67\x07\x0a\x01\x00\x04\x00\x04\x00";
/// The end of a search, message 2.
const FOUND: &[u8] = b"\x30\x0c\x02\x01\x02\x65\x07\x0a\x01\x00\x04\x00\x04\x00";
/// An entry without attributes, message 2.
const ENTRY: &[u8] = b"\x30\x0c\x02\x01\x02\x64\x07\x04\x03a=b\x30\x00";
const DN: &str = "cn=admin,dc=corp";
const PASSWORD: &str = "Xk7-Qz2-Wv9-Jt4";

/// Starts a server that answers each request with the next of `answers`, and later requests not at
/// all.
async fn serve(answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, answers.clone()));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, answers: Vec<Vec<u8>>) {
    let mut request = vec![0; 4096];
    for answer in answers {
        if stream.read(&mut request).await.unwrap_or_default() == 0 {
            return;
        }
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
    // Waits until the client closes the connection.
    while stream.read(&mut request).await.unwrap_or_default() > 0 {}
}

fn target(addresses: &[SocketAddr]) -> DirectoryTarget {
    DirectoryTarget {
        urls: addresses.iter().map(|address| format!("ldap://{address}")).collect(),
        tls: DirectoryTls {
            starttls: false,
            insecure: false,
            root_certificates: None,
            client_certificate: None,
            client_key: None,
            server_name: None,
            min_version: String::new(),
            max_version: String::new(),
        },
        bind_dn: DN.to_owned(),
        password: PASSWORD.to_owned(),
        connect_timeout: 2_000,
        request_timeout: 500,
    }
}

fn reached(target: &DirectoryTarget) -> Vec<(LdapServer, AllowedAddresses)> {
    let servers = target.urls.iter().map(|url| parse_server(url).unwrap());
    servers.map(|server| (server, AllowedAddresses::within(&["127.0.0.0/8"]))).collect()
}

fn login(target: &DirectoryTarget) -> Result<LdapLogin, LdapFailure> {
    LdapLogin::new(target, reached(target), &TlsConfigs::new(&[]))
}

async fn open(target: &DirectoryTarget) -> Result<LdapSession, LdapFailure> {
    LdapSession::open(&login(target)?, &LdapPools::default().logins("mount")).await
}

fn code<T>(done: Result<T, LdapFailure>) -> String {
    match done {
        Ok(_) => "ok".to_owned(),
        Err(failure) => {
            assert!(!failure.message.contains(PASSWORD), "{}", failure.message);
            failure.code
        }
    }
}

fn query(filter: Vec<Vec<FilterCondition>>) -> DirectoryQuery {
    DirectoryQuery {
        base: "dc=corp".to_owned(),
        scope: SearchScope::Subtree,
        filter,
        attributes: vec!["cn".to_owned()],
        limit: 0,
    }
}

fn condition(attribute: &str, value: &[u8]) -> FilterCondition {
    FilterCondition { attribute: attribute.to_owned(), value: Some(value.to_vec()) }
}

/// Encodes a BER element.
fn part(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag, 0x84];
    bytes.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
    bytes.extend(content);
    bytes
}

#[tokio::test]
async fn answer_before_server_close_counts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            for answer in [BOUND, MODIFIED] {
                assert!(stream.read(&mut request).await.unwrap() > 0);
                stream.write_all(answer).await.unwrap();
            }
        }
    });
    for _ in 0..50 {
        let mut session = open(&target(&[address])).await.unwrap_or_else(|_| panic!("no session"));
        let done = session.modify("cn=a", Vec::new()).await;
        assert_eq!(code(done), "ok");
        while session.is_alive().await {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn malformed_login_answer_ends_session() {
    let mut nested = Vec::new();
    for _ in 0..10_000 {
        nested = part(0x30, &nested);
    }
    let indefinite = b"\x30\x80\x02\x01\x01\x00\x00".to_vec();
    let with_control = |control: &[u8]| {
        let mut content = BOUND[2..].to_vec();
        content.extend(part(0xa0, control));
        part(0x30, &content)
    };
    for (what, answer) in [
        ("nested without end", part(0x30, &[&b"\x02\x01\x01"[..], &nested].concat())),
        ("nested in a result", part(0x30, &[&b"\x02\x01\x01"[..], &part(0x61, &nested)].concat())),
        ("nested in a control", with_control(&nested)),
        ("a control that is none", with_control(&part(0x30, b"\x04\x01a\x01\x00"))),
        ("two gigabytes", b"\x30\x84\x7f\xff\xff\xff\x02\x01\x01".to_vec()),
        ("a length of nine bytes", b"\x30\x89\x00\x00\x00\x00\x00\x00\x00\x00\x01".to_vec()),
        ("no length", indefinite),
        (
            "another message's answer",
            b"\x30\x0c\x02\x01\x07\x61\x07\x0a\x01\x00\x04\x00\x04\x00".to_vec(),
        ),
        (
            "another operation's answer",
            b"\x30\x0c\x02\x01\x01\x67\x07\x0a\x01\x00\x04\x00\x04\x00".to_vec(),
        ),
        ("an entry", b"\x30\x0c\x02\x01\x01\x64\x07\x04\x03a=b\x30\x00".to_vec()),
        ("an empty message", b"\x30\x00".to_vec()),
        ("no result", b"\x30\x05\x02\x01\x01\x61\x00".to_vec()),
        (
            "text that is none",
            b"\x30\x0d\x02\x01\x01\x61\x08\x0a\x01\x00\x04\x01\xff\x04\x00".to_vec(),
        ),
        (
            "a notice of disconnection",
            b"\x30\x0c\x02\x01\x00\x78\x07\x0a\x01\x34\x04\x00\x04\x00".to_vec(),
        ),
        ("HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    ] {
        let address = serve(vec![answer]).await;
        // Waiting for a further answer would give `timed-out`.
        assert_eq!(code(open(&target(&[address])).await), "unreachable", "{what}");
    }
}

#[tokio::test]
async fn hanging_server_or_half_answer_times_out() {
    for answer in [&b""[..], &BOUND[..7]] {
        let address = serve(vec![answer.to_vec()]).await;
        let began = Instant::now();
        assert_eq!(code(open(&target(&[address])).await), "timed-out");
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn next_server_is_tried_only_without_session() {
    let good = serve(vec![BOUND.to_vec()]).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_eq!(code(open(&target(&[gone, good])).await), "ok");
    let refuses = serve(vec![b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x31\x04\x00\x04\x00".to_vec()]);
    let refused = open(&target(&[refuses.await, good])).await.err().unwrap();
    assert_eq!((refused.code.as_str(), refused.result_code), ("refused", Some(49)));
}

#[tokio::test]
async fn refused_bind_passes_on_server_code_only() {
    let said = "80090308: LdapErr: DSID-0C0903A9, comment: AcceptSecurityContext error, data ";
    for (text, code) in [
        (format!("{said}775, v1db1\0"), Some("775")),
        (format!("{said}52e, v1db1"), Some("52e")),
        (format!("{said}mail=bob, v1db1"), None),
        (format!("{said}775"), None),
        ("data 775, mail=bob".to_owned(), None),
        ("the password of bob is hunter2".to_owned(), None),
    ] {
        let result = [b"\x0a\x01\x31\x04\x00", &*part(0x04, text.as_bytes())].concat();
        let answer = part(0x30, &[b"\x02\x01\x01", &*part(0x61, &result)].concat());
        let address = serve(vec![answer]).await;
        let refused = open(&target(&[address])).await.err().unwrap();
        assert_eq!(refused.login_data.as_deref(), code, "{text}");
        let words = "the server refused the login: invalid credentials (49)";
        let suffix = code.map(|code| format!(", data {code}")).unwrap_or_default();
        assert_eq!(refused.message, format!("ldap://{address}: {words}{suffix}"), "{text}");
        assert_eq!((refused.code.as_str(), refused.result_code), ("refused", Some(49)));
    }
}

#[tokio::test]
async fn login_without_password_is_refused_before_dialling() {
    let address = serve(vec![BOUND.to_vec()]).await;
    let empty = DirectoryTarget { password: String::new(), ..target(&[address]) };
    assert_eq!(code(login(&empty)), "invalid-request");
    let nameless = DirectoryTarget { bind_dn: String::new(), ..target(&[address]) };
    assert_eq!(code(login(&nameless)), "invalid-request");
    let nobody =
        DirectoryTarget { bind_dn: String::new(), password: String::new(), ..target(&[address]) };
    assert_eq!(code(open(&nobody).await), "ok");
}

#[tokio::test]
async fn starttls_accepts_lone_consent_and_no_clear_text() {
    let consent = b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x00\x04\x00\x04\x00";
    let injected = [&consent[..], BOUND].concat();
    for (what, answers) in [
        ("refuses", vec![b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x02\x04\x00\x04\x00".to_vec()]),
        ("goes on in clear", vec![consent.to_vec(), BOUND.to_vec(), BOUND.to_vec()]),
        ("sends more", vec![injected]),
        ("answers another", vec![BOUND.to_vec()]),
    ] {
        let address = serve(answers).await;
        let mut starttls_target = target(&[address]);
        starttls_target.tls.starttls = true;
        assert_eq!(code(open(&starttls_target).await), "unreachable", "{what}");
    }
}

#[tokio::test]
async fn a_search_without_end_is_ended() {
    let endless = ENTRY.repeat(100_000);
    for (what, answer, expected) in [
        ("too many entries", [&endless[..], FOUND].concat(), "refused-search"),
        ("bytes for ever", ENTRY.repeat(700_000), "unreachable refused-search"),
        ("no end", ENTRY.to_vec(), "timed-out"),
        ("a reference", [b"\x30\x0f\x02\x01\x02\x73\x0a\x04\x08ldap://x", FOUND].concat(), "ok"),
        (
            "a referral",
            b"\x30\x0c\x02\x01\x02\x65\x07\x0a\x01\x0a\x04\x00\x04\x00".to_vec(),
            "refused-search",
        ),
    ] {
        let address = serve(vec![BOUND.to_vec(), answer]).await;
        let mut session = open(&target(&[address])).await.unwrap_or_else(|_| panic!("{what}"));
        let found = session.search(&prepare(query(Vec::new())).unwrap_or_else(|_| panic!())).await;
        let code = code(found);
        assert!(expected.split(' ').any(|word| word == code), "{what}: {code}");
    }
}

#[tokio::test]
async fn ldap_change_without_answer_has_unknown_outcome() {
    let replace = || {
        vec![AttributeChange::Replace(crate::ldap::DirectoryAttribute {
            name: "userPassword".to_owned(),
            values: vec![b"new".to_vec()],
        })]
    };
    for (what, answers, expected, perhaps) in [
        ("an answer", vec![BOUND.to_vec(), MODIFIED.to_vec()], "ok", false),
        ("silence", vec![BOUND.to_vec()], "timed-out", true),
        ("nonsense", vec![BOUND.to_vec(), b"nonsense".to_vec()], "unreachable", true),
        (
            "a refusal",
            vec![
                BOUND.to_vec(),
                b"\x30\x0c\x02\x01\x02\x67\x07\x0a\x01\x13\x04\x00\x04\x00".to_vec(),
            ],
            "refused-change",
            false,
        ),
    ] {
        let address = serve(answers).await;
        let mut session = open(&target(&[address])).await.unwrap_or_else(|_| panic!("{what}"));
        let done = session.modify("cn=a", replace()).await;
        let is_in_doubt = done.as_ref().err().is_some_and(|failure| failure.may_have_happened);
        assert_eq!((code(done).as_str(), is_in_doubt), (expected, perhaps), "{what}");
    }
}

#[tokio::test]
async fn idle_session_is_lent_to_same_login_only() {
    let address = serve(vec![BOUND.to_vec()]).await;
    let own = target(&[address]);
    let pools = LdapPools::default();
    let reaches = || reached(&own).into_iter().map(|(_, reach)| reach).collect::<Vec<_>>();
    let key = LdapPoolKey::new("mount", &own);
    let (none, lent) = pools.take(&key, reaches().iter());
    assert!(none.is_none());
    pools.put_back(key.clone(), open(&own).await.unwrap_or_else(|_| panic!()), &lent);
    let mut secured = own.clone();
    secured.tls.starttls = true;
    for (what, mount, other) in [
        ("mount", "other", own.clone()),
        ("password", "mount", DirectoryTarget { password: "other".to_owned(), ..own.clone() }),
        ("name", "mount", DirectoryTarget { bind_dn: "cn=other".to_owned(), ..own.clone() }),
        ("security", "mount", secured),
    ] {
        assert!(
            pools.take(&LdapPoolKey::new(mount, &other), reaches().iter()).0.is_none(),
            "{what}"
        );
    }
    assert!(pools.take(&key, [].iter()).0.is_none(), "no grant leads there any more");
    let (session, lent) = pools.take(&key, reaches().iter());
    pools.close(&key);
    pools.put_back(key.clone(), session.unwrap(), &lent);
    assert!(
        pools.take(&key, reaches().iter()).0.is_none(),
        "a session of a closed pool is not kept"
    );
}

#[test]
fn filter_values_are_escaped_and_attribute_names_checked() {
    let text = |attribute: &str, value: &[u8]| {
        prepare(query(vec![vec![condition(attribute, value)]])).map(|prepared| prepared.filter)
    };
    for (value, escaped) in [
        (&b"*"[..], r"\2a"),
        (b"a)(objectClass=*", r"a\29\28objectClass\3d\2a"),
        (br"\2a", r"\5c2a"),
        (b"\0", r"\00"),
        ("ü".as_bytes(), r"\c3\bc"),
        (b"\xff", r"\ff"),
        (b"bob@corp.example", "bob@corp.example"),
    ] {
        let filter = text("cn", value).unwrap_or_else(|_| panic!());
        assert_eq!(filter, format!("(&(objectClass=*)(|(cn={escaped})))"));
        let parsed = ldap3::parse_filter(&filter);
        assert!(parsed.is_ok(), "{filter}");
    }
    for attribute in ["", "cn=*)(a", "cn;binary", "c n", "cn*", "-cn"] {
        assert_eq!(code(text(attribute, b"x")), "invalid-request", "{attribute}");
    }
    assert_eq!(code(prepare(query(vec![Vec::new()]))), "invalid-request");
}

#[test]
fn an_invalid_dn_or_url_is_refused() {
    for dn in ["", "dc=corp", r"cn=Doe\, Jane,dc=corp", "cn=a+sn=b, dc=corp", "<GUID=1f-2e>"] {
        assert!(check_dn(dn).is_ok(), "{dn}");
    }
    for dn in ["corp", "cn=a,b", "cn=a\\", "cn=a\0", "cn=a)(x=y,*", "<GUID=*>", ",dc=corp"] {
        assert_eq!(code(check_dn(dn)), "invalid-request", "{dn}");
    }
    for (url, read) in [
        ("ldaps://DC1.corp.example", "ldaps://dc1.corp.example:636"),
        ("ldap://127.1:3389/", "ldap://127.0.0.1:3389"),
        ("LDAPS://[::1]", "ldaps://[::1]:636"),
        ("ldap://[fd00::1]:390", "ldap://[fd00::1]:390"),
    ] {
        assert_eq!(parse_server(url).map(|server| server.to_string()).ok().unwrap(), read);
    }
    for url in [
        "dc1",
        "http://dc1",
        "ldap://",
        "ldap://a:0",
        "ldap://a:x",
        "ldap://a/dc=b",
        "ldap://u@a",
        "ldap://::1",
        "ldap://a?b",
        "ldap://a%00",
        "ldapi:///x",
    ] {
        assert_eq!(code(parse_server(url)), "invalid-request", "{url}");
    }
}
