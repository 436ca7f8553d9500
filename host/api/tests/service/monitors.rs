//! `sys/monitor`: a streamed answer without an end of its own.

use crate::bed::{Bed, PATIENCE, error, request};
use bulkhead_wire::byte_stream::ByteStream;
use bulkhead_wire::description::Verb;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::ResponseBody;
use serde_json::{Value, json};
use std::future::poll_fn;

const PATH: &str = "sys/monitor";

impl Bed {
    /// Begins to monitor the log with the token, under the request id `id`.
    async fn monitor(&self, token: &str, id: &str) -> ByteStream {
        let watch = request(token, Verb::Read, PATH, json!({ "log_level": "DEBUG" }));
        let response = self.service.handle(Request { id: id.to_owned(), ..watch }).await;
        let ResponseBody::Streamed { content_type, stream } = response.body else {
            panic!("{response:?}")
        };
        assert_eq!((response.status, content_type.as_str()), (200, "text/plain; charset=utf-8"));
        stream
    }

    async fn token_for(&self, capabilities: Value) -> String {
        let rule = format!("path \"{PATH}\" {{ capabilities = {capabilities} }}");
        self.write("sys/policies/acl/monitor", json!({ "policy": rule })).await;
        let (_, created) =
            self.write("auth/token/create", json!({ "policies": ["monitor"] })).await;
        created["auth"]["client_token"].as_str().unwrap().to_owned()
    }
}

/// Returns the rest of a monitor, up to its end.
async fn read_rest(stream: ByteStream) -> String {
    let mut rest = Vec::new();
    let reading = async {
        while let Some(piece) = poll_fn(|context| stream.poll_chunk(context)).await {
            rest.extend(piece.unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap();
    String::from_utf8(rest).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn monitor_needs_sudo_and_known_words() {
    let bed = Bed::new("monitor-rights").await;
    let token = bed.token_for(json!(["read"])).await;
    let (status, refused) = bed.call_as(&token, Verb::Read, PATH, json!({})).await;
    assert!(status == 403 && error(&refused).contains("without sudo"), "{refused}");
    for (fields, part) in [
        (json!({ "log_level": "loud" }), "unknown log level \"loud\""),
        (json!({ "log_format": "xml" }), "unknown log format \"xml\""),
    ] {
        let (status, refused) = bed.call(Verb::Read, PATH, fields).await;
        assert!(status == 400 && error(&refused).contains(part), "{refused}");
    }
    let wrapped = Request { wrap_ttl: Some(60), ..request("root", Verb::Read, PATH, json!({})) };
    assert_eq!(bed.service.handle(wrapped).await.status, 400);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn monitor_is_listed_and_ends_with_its_token() {
    let bed = Bed::new("monitor-token").await;
    let token = bed.token_for(json!(["read", "sudo"])).await;
    let stream = bed.monitor(&token, "watching").await;
    let (_, listed) = bed.read("sys/in-flight-req").await;
    assert_eq!(listed["watching"]["request_path"], "/v1/sys/monitor", "{listed}");
    let revoked = bed.write("auth/token/revoke", json!({ "token": token })).await;
    assert_eq!(revoked.0, 204);
    let rest = read_rest(stream).await;
    assert!(rest.ends_with("event=monitor-ended reason=the token has ended\n"), "{rest}");
    let (_, listed) = bed.read("sys/in-flight-req").await;
    assert_eq!(listed.get("watching"), None, "{listed}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn monitor_ends_with_its_right() {
    let bed = Bed::new("monitor-right").await;
    let token = bed.token_for(json!(["read", "sudo"])).await;
    let stream = bed.monitor(&token, "watching").await;
    let rule = format!("path \"{PATH}\" {{ capabilities = [\"read\"] }}");
    bed.write("sys/policies/acl/monitor", json!({ "policy": rule })).await;
    let rest = read_rest(stream).await;
    assert!(rest.ends_with("event=monitor-ended reason=the right has ended\n"), "{rest}");
    assert_eq!(bed.call_as(&token, Verb::Read, "auth/token/lookup-self", json!({})).await.0, 200);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn monitors_are_bounded_and_end_at_seal() {
    let bed = Bed::new("monitor-seal").await;
    let mut streams = Vec::new();
    for number in 0..8 {
        streams.push(bed.monitor("root", &number.to_string()).await);
    }
    let (status, refused) = bed.read(PATH).await;
    assert!(status == 503 && error(&refused).contains("8 callers"), "{refused}");
    drop(streams.pop());
    streams.push(bed.monitor("root", "another").await);
    bed.service.stop().await;
    for stream in streams {
        let rest = read_rest(stream).await;
        assert!(rest.ends_with("event=monitor-ended reason=the service is sealed\n"), "{rest}");
    }
    std::fs::remove_dir_all(&bed.directory).unwrap();
}
