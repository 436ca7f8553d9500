//! `bulkhead monitor`: lines are printed as they come.

use super::*;

#[test]
fn monitor_prints_lines_of_the_answer() {
    let canned = Canned::answering(200, "level=info event=unsealed\nlevel=warn event=a\n");
    let environment = [("BULKHEAD_ADDR", canned.address.as_str())];
    let words = ["monitor", "-log-level=debug", "-log-format=json"];
    let ran = run_with(&words, "", &environment);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(ran.out, "level=info event=unsealed\nlevel=warn event=a\n");
    let (line, _, _) = canned.asked_once();
    assert_eq!(line, "GET /v1/sys/monitor?log_level=debug&log_format=json HTTP/1.1");
    assert_wrong(&["monitor", "debug"], "type: bulkhead monitor");
}

#[test]
fn refused_monitor_says_why() {
    let canned = Canned::answering(400, r#"{"errors":["unknown log level \"loud\""]}"#);
    let environment = [("BULKHEAD_ADDR", canned.address.as_str())];
    let ran = run_with(&["monitor", "-log-level=loud"], "", &environment);
    assert!(ran.code == 1 && ran.err.contains("unknown log level"), "{}", ran.err);
    assert_eq!(ran.out, "");
}
