//! A request as a command line of curl, for `-output-curl-string`.
//!
//! This file prevents a token in a terminal or a chat: the line asks `bulkhead print token` for the
//! token.

use crate::client::{RequestBody, RequestCaller, ServerAddress, ServerRequest};
use crate::tls::TlsTrust;
use hyper::Method;
use std::path::Path;

/// Returns the command line that makes this request, without the token.
pub(crate) fn line(
    (server, trust): (&ServerAddress, &TlsTrust),
    caller: &RequestCaller,
    call: &ServerRequest,
) -> String {
    let mut words = vec!["curl".to_owned()];
    if call.method != Method::GET {
        words.push(format!("-X {}", call.method));
    }
    words.extend(trust_words(trust));
    if let ServerAddress::Unix(socket) = server {
        words.push(format!("--unix-socket {}", quoted_path(socket)));
    }
    if caller.token.is_some() {
        words.push("-H \"X-Vault-Token: $(bulkhead print token)\"".to_owned());
    }
    words.push(header("X-Vault-Request", "true"));
    words.extend(caller.namespace.iter().map(|name| header("X-Vault-Namespace", name)));
    for (name, value) in &caller.headers {
        words.push(header(name.as_str(), &String::from_utf8_lossy(value.as_bytes())));
    }
    words.extend(body_words(call.body.as_ref()));
    let base = match server {
        ServerAddress::Unix(_) => "http://localhost".to_owned(),
        network @ ServerAddress::Network { .. } => network.to_string(),
    };
    words.push(quoted(&format!("{base}{}", call.target())));
    words.join(" ")
}

fn trust_words(trust: &TlsTrust) -> Vec<String> {
    let files = [
        ("--cacert", &trust.ca_file),
        ("--capath", &trust.ca_folder),
        ("--cert", &trust.client_certificate),
        ("--key", &trust.client_key),
    ];
    let file_words = files
        .into_iter()
        .filter_map(|(option, file)| Some(format!("{option} {}", quoted_path(file.as_deref()?))));
    file_words.chain(trust.skip_verify.then(|| "--insecure".to_owned())).collect()
}

fn body_words(body: Option<&RequestBody>) -> Vec<String> {
    match body {
        None => Vec::new(),
        Some(RequestBody::Json(fields)) => vec![format!("-d {}", quoted(&fields.to_string()))],
        Some(RequestBody::MergePatch(fields)) => vec![
            header("Content-Type", "application/merge-patch+json"),
            format!("-d {}", quoted(&fields.to_string())),
        ],
        Some(RequestBody::Component(_)) => vec![
            header("Content-Type", "application/wasm"),
            "--data-binary @COMPONENT.wasm".to_owned(),
        ],
        // The file is read while it is sent.
        Some(RequestBody::File(file)) => vec![format!("-T {}", quoted_path(file))],
    }
}

fn header(name: &str, value: &str) -> String {
    format!("-H {}", quoted(&format!("{name}: {value}")))
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// Quotes a word for a POSIX shell.
fn quoted(text: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | ':' | '%');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_wire::secret::Secret;
    use serde_json::json;

    fn line_of(server: &str, trust: &TlsTrust, call: &ServerRequest) -> String {
        let caller = RequestCaller {
            token: Some(Secret::new("bhs.canary")),
            namespace: None,
            headers: Vec::new(),
        };
        line((&ServerAddress::parse(server).unwrap(), trust), &caller, call)
    }

    #[test]
    fn the_token_is_asked_for_and_never_written() {
        let call = ServerRequest::new(Method::PUT, "kv/data/x").with_fields(json!({"a": "it's"}));
        let expected = "curl -X PUT -H \"X-Vault-Token: $(bulkhead print token)\" \
            -H 'X-Vault-Request: true' -d '{\"a\":\"it'\\''s\"}' \
            http://127.0.0.1:8200/v1/kv/data/x";
        assert_eq!(line_of("http://127.0.0.1:8200", &TlsTrust::default(), &call), expected);
    }

    #[test]
    fn tls_and_sockets_are_options_of_curl() {
        let trust =
            TlsTrust { ca_file: Some("/a b.pem".into()), skip_verify: true, ..TlsTrust::default() };
        let call = ServerRequest {
            query: vec![("list".to_owned(), "true".to_owned())],
            ..ServerRequest::new(Method::GET, "a")
        };
        let shown = line_of("https://h:1", &trust, &call);
        assert!(shown.starts_with("curl --cacert '/a b.pem' --insecure -H"), "{shown}");
        assert!(shown.ends_with(" 'https://h:1/v1/a?list=true'"), "{shown}");
        let shown = line_of("unix:///run/b.sock", &TlsTrust::default(), &call);
        assert!(shown.contains("--unix-socket /run/b.sock "), "{shown}");
        assert!(shown.ends_with(" 'http://localhost/v1/a?list=true'"), "{shown}");
    }
}
