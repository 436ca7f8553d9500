//! Use of other servers, the environment, identity tokens and the cache.

use bulkhead_sdk::http::{HttpTls, Request};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::{Value, json};

pub(crate) const REQUEST: &[Field] = &[
    Field::text("url", "where to"),
    Field::text("method", "what to do there").or_text("GET"),
    Field::map("headers", "texts by their names").secret(),
    Field::text("body", "what to send"),
    Field::text("secret", "what no text may show").secret(),
    Field::text("roots", "PEM"),
    Field::flag("safe", "whether it changes nothing"),
    Field::text("identity", "in whose name"),
    Field::whole("times", "how often").or_whole(1),
    Field::text("how", "ok, told, logged or panics").or_text("ok"),
];

pub(crate) const KEPT: &[Field] = &[
    Field::text("value", "a text; without one the key is removed"),
    Field::seconds("ttl", "how long").or_whole(60),
];

pub(crate) const TOKEN: &[Field] =
    &[Field::text("audience", "who reads it"), Field::seconds("ttl", "lifetime")];

/// Returns an identity token of the mount; `told` repeats the token in an error.
pub(crate) fn identity_token(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let signed = host.identity().token(call.text("audience"), call.seconds("ttl"))?;
    if call.text("name") == "told" {
        return Err(Failure::invalid(signed.token));
    }
    Answer::data(&json!({"signed": signed.token, "expires": signed.expires}))
}

/// Returns a variable of the server's environment, and `PROBE_SECRET` in an error.
pub(crate) fn environment(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    match host.ambient().environment(name)? {
        Some(secret) if name == "PROBE_SECRET" => Err(Failure::invalid(secret)),
        value => Answer::data(&json!({"value": value})),
    }
}

/// Returns a cloud token of the machine; with a `ttl`, in an error.
pub(crate) fn cloud_token(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let given = host.ambient().cloud_token(call.text("name"), call.text("audience"))?;
    if call.is_given("ttl") {
        return Err(Failure::invalid(given.token));
    }
    Answer::data(&json!({"given": given.token, "expires": given.expires}))
}

/// Returns the cluster in which the server runs as a pod.
pub(crate) fn pod(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let pod = host.ambient().pod()?.ok_or_else(Failure::absent)?;
    Answer::data(&json!({"url": pod.url(), "host": pod.host, "namespace": pod.namespace}))
}

/// Returns the entity with this id, as the mount sees it.
pub(crate) fn entity(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let id = if call.text("name") == "own" { &call.caller.entity } else { call.text("name") };
    let found = host.identity().entity(id)?.ok_or_else(Failure::absent)?;
    Answer::data(&json!({"id": found.id, "name": found.name, "metadata": found.metadata}))
}

/// Counts the call under `note/<name>`, sends the request and returns the answer. `told` repeats
/// the body in an error, and `logged` in the log.
pub(crate) fn fetch(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let key = format!("note/{}", call.text("name"));
    let before: u64 = host.storage().get_plain(&key)?.unwrap_or_default();
    let request = request(call);
    let mut answer = host.http().send(&request)?;
    for _ in 1..call.fields.get("times").and_then(Value::as_u64).unwrap_or(1) {
        answer = host.http().send(&request)?;
    }
    host.storage().put_plain(&key, &(before + 1))?;
    let body = String::from_utf8_lossy(&answer.body);
    match call.text("how") {
        "told" => return Err(Failure::invalid(body)),
        "logged" => {
            host.log().write(bulkhead_sdk::host::LogLevel::Info, "fetched", &[("body", &body)])
        }
        _ => {}
    }
    Answer::data(&json!({"status": answer.status, "headers": answer.headers, "body": body}))
}

/// Like [`fetch`], and first logs the call's deadline.
pub(crate) fn fetch_in_time(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let deadline = call.deadline.to_string();
    host.log().write(bulkhead_sdk::host::LogLevel::Info, "attempting", &[("deadline", &deadline)]);
    fetch(host, call)
}

pub(crate) fn keep(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (key, ttl) = (call.text("name"), u32::try_from(call.seconds("ttl")).unwrap_or(u32::MAX));
    match call.is_given("value") {
        true => host.cache().put(key, call.text("value").as_bytes(), ttl)?,
        false => host.cache().remove(key)?,
    }
    Ok(Answer::nothing())
}

pub(crate) fn recall(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let value = host.cache().get(call.text("name"))?.ok_or_else(Failure::absent)?;
    Answer::data(&json!({"value": String::from_utf8_lossy(&value)}))
}

/// Returns the cached value of this name, or fetches and caches the value. With `panics`, crashes
/// before the value is cached.
pub(crate) fn make(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let value = host.cache().get_or_make(call.text("name"), 60, || {
        let answer = host.http().send(&request(call))?;
        assert_ne!(call.text("how"), "panics", "on request");
        Ok(answer.body)
    })?;
    Answer::data(&json!({"value": String::from_utf8_lossy(&value)}))
}

fn request(call: &Call) -> Request {
    let mut request = Request::new(call.text("method"), call.text("url"));
    for (name, value) in call.map("headers").into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap_or_default());
    }
    request.body = call.text("body").as_bytes().to_vec();
    request.safe = call.flag("safe");
    request.identity = call.is_given("identity").then(|| call.text("identity").to_owned());
    if call.is_given("secret") {
        request = request.secret(call.text("secret"));
    }
    match call.is_given("roots") {
        true => request.tls(HttpTls {
            root_certificates: Some(call.text("roots").to_owned()),
            ..HttpTls::default()
        }),
        false => request,
    }
}
