//! The context of traces in requests of components.

use super::*;

#[test]
fn trace_context_passes_to_granted_origins_alone() {
    let origin = |text: &str| bulkhead_outbound::http::parse_url(text).unwrap().0;
    let passes = |granted: Option<&[&str]>, url: &str| {
        mount(Publisher::Official, granted).passes_trace_to(&origin(url))
    };
    let line: &[&str] = &["http:*", "trace:https://*.corp.example"];
    assert!(passes(Some(line), "https://api.corp.example/x"));
    assert!(!passes(Some(line), "https://corp.example/"));
    assert!(!passes(Some(line), "https://api.corp.example:444/"));
    assert!(!passes(Some(line), "http://api.corp.example/"));
    assert!(passes(Some(&["trace:*"]), "http://a:81/"));
    assert!(!passes(Some(&["http:*"]), "https://a/"), "an http line passes none");
    assert!(!passes(None, "https://a/"), "no default of a component passes a trace");
    let traces_only = mount(Publisher::Official, Some(&["trace:https://a"]));
    assert!(traces_only.check_act(&Act::Http(&origin("https://a/"))).is_err());
}

#[test]
fn trace_line_is_within_ceiling_of_http() {
    let (ceiling, line) = (asks(&["http:https://a:443"]), |text: &str| text.parse().unwrap());
    assert_eq!(ceiling::check(&ceiling, &line("trace:https://a:443")), Ok(()));
    assert!(ceiling::check(&ceiling, &line("trace:https://b:443")).is_err());
    assert!(ceiling::check(&ceiling, &line("trace:*")).is_err());
    for wrong in ["trace", "trace:", "trace:postgres://a:1", "trace:trace:https://a"] {
        assert!(wrong.parse::<Grant>().is_err(), "{wrong}");
    }
}
