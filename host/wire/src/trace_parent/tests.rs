//! Valid, malformed and mutated headers of a trace context.

use super::*;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn parsed(parents: &[&str], states: &[&str]) -> Option<TraceParent> {
    let parents = parents.iter().map(|text| text.as_bytes());
    TraceParent::parse(parents, states.iter().map(|text| text.as_bytes()))
}

#[test]
fn valid_parent_is_read_and_written_unchanged() {
    let parent = parsed(&[PARENT], &["a=1,b@c=x y"]).unwrap();
    assert_eq!(parent.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
    assert_eq!((parent.span_id, parent.is_sampled), (0x00f0_67aa_0ba9_02b7, true));
    assert_eq!(parent.to_string(), PARENT);
    assert_eq!(parent.state.as_deref(), Some("a=1,b@c=x y"));
    let later = format!("cc{}-more", PARENT.strip_prefix("00").unwrap());
    assert!(parsed(&[&later], &[]).unwrap().is_sampled);
    let unsampled = PARENT.replace("-01", "-fe");
    assert!(!parsed(&[&unsampled], &[]).unwrap().is_sampled);
}

#[test]
fn malformed_parent_begins_a_new_trace() {
    let upper = PARENT.to_ascii_uppercase();
    let longer = format!("{PARENT}-00");
    for text in [
        "",
        "00",
        &PARENT[..54],
        &longer,
        &upper,
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b77-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
        "+0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
        " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0é",
    ] {
        assert_eq!(parsed(&[text], &[]), None, "{text:?}");
    }
    assert_eq!(parsed(&[PARENT, PARENT], &[]), None, "two headers");
    assert_eq!(parsed(&[], &["a=1"]), None, "no parent");
}

#[test]
fn malformed_state_is_dropped_and_parent_stays() {
    let many = vec!["a=1"; 33].join(",");
    let long = format!("a={}", "x".repeat(257));
    let total = format!("a={},b={},c=1", "x".repeat(255), "x".repeat(255));
    for text in ["", ",", "a", "=1", "a=", "A=1", "a=1=2", "a=\u{7}", "a=é", &many, &long, &total]
    {
        assert_eq!(parsed(&[PARENT], &[text]).unwrap().state, None, "{text:?}");
    }
    let joined = parsed(&[PARENT], &["a=1", "b=2"]).unwrap();
    assert_eq!(joined.state.as_deref(), Some("a=1,b=2"));
}

#[test]
fn mutated_headers_stay_within_grammar() {
    let seeds: [&[u8]; 2] = [PARENT.as_bytes(), b"a=1,b@c=x y"];
    bulkhead_fuzz::run("trace_parent", &seeds, &["00-", "-01", "ff", "="], |case| {
        let Some(parent) = TraceParent::parse([case].into_iter(), [case].into_iter()) else {
            return;
        };
        let shown = parent.to_string();
        assert_eq!(parsed(&[&shown], &[]), Some(TraceParent { state: None, ..parent }));
    });
}
