//! Status, content type and bytes of every kind of body.

use super::*;
use crate::byte_stream::ByteSource;
use std::task::{Context, Poll};

fn text(response: Response) -> (u16, String, String) {
    let (status, content_type, bytes) = response.into_bytes();
    (status, content_type, String::from_utf8(bytes).unwrap())
}

fn answer(status: u16, body: &str) -> (u16, String, String) {
    (status, "application/json".to_owned(), body.to_owned())
}

#[test]
fn a_failure_is_a_list_of_errors() {
    let failure = Failure { retry_after: Some(1500), ..Failure::invalid("ttl \"x\"\nis wrong") };
    let response = Response::failed(&failure);
    assert_eq!(response.retry_after, Some(1500));
    assert_eq!(text(response), answer(400, r#"{"errors":["ttl \"x\"\nis wrong"]}"#));
}

#[test]
fn missing_object_is_404_without_error_text() {
    assert_eq!(text(Response::failed(&Failure::absent())), answer(404, r#"{"errors":[]}"#));
}

#[test]
fn moved_path_is_error_and_warning() {
    let expected = r#"{"errors":["use secret/data/a"],"warnings":["use secret/data/a"]}"#;
    let moved = Response::failed(&Failure::moved("use secret/data/a"));
    assert_eq!(text(moved), answer(404, expected));
}

#[test]
fn nothing_to_say_is_204_without_a_byte() {
    assert_eq!(text(Response::no_content()), answer(204, ""));
}

#[test]
fn data_has_envelope_and_bare_answers_have_none() {
    let data = Map::from_iter([("keys".to_owned(), json!([]))]);
    let (status, content_type, body) = text(Response::data("5e1c", data));
    assert_eq!((status, content_type.as_str()), (200, "application/json"));
    assert!(
        body.starts_with(r#"{"request_id":"5e1c","lease_id":"","#)
            && body.contains(r#""data":{"keys":[]}"#)
    );
    assert_eq!(
        text(Response::bare(503, json!({ "sealed": true }))),
        answer(503, r#"{"sealed":true}"#)
    );
}

#[test]
fn envelope_keys_win_over_copied_data() {
    let data = json!({ "team/": { "type": "kv" }, "auth": "not this" }).as_object().cloned();
    let envelope = Envelope { request_id: "5e1c".to_owned(), data, ..Envelope::default() };
    let response = Response::new(200, ResponseBody::Copied(Box::new(envelope)));
    let body: Value = serde_json::from_str(&text(response).2).unwrap();
    assert_eq!((&body["team/"], &body["auth"]), (&json!({ "type": "kv" }), &Value::Null));
    assert_eq!((&body["request_id"], &body["data"]["auth"]), (&json!("5e1c"), &json!("not this")));
}

#[test]
fn listing_stands_in_envelope_like_other_data() {
    let data = json!({ "keys": ["a", "b"], "key_info": { "a": { "n": 1 }, "b": {} } });
    let envelope = Envelope {
        request_id: "\"data\":null,\\\"data\\\":null".to_owned(),
        warnings: vec!["\"data\":null".to_owned()],
        ..Envelope::default()
    };
    let full_envelope = Envelope { data: data.as_object().cloned(), ..envelope.clone() };
    let listing = Listing {
        keys: data["keys"].to_string(),
        key_info: Some(data["key_info"].to_string()),
        entries: 2,
        room: None,
    };
    let answered = |body| text(Response::new(200, body));
    let listed = answered(ResponseBody::Listed(Box::new(envelope), listing));
    assert_eq!(listed, answered(ResponseBody::Envelope(Box::new(full_envelope))));
}

#[test]
fn only_published_documents_may_be_cached() {
    let body = ResponseBody::Published { document: json!({ "keys": [] }), max_age: 3_600 };
    let published = Response::new(200, body);
    assert_eq!(published.max_age(), Some(3_600));
    assert_eq!(text(published), answer(200, r#"{"keys":[]}"#));
    assert_eq!(Response::bare(200, json!({})).max_age(), None);
}

#[test]
fn a_document_is_shared_by_its_answers() {
    let document = Arc::new(b"{}".to_vec());
    let response = || Response::new(200, ResponseBody::Document(document.clone()));
    let (_, _, content) = response().into_content();
    assert!(matches!(content, ResponseBytes::Shared(bytes) if Arc::ptr_eq(&bytes, &document)));
    assert_eq!(text(response()), answer(200, "{}"));
}

#[test]
fn raw_bytes_keep_their_type() {
    let body = ResponseBody::Raw { content_type: "text/plain".to_owned(), bytes: b"hi".to_vec() };
    let response = Response::new(202, body);
    assert_eq!(response.into_bytes(), (202, "text/plain".to_owned(), b"hi".to_vec()));
}

#[test]
fn wrapped_answer_releases_only_wrapping_token() {
    let wrap_info = Some(json!({ "token": "bhs.1" }));
    let envelope = Box::new(Envelope { wrap_info, ..Envelope::default() });
    let hidden = Box::new(ResponseBody::Bare(json!({ "password": "hunter2" })));
    let body = ResponseBody::Wrapped { envelope, hidden };
    let (status, _, bytes) = text(Response::new(200, body));
    assert!(status == 200 && bytes.contains("bhs.1") && !bytes.contains("hunter2"), "{bytes}");
}

#[test]
fn a_logged_response_shows_no_body() {
    let secret = || json!({ "password": "hunter2" });
    let bodies = [
        ResponseBody::Envelope(Box::new(Envelope {
            data: secret().as_object().cloned(),
            ..Envelope::default()
        })),
        ResponseBody::Copied(Box::new(Envelope {
            data: secret().as_object().cloned(),
            ..Envelope::default()
        })),
        ResponseBody::Bare(secret()),
        ResponseBody::Raw { content_type: "text/plain".to_owned(), bytes: b"hunter2".to_vec() },
        ResponseBody::Unwrapped {
            content_type: "text/plain".to_owned(),
            bytes: b"hunter2".to_vec(),
        },
        ResponseBody::Wrapped {
            envelope: Box::default(),
            hidden: Box::new(ResponseBody::Bare(secret())),
        },
        ResponseBody::Errors(vec!["hunter2".to_owned()]),
        ResponseBody::Advice("hunter2".to_owned()),
    ];
    for body in bodies {
        let shown = format!("{:?}", Response::new(200, body));
        assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
    }
}

struct EndlessSource;

impl ByteSource for EndlessSource {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Failure>>> {
        Poll::Ready(Some(Ok(b"hunter2".to_vec())))
    }
}

#[test]
fn streamed_bytes_are_never_collected() {
    let body = || ResponseBody::Streamed {
        content_type: "application/gzip".to_owned(),
        stream: ByteStream::new(EndlessSource),
    };
    let response = || Response::new(200, body());
    assert!(!format!("{:?}", response()).contains("hunter2"));
    let (status, content_type, content) = response().into_content();
    assert_eq!((status, content_type.as_str()), (200, "application/gzip"));
    assert!(matches!(content, ResponseBytes::Streamed(_)));
    assert_eq!(response().into_bytes().0, 500);
}
