//! The server dies, or meets an error, while a wrapping token is opened: the answer is read at most
//! once, a token whose answer was lost says that it was used, and the secret is in no file.

use crate::injected::{FaultObserved, InjectedFault, write};
use crate::points;
use bulkhead_tests::paths::{Folder, fault_binary};
use bulkhead_tests::{Bulkhead, leaks, storage};
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};

const UNWRAP: &str = "sys/wrapping/unwrap";
const SECRET: &str = "c4n4ry-of-a-wrapped-answer-71b0";

/// A stopped server with a wrapped secret.
struct Template {
    server: Bulkhead,
    token: String,
}

impl Template {
    fn prepared() -> Self {
        let mut server = Bulkhead::prepared(fault_binary(), Folder::new("wrapping"));
        server.start_again();
        let fields = json!({ "password": SECRET });
        let wrapped = server.root().wrapping("1h").write("sys/wrapping/wrap", &fields).expect(200);
        let token = wrapped.body["wrap_info"]["token"].as_str().expect("a token").to_owned();
        assert!(server.stop(), "{}", server.printed());
        Self { server, token }
    }

    /// Returns a server with a copy of the data, not started yet.
    fn copied(&self) -> Bulkhead {
        Bulkhead::prepared(fault_binary(), storage::copied(self.server.data()))
    }

    /// Opens the token.
    fn open(&self, server: &Bulkhead) -> Result<(), FaultObserved> {
        let opened = write(&server.root(), UNWRAP, &json!({ "token": self.token }))?;
        assert_eq!(opened.expect(200).text("password"), SECRET);
        Ok(())
    }

    /// Starts the server again after a life, and returns whether the token opens the answer now.
    fn opens_again(&self, server: &mut Bulkhead) -> bool {
        leaks::assert_silent("the server's log", &server.printed(), SECRET);
        leaks::assert_sealed(server.data(), SECRET);
        server.start_again();
        let opened = server.root().write(UNWRAP, &json!({ "token": self.token }));
        let is_open = opened.status == 200;
        if !is_open {
            let said = opened.expect(400).errors();
            assert!(said.contains("the token was used before"), "{said}");
        }
        let again = server.root().write(UNWRAP, &json!({ "token": self.token }));
        assert!(again.expect(400).errors().contains("the token was used before"));
        is_open
    }
}

/// Runs a life with a fault. Returns whether the fault fired, and whether the answer was lost.
fn live(template: &Template, fault: &str, number: u32) -> (bool, bool) {
    let injected = InjectedFault::at(fault, number);
    let mut server = template.copied();
    if !injected.start(&mut server) {
        return (true, false);
    }
    let lived = template.open(&server);
    let came = injected.end(&mut server, &lived);
    let opens = template.opens_again(&mut server);
    assert!(!(opens && lived.is_ok()), "{fault}@{number}: the answer was read twice");
    (came, !opens && lived.is_err())
}

fn an_answer_is_read_at_most_once(fault: &str) -> u32 {
    let template = Template::prepared();
    let first = points::passed_by_start(fault, template.copied());
    let lost = AtomicU32::new(0);
    points::each_behind("wrapping", fault, first, |number| {
        let (came, is_lost) = live(&template, fault, number);
        lost.fetch_add(u32::from(is_lost), Ordering::Relaxed);
        came
    });
    lost.into_inner()
}

#[test]
fn crash_between_token_end_and_answer_uses_token() {
    assert!(an_answer_is_read_at_most_once("abort") > 0, "no life died between the two");
}

#[test]
fn unwrapping_error_answers_at_most_one_reader() {
    an_answer_is_read_at_most_once("fail");
}

/// The point behind the commit of the request, and before its answer.
#[test]
fn server_dying_before_answer_has_used_token() {
    let template = Template::prepared();
    let mut server = template.copied();
    let dies = [("BULKHEAD_FAULT", "abort@answer.leaves:1".to_owned())];
    server.start_with(&dies).expect("the server starts");
    assert!(template.open(&server).is_err(), "the answer does not leave");
    assert!(!template.opens_again(&mut server), "the token is used up");
}
