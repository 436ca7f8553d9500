//! `printf` against the results of Go 1.26 for each verb, flag, width and precision.

use super::*;
use serde_json::Value;

/// Lines of a format, a value, and the text that Go's `fmt.Sprintf` makes.
const GO: &str = include_str!("go.jsonl");

#[test]
fn every_format_gives_the_text_of_go() {
    let mut seen = 0;
    for line in GO.lines() {
        let (format, value, text): (String, Value, String) = serde_json::from_str(line).unwrap();
        let value = match &value {
            Value::String(text) => PrintedValue::Text(text.as_bytes()),
            Value::Bool(flag) => PrintedValue::Bool(*flag),
            number => PrintedValue::Int(number.as_i64().unwrap()),
        };
        let output = printf(&format, &[value]).unwrap();
        assert_eq!(String::from_utf8(output).unwrap(), text, "{line}");
        seen += 1;
    }
    assert_eq!(seen, 88);
}

#[test]
fn unavailable_verbs_are_refused_with_their_name() {
    let refused = |format: &str, value| printf(format, &[value]).unwrap_err();
    for format in ["%05s", "%#q", "%+q", "%#v", "%e", "%T", "%p", "%[1]s", "%*s"] {
        let PrintfFault::UnknownVerb(written) = refused(format, PrintedValue::Text(b"a")) else {
            panic!("{format}")
        };
        assert!(format.starts_with(&written), "{format}: {written}");
    }
    for format in ["%#o", "%#b", "%U", "%f"] {
        let fault = refused(format, PrintedValue::Int(5));
        assert!(matches!(fault, PrintfFault::UnknownVerb(_)), "{format}");
    }
    for format in ["%9999s", "%.9999s", "%99999999999999999999d"] {
        assert_eq!(refused(format, PrintedValue::Text(b"a")), PrintfFault::TooLong, "{format}");
    }
    for (format, value) in [
        ("%d", PrintedValue::Text(b"a")),
        ("%s", PrintedValue::Int(5)),
        ("%x", PrintedValue::Bool(true)),
        ("%", PrintedValue::Int(5)),
        ("a", PrintedValue::Int(5)),
    ] {
        assert_eq!(refused(format, value), PrintfFault::WrongValues, "{format}");
    }
}
