//! Wrapped answers: stored under a token of one use, opened once, and gone with the token.

use crate::bed::{Bed, error, request, store_options};
use crate::logins;
use bulkhead_store::{DataDirectory, Space};
use bulkhead_wire::description::Verb;
use bulkhead_wire::response::Response;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const UNWRAP: &str = "sys/wrapping/unwrap";
const REWRAP: &str = "sys/wrapping/rewrap";
const LOOKUP: &str = "sys/wrapping/lookup";
const REFUSED: &str = "wrapping token is not valid or does not exist";

impl Bed {
    async fn sent(
        &self,
        token: &str,
        verb: Verb,
        path: &str,
        (fields, ttl): (Value, u64),
    ) -> Response {
        let mut request = request(token, verb, path, fields);
        request.wrap_ttl = Some(ttl);
        self.service.handle(request).await
    }

    async fn wrapped_as(&self, token: &str, verb: Verb, path: &str, fields: Value) -> (u16, Value) {
        let (status, _, body) = self.sent(token, verb, path, (fields, 60)).await.into_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// The wrapping token of an answer to root.
    pub(crate) async fn wrapped(&self, verb: Verb, path: &str, fields: Value) -> Value {
        let (status, answer) = self.wrapped_as("root", verb, path, fields).await;
        assert_eq!(status, 200, "{answer}");
        let mut rest = answer.clone();
        let info = rest["wrap_info"].take();
        let empty = json!({
            "request_id": "", "lease_id": "", "renewable": false, "lease_duration": 0,
            "data": null, "wrap_info": null, "warnings": null, "auth": null, "mount_type": "",
        });
        assert_eq!(rest, empty, "nothing leaves besides the wrapping token");
        info
    }

    async fn unwrap(&self, token: &Value) -> (u16, Value) {
        self.write(UNWRAP, json!({ "token": token })).await
    }

    async fn lookup_wrapping(&self, token: &Value) -> (u16, Value) {
        self.call_as("", Verb::Write, LOOKUP, json!({ "token": token })).await
    }

    #[track_caller]
    fn is_refused((status, answer): &(u16, Value)) {
        assert!(*status == 400 && error(answer).starts_with(REFUSED), "{status} {answer}");
    }
}

/// The keys of wrapped answers, by kind, in a directory that nobody holds.
async fn stored(directory: &Path) -> BTreeMap<&'static str, usize> {
    let data_directory = DataDirectory::hold(store_options(directory)).await.unwrap();
    let store =
        data_directory.open(bulkhead_store::dev_key(&data_directory).unwrap()).await.unwrap();
    let mut found = BTreeMap::new();
    for prefix in ["wrapped/", "wrapped-content/", "cubbyhole/"] {
        let keys = store.begin().keys(Space::Core, prefix, "", 100).await.unwrap();
        found.insert(prefix, keys.len());
    }
    store.close().await;
    found
}

/// Waits until the token with this accessor is cleared away.
async fn cleared(bed: &Bed, accessor: &Value) {
    let began = Instant::now();
    // The revocation of an unknown accessor is answered with a warning.
    while bed.write("auth/token/revoke-accessor", json!({ "accessor": accessor })).await.0 != 200 {
        assert!(began.elapsed() < crate::bed::PATIENCE, "{accessor} is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrapped_answer_opens_once_as_original_answer() {
    let bed = Bed::new("wrapping").await;
    let (_, plain) = bed.read("sys/mounts").await;
    let info = bed.wrapped(Verb::Read, "sys/mounts", json!({})).await;
    assert_eq!((&info["ttl"], &info["creation_path"]), (&json!(60), &json!("sys/mounts")));
    assert!(info.get("wrapped_accessor").is_none() && info["creation_time"].is_string(), "{info}");
    assert_eq!(bed.unwrap(&info["token"]).await, (200, plain));
    Bed::is_refused(&bed.unwrap(&info["token"]).await);
    cleared(&bed, &info["accessor"]).await;
    let directory = bed.stop().await;
    assert_eq!(stored(&directory).await.values().sum::<usize>(), 0);
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrapping_token_is_single_use_nonrenewable_orphan() {
    let bed = Bed::new("wrapping-token").await;
    let info = bed.wrapped(Verb::Read, "sys/mounts", json!({})).await;
    let fields = json!({ "accessor": info["accessor"] });
    let (_, seen) = bed.write("auth/token/lookup-accessor", fields.clone()).await;
    let expected = json!({
        "policies": ["response-wrapping"], "num_uses": 1, "orphan": true, "renewable": false,
        "type": "service", "explicit_max_ttl": 60, "creation_ttl": 60, "path": "sys/mounts",
        "entity_id": "",
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&seen["data"][name], value, "{name}");
    }
    assert_eq!(bed.write("auth/token/renew-accessor", fields).await.0, 400);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrapping_token_as_caller_token_opens_answer() {
    let bed = Bed::new("wrapping-caller").await;
    for fields in [json!({}), json!({ "token": "itself" })] {
        let info = bed.wrapped(Verb::Write, "sys/wrapping/wrap", json!({ "a": [1, null] })).await;
        let token = info["token"].as_str().unwrap();
        let fields = match fields["token"] {
            Value::Null => fields,
            _ => json!({ "token": token }),
        };
        let (status, answer) = bed.call_as(token, Verb::Write, UNWRAP, fields.clone()).await;
        assert_eq!((status, &answer["data"]), (200, &json!({ "a": [1, null] })), "{answer}");
        assert_eq!((&answer["warnings"], &answer["wrap_info"]), (&Value::Null, &Value::Null));
        Bed::is_refused(&bed.call_as(token, Verb::Write, UNWRAP, json!({})).await);
        // A caller's own token that is refused says nothing about the wrapping token.
        let other = json!({ "token": "bhs.other" });
        assert_eq!(bed.call_as(token, Verb::Write, UNWRAP, other).await.0, 403);
    }
    let info = bed.wrapped(Verb::Read, "sys/mounts", json!({})).await;
    assert_eq!(
        bed.call_as("", Verb::Write, UNWRAP, json!({ "token": info["token"] })).await.0,
        403
    );
    assert_eq!(bed.unwrap(&info["token"]).await.0, 200, "the refusal took no use");
    for not_wrapping in ["root", "nope", "bhs.x"] {
        Bed::is_refused(&bed.unwrap(&json!(not_wrapping)).await);
    }
    Bed::is_refused(&bed.write(UNWRAP, json!({})).await);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrapping_token_serves_nothing_else_and_loses_use() {
    let bed = Bed::new("wrapping-elsewhere").await;
    for (verb, path) in [
        (Verb::Read, "auth/token/lookup-self"),
        (Verb::Read, "sys/mounts"),
        (Verb::Write, "sys/wrapping/wrap"),
        (Verb::Write, REWRAP),
        (Verb::Write, "auth/token/create"),
    ] {
        let info = bed.wrapped(Verb::Read, "sys/mounts", json!({})).await;
        let token = info["token"].as_str().unwrap();
        assert_eq!(bed.call_as(token, verb, path, json!({})).await.0, 403, "{path}");
        Bed::is_refused(&bed.unwrap(&info["token"]).await);
        Bed::is_refused(&bed.lookup_wrapping(&info["token"]).await);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrapping_lookup_is_public_and_consumes_no_use() {
    let bed = Bed::new("wrapping-lookup").await;
    let info = bed.wrapped(Verb::Read, "sys/policies/acl/default", json!({})).await;
    let token = info["token"].as_str().unwrap();
    let expected = json!({
        "creation_ttl": 60, "creation_time": info["creation_time"],
        "creation_path": "sys/policies/acl/default",
    });
    let body = json!({ "token": token });
    for (caller, verb, fields) in [
        ("", Verb::Write, body.clone()),
        ("root", Verb::Write, body.clone()),
        (token, Verb::Write, body),
        (token, Verb::Write, json!({})),
        (token, Verb::Read, json!({})),
    ] {
        let (status, answer) = bed.call_as(caller, verb, LOOKUP, fields).await;
        assert_eq!((status, &answer["data"]), (200, &expected), "{answer}");
    }
    for unknown in ["nope", "root"] {
        Bed::is_refused(&bed.lookup_wrapping(&json!(unknown)).await);
    }
    assert_eq!(bed.call_as("", Verb::Write, LOOKUP, json!({})).await.0, 403);
    assert_eq!(bed.unwrap(&info["token"]).await.0, 200);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rewrap_moves_answer_and_keeps_ttl_and_path() {
    let bed = Bed::new("rewrap").await;
    let first = bed.wrapped(Verb::Write, "auth/token/create", json!({ "ttl": "1h" })).await;
    assert!(first["wrapped_accessor"].is_string(), "{first}");
    let (status, answer) = bed.write(REWRAP, json!({ "token": first["token"] })).await;
    assert_eq!((status, &answer["request_id"]), (200, &json!("")), "{answer}");
    let second = &answer["wrap_info"];
    for member in ["ttl", "creation_path", "wrapped_accessor"] {
        assert_eq!(second[member], first[member], "{member}");
    }
    assert_ne!(second["token"], first["token"]);
    Bed::is_refused(&bed.unwrap(&first["token"]).await);
    cleared(&bed, &first["accessor"]).await;
    let (status, opened) = bed.unwrap(&second["token"]).await;
    assert_eq!((status, &opened["auth"]["accessor"]), (200, &first["wrapped_accessor"]));
    Bed::is_refused(&bed.write(REWRAP, json!({ "token": second["token"] })).await);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodyless_answer_and_refusal_are_not_wrapped() {
    let bed = Bed::new("wrapping-none").await;
    let policy = json!({ "policy": "path \"a\" { capabilities = [\"read\"] }" });
    for (verb, path, fields, status) in [
        (Verb::Write, "sys/policies/acl/pw", policy, 204),
        (Verb::Read, "sys/policies/acl/none-such", json!({}), 404),
        (Verb::List, "auth/token/roles", json!({}), 404),
        (Verb::Read, "nothing/here", json!({}), 404),
        (Verb::Write, "auth/token/create", json!({ "ttl": "soon" }), 400),
    ] {
        let (answered, answer) = bed.wrapped_as("root", verb, path, fields).await;
        assert_eq!(answered, status, "{path}: {answer}");
    }
    let public = "sys/internal/specs/openapi";
    let (status, answer) = bed.wrapped_as("", Verb::Read, public, json!({})).await;
    assert!(status == 200 && answer["openapi"].is_string(), "public: {answer}");
    let (status, answer) = bed.write("sys/wrapping/wrap", json!({ "a": "b" })).await;
    assert!(status == 400 && error(&answer).contains("X-Vault-Wrap-TTL"), "{answer}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrapped_login_and_lease_are_usable_once_opened() {
    let bed = logins::open("wrapping-login").await;
    let say = json!({ "say": { "policies": ["readers"], "ttl": 600 } });
    let (status, answer) = bed.wrapped_as("", Verb::Write, "auth/doorman/login", say).await;
    let info = &answer["wrap_info"];
    assert_eq!((status, &info["creation_path"]), (200, &json!("auth/doorman/login")), "{answer}");
    let (_, opened) = bed.unwrap(&info["token"]).await;
    assert_eq!(opened["auth"]["accessor"], info["wrapped_accessor"], "{opened}");
    let token = opened["auth"]["client_token"].as_str().unwrap();
    assert_eq!(bed.call_as(token, Verb::Read, "auth/token/lookup-self", json!({})).await.0, 200);
    let info = bed.wrapped(Verb::Write, "probe/lease/x", json!({ "ttl": 3_600 })).await;
    let (_, opened) = bed.unwrap(&info["token"]).await;
    let lease = json!({ "lease_id": opened["lease_id"] });
    assert_eq!(bed.write("sys/leases/lookup", lease).await.0, 200, "{opened}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_unwraps_open_answer_once() {
    let bed = Arc::new(Bed::new("wrapping-race").await);
    for is_caller in [false, true] {
        let info = bed.wrapped(Verb::Read, "sys/mounts", json!({})).await;
        let token = info["token"].as_str().unwrap().to_owned();
        let attempts: Vec<_> = (0..100)
            .map(|_| {
                let (bed, token) = (Arc::clone(&bed), token.clone());
                tokio::spawn(async move {
                    match is_caller {
                        true => bed.call_as(&token, Verb::Write, UNWRAP, json!({})).await,
                        false => bed.unwrap(&json!(token)).await,
                    }
                })
            })
            .collect();
        let mut opened = 0;
        for attempt in attempts {
            let (status, answer) = attempt.await.unwrap();
            match status {
                200 => opened += 1,
                _ => Bed::is_refused(&(status, answer)),
            }
        }
        assert_eq!(opened, 1, "one unwrapping succeeds; as the caller: {is_caller}");
    }
    Arc::into_inner(bed).unwrap().end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrapped_answer_survives_restart_and_ends_with_token() {
    let bed = Bed::new("wrapping-ends").await;
    let info = bed.wrapped(Verb::Write, "sys/wrapping/wrap", json!({ "canary": "hunter2" })).await;
    let revoked = bed.wrapped(Verb::Write, "sys/wrapping/wrap", json!({ "a": 1 })).await;
    let accessor = json!({ "accessor": revoked["accessor"] });
    assert_eq!(bed.write("auth/token/revoke-accessor", accessor).await.0, 204);
    Bed::is_refused(&bed.unwrap(&revoked["token"]).await);
    let wrapped_fields = (json!({ "a": 1 }), 1);
    let expiring =
        bed.sent("root", Verb::Write, "sys/wrapping/wrap", wrapped_fields).await.into_bytes().2;
    let expiring: Value = serde_json::from_slice(&expiring).unwrap();
    cleared(&bed, &revoked["accessor"]).await;
    let began = Instant::now();
    while bed.lookup_wrapping(&expiring["wrap_info"]["token"]).await.0 == 200 {
        assert!(began.elapsed() < crate::bed::PATIENCE, "never expires");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Bed::is_refused(&bed.unwrap(&expiring["wrap_info"]["token"]).await);
    cleared(&bed, &expiring["wrap_info"]["accessor"]).await;
    let directory = bed.stop().await;
    let left = stored(&directory).await;
    assert_eq!((left["wrapped/"], left["wrapped-content/"]), (1, 1));
    for file in std::fs::read_dir(&directory).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap_or_default();
        assert!(!bytes.windows(7).any(|part| part == b"hunter2"), "stored in the clear");
    }
    let bed = Bed::open(directory).await;
    let (status, opened) = bed.unwrap(&info["token"]).await;
    assert_eq!((status, &opened["data"]["canary"]), (200, &json!("hunter2")), "{opened}");
    bed.end().await;
}

/// A token with the policy `default`, and further properties.
async fn plain_token(bed: &Bed, mut fields: Value) -> Value {
    fields["policies"] = json!(["default"]);
    let (status, answer) = bed.write("auth/token/create", fields).await;
    assert_eq!(status, 200, "{answer}");
    answer["auth"]["client_token"].clone()
}

/// Wraps about a mebibyte of the caller's own data.
async fn wrap_mebibyte(bed: &Bed, token: &Value) -> (u16, Value) {
    let fields = json!({ "filler": "x".repeat((1 << 20) - 1_000) });
    bed.wrapped_as(token.as_str().unwrap(), Verb::Write, "sys/wrapping/wrap", fields).await
}

#[tokio::test(flavor = "multi_thread")]
async fn wrapped_bytes_of_a_caller_are_bounded() {
    let bed = Arc::new(Bed::new("wrapping-bytes").await);
    let (token, other) = (plain_token(&bed, json!({})).await, plain_token(&bed, json!({})).await);
    let attempts: Vec<_> = (0..40)
        .map(|_| {
            let (bed, token) = (Arc::clone(&bed), token.clone());
            tokio::spawn(async move { wrap_mebibyte(&bed, &token).await })
        })
        .collect();
    let (mut wrapped, mut refused) = (Vec::new(), Vec::new());
    for attempt in attempts {
        match attempt.await.unwrap() {
            (200, answer) => wrapped.push(answer["wrap_info"]["token"].clone()),
            refusal => refused.push(refusal),
        }
    }
    assert_eq!((wrapped.len(), refused.len()), (31, 9), "32 MiB");
    for (status, answer) in &refused {
        let said = error(answer);
        let is_clear = said.contains("for this caller stores") && said.contains("33554432");
        assert!(*status == 429 && is_clear && said.contains("revoke"), "{status} {said}");
    }
    assert_eq!(wrap_mebibyte(&bed, &other).await.0, 200, "another caller has room");
    let directory = Arc::into_inner(bed).unwrap().stop().await;
    let bed = Bed::open(directory).await;
    assert_eq!(wrap_mebibyte(&bed, &token).await.0, 429, "after a restart, too");
    assert_eq!(bed.unwrap(&wrapped[0]).await.0, 200);
    assert_eq!(wrap_mebibyte(&bed, &token).await.0, 200, "an opened answer makes room");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrapped_own_data_end_with_callers_token() {
    let bed = Bed::new("wrapping-own").await;
    let token = plain_token(&bed, json!({})).await;
    let text = token.as_str().unwrap();
    bed.call_as(text, Verb::Write, "cubbyhole/a", json!({ "a": "b" })).await;
    let mut infos = Vec::new();
    for (verb, path) in [(Verb::Write, "sys/wrapping/wrap"), (Verb::Read, "cubbyhole/a")] {
        let (status, answer) = bed.wrapped_as(text, verb, path, json!({ "a": "b" })).await;
        assert_eq!(status, 200, "{answer}");
        let info = &answer["wrap_info"];
        let (_, again) = bed.write(REWRAP, json!({ "token": info["token"] })).await;
        infos.extend([answer["wrap_info"].clone(), again["wrap_info"].clone()]);
    }
    let path = "auth/token/lookup-self";
    let (_, answer) = bed.wrapped_as(text, Verb::Read, path, json!({})).await;
    let wrapping_token = answer["wrap_info"]["token"].clone();
    let (_, seen) =
        bed.write("auth/token/lookup-accessor", json!({ "accessor": infos[1]["accessor"] })).await;
    assert_eq!(seen["data"]["orphan"], false, "{seen}");
    let (_, own) = bed.write("auth/token/lookup", json!({ "token": token })).await;
    assert_eq!(bed.write("auth/token/revoke", json!({ "token": token })).await.0, 204);
    for info in &infos {
        Bed::is_refused(&bed.unwrap(&info["token"]).await);
        cleared(&bed, &info["accessor"]).await;
    }
    let (status, opened) = bed.unwrap(&wrapping_token).await;
    assert_eq!((status, &opened["data"]["path"]), (200, &json!("auth/token/create")), "{opened}");
    cleared(&bed, &own["data"]["accessor"]).await;
    let directory = bed.stop().await;
    assert_eq!(stored(&directory).await.values().sum::<usize>(), 0);
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrapped_own_data_never_outlasts_caller_token() {
    let bed = Bed::new("wrapping-short").await;
    let lasting = json!({ "renewable": false, "ttl": "30s" });
    for (fields, longest) in [
        (lasting.clone(), 30),
        (json!({ "ttl": "30s" }), 60),
        (json!({ "type": "batch", "ttl": "30s" }), 30),
        (json!({ "num_uses": 2 }), 60),
    ] {
        let token = plain_token(&bed, fields.clone()).await;
        let (status, answer) = bed
            .wrapped_as(
                token.as_str().unwrap(),
                Verb::Write,
                "sys/wrapping/wrap",
                json!({ "a": 1 }),
            )
            .await;
        let ttl = answer["wrap_info"]["ttl"].as_u64().unwrap_or_default();
        assert!(status == 200 && (longest - 2..=longest).contains(&ttl), "{fields}: {answer}");
        let (status, opened) = bed.unwrap(&answer["wrap_info"]["token"]).await;
        assert_eq!(status, 200, "{fields}: {opened}");
    }
    let last = plain_token(&bed, json!({ "num_uses": 1 })).await;
    let (status, answer) = bed
        .wrapped_as(last.as_str().unwrap(), Verb::Write, "sys/wrapping/wrap", json!({ "a": 1 }))
        .await;
    assert!(status == 400 && error(&answer).contains("one use left"), "{answer}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_is_stored_in_pieces() {
    let bed = Bed::new("wrapping-long").await;
    let parts: Vec<String> = (0..30).map(|n| format!("{n}").repeat(100_000)).collect();
    let fields = json!({ "parts": parts });
    let info = bed.wrapped(Verb::Write, "sys/wrapping/wrap", fields.clone()).await;
    let (status, answer) = bed.write(REWRAP, json!({ "token": info["token"] })).await;
    assert_eq!(status, 200, "{answer}");
    let (status, opened) = bed.unwrap(&answer["wrap_info"]["token"]).await;
    assert!(status == 200 && opened["data"] == fields, "{status}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_demands_wrapping_and_bounds_its_time() {
    let bed = Bed::new("wrapping-policy").await;
    let rules = r#"path "sys/mounts" {
        capabilities = ["read"] min_wrapping_ttl = "30s" max_wrapping_ttl = "90s"
    }"#;
    bed.write("sys/policies/acl/wrapped", json!({ "policy": rules })).await;
    let (_, created_token) =
        bed.write("auth/token/create", json!({ "policies": ["wrapped"] })).await;
    let token = created_token["auth"]["client_token"].as_str().unwrap();
    let (status, answer) = bed.call_as(token, Verb::Read, "sys/mounts", json!({})).await;
    assert!(status == 403 && error(&answer).contains("unless the response is wrapped"), "{answer}");
    for (ttl, expected) in [(29, 403), (30, 200), (90, 200), (91, 403)] {
        let sent = bed.sent(token, Verb::Read, "sys/mounts", (json!({}), ttl)).await;
        assert_eq!(sent.status, expected, "{ttl}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_hashes_wrapped_data_and_wrapping_token() {
    let bed = crate::audit::bed("wrapping").await;
    let fields = json!({ "password": "hunter2" });
    let info = bed.wrapped(Verb::Write, "sys/wrapping/wrap", fields).await;
    let token = info["token"].as_str().unwrap();
    assert_eq!(bed.unwrap(&info["token"]).await.0, 200);
    let (password, hashed) = (bed.hash("hunter2").await, bed.hash(token).await);
    let accessor = bed.hash(info["accessor"].as_str().unwrap()).await;
    let wrapped = bed.lines_of("sys/wrapping/wrap");
    assert_eq!(wrapped[0]["request"]["wrap_ttl"], 60);
    let response = &wrapped[1]["response"];
    let name = bed.hash("password").await;
    let data = json!({ name.as_str().unwrap(): password });
    assert_eq!((&wrapped[0]["request"]["data"], &response["data"]), (&data, &data));
    assert_eq!(
        (&response["wrap_info"]["token"], &response["wrap_info"]["accessor"]),
        (&hashed, &accessor)
    );
    let opened = bed.lines_of(UNWRAP);
    assert_eq!((opened.len(), &opened[0]["request"]["data"]["token"]), (2, &hashed));
    assert_eq!(opened[1]["response"]["data"], data);
    let (_, answer) = bed.wrapped_as("root", Verb::Write, "auth/token/create", json!({})).await;
    let (_, answer) = bed.unwrap(&answer["wrap_info"]["token"]).await;
    let inner = answer["auth"]["client_token"].as_str().unwrap();
    let (hashed, opened) = (bed.hash(inner).await, bed.lines_of(UNWRAP));
    assert_eq!(opened.last().unwrap()["response"]["auth"]["client_token"], hashed);
    let text = std::fs::read_to_string(bed.directory.join("audit.log")).unwrap();
    for hidden in ["hunter2", token, inner] {
        assert!(!text.contains(hidden), "{hidden}");
    }
    bed.end().await;
}
