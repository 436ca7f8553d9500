//! The blocks of a self-initialisation.

use super::{STORAGE, read, refused};
use crate::config::{Config, load_initial_blocks};

const SEAL: &str = "seal \"static\" { current_key_id = \"1\" current_key = \"file:///k\" }\n";

/// A block with one request with these settings, on line 5.
fn of_request(settings: &str) -> String {
    format!("{SEAL}initialize \"b\" {{\nrequest \"r\" {{\n{settings}\n}}\n}}")
}

fn configured(text: &str) -> Config {
    read(&format!("{STORAGE}{text}"))
}

#[test]
fn initialize_blocks_keep_order_and_types() {
    let text = of_request(
        "operation = \"create\"\npath = \"/v1/sys/mounts/a/\"\n\
         data = { type = \"kv\", n = 2, on = true, list = [\"x\", 1], o = { in = { v = \"d\" } } }",
    );
    let config = configured(&text);
    let blocks = load_initial_blocks(&config.initialize, &|_| None).unwrap();
    assert_eq!((blocks.len(), blocks[0].name.as_str()), (1, "b"));
    let request = &blocks[0].requests[0];
    assert_eq!((request.name.as_str(), request.path.as_str()), ("r", "sys/mounts/a"));
    assert_eq!(request.fields.len(), 5);
    let json = "{\"storage\": {\"sqlite\": {\"path\": \"/d\"}}, \"seal\": {\"static\": \
         {\"current_key_id\": \"1\", \"current_key\": \"file:///k\"}}, \"initialize\": \
         [{\"b\": {\"request\": [{\"r\": {\"operation\": \"read\", \"path\": \"a\"}}, \
         {\"s\": {\"operation\": \"list\", \"path\": \"b\", \"data\": \
         {\"all\": [{\"x\": 1}, {\"x\": 2}]}}}]}}]}";
    let blocks = load_initial_blocks(&read(json).initialize, &|_| None).unwrap();
    let names: Vec<&str> = blocks[0].requests.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["r", "s"]);
    assert_eq!(blocks[0].requests[1].fields.len(), 1);
}

#[test]
fn variable_has_requested_type_and_stays_hidden() {
    let of_type = |kind: &str| {
        configured(&of_request(&format!(
            "operation = \"update\"\npath = \"a\"\n\
             data = {{ v = {{ eval_source = \"env\" env_var = \"V\" eval_type = {kind:?} }} }}"
        )))
        .initialize
    };
    for (kind, text) in [("string", "2"), ("int", "2"), ("bool", "true")] {
        let blocks = load_initial_blocks(&of_type(kind), &|_| Some(text.into())).unwrap();
        assert!(!format!("{blocks:?}").contains(text), "{kind}");
    }
    for (kind, text) in [("int", "canary"), ("bool", "canary")] {
        let wrong = load_initial_blocks(&of_type(kind), &|_| Some(text.into())).unwrap_err();
        assert!(wrong.contains("request \"r\" of initialize \"b\""), "{wrong}");
        assert!(wrong.contains("eval_type") && !wrong.contains("canary"), "{wrong}");
    }
    let unset = load_initial_blocks(&of_type("string"), &|_| None).unwrap_err();
    assert!(unset.contains("V is not set"), "{unset}");
}

#[test]
fn wrong_initialize_blocks_are_refused_by_line() {
    let path = "path = \"a\"";
    let request = |settings: &str| of_request(&format!("operation = \"read\"\n{settings}"));
    let answer = |settings: &str| {
        request(&format!("{path}\ndata {{\n v = {{ eval_source = \"response\" {settings} }}\n}}"))
    };
    for (text, line, words) in [
        (of_request(path), 4, "needs operation"),
        (request(""), 4, "needs path"),
        (of_request(&format!("operation = \"help\"\n{path}")), 5, "not an operation"),
        (request("path = \"a/../b\""), 6, "path"),
        (request(&format!("{path}\nbody = 1")), 7, "unknown key \"body\""),
        (request(&format!("{path}\ndata {{\n v = {{ eval_source = \"cel\" }}\n}}")), 8, "is env"),
        (answer("request_name = \"r\" response_selector = \"data\""), 8, "no earlier request"),
        (answer("initialize_name = \"c\" request_name = \"r\""), 8, "in its block only"),
        (answer("request_name = \"r\" env_var = \"V\""), 8, "unknown key \"env_var\""),
        (format!("{SEAL}initialize \"b\" {{\n}}"), 3, "has no request"),
        (format!("{SEAL}initialize {{\n}}"), 3, "takes a name"),
        (request(path).replace(SEAL, "\n"), 3, "seal \"shamir\" cannot initialise itself"),
    ] {
        let refusal = Config::of(&format!("{STORAGE}{text}")).expect_err(&text);
        let found =
            refusal.errors.iter().any(|one| one.line == line && one.message.contains(words));
        assert!(found, "{text}: {:?}", refusal.errors);
    }
    let twice = format!("{0}\n{1}", request(path), request(path).replace(SEAL, ""));
    assert!(refused(&twice).message.contains("initialize \"b\" is given before"));
}
