//! `printf` against the results of Go 1.26 for each verb, flag, width and precision.

use super::*;

/// Lines of a format, a value, and the text that Go's `fmt.Sprintf` makes.
const GO: &str = include_str!("go.jsonl");

fn context() -> RenderContext<'static> {
    RenderContext { random: &|_| Vec::new(), now: 0 }
}

#[test]
fn every_format_gives_the_text_of_go() {
    let mut seen = 0;
    for line in GO.lines() {
        let (format, value, text): (String, serde_json::Value, String) =
            serde_json::from_str(line).unwrap();
        let value = match &value {
            serde_json::Value::String(text) => TemplateValue::Text(text.as_bytes().to_vec()),
            serde_json::Value::Bool(flag) => TemplateValue::Bool(*flag),
            number => TemplateValue::Int(number.as_i64().unwrap()),
        };
        let given = [TemplateValue::Text(format.into_bytes()), value];
        let made = printf(&given, &context()).unwrap().unwrap();
        assert_eq!(String::from_utf8(made.to_bytes()).unwrap(), text, "{line}");
        seen += 1;
    }
    assert_eq!(seen, 88);
}

#[test]
fn what_is_not_built_is_refused_with_its_name() {
    let refused = |format: &str, value: TemplateValue| {
        let given = [TemplateValue::Text(format.as_bytes().to_vec()), value];
        printf(&given, &context()).unwrap().err().unwrap()
    };
    let text = || TemplateValue::Text(b"a".to_vec());
    for format in ["%05s", "%#q", "%+q", "%#v", "%e", "%T", "%p", "%[1]s", "%*s"] {
        let fault = refused(format, text());
        let TemplateFault::UnknownVerb(written) = &fault else { panic!("{format}: {fault}") };
        assert!(format.starts_with(written.as_str()), "{format}: {written}");
        assert!(fault.to_string().contains("verbs are %s"), "{fault}");
    }
    for format in ["%#o", "%#b", "%U", "%f"] {
        let fault = refused(format, TemplateValue::Int(5));
        assert!(matches!(fault, TemplateFault::UnknownVerb(_)), "{format}: {fault}");
    }
    for format in ["%9999s", "%.9999s", "%99999999999999999999d"] {
        assert!(matches!(refused(format, text()), TemplateFault::TooLong), "{format}");
    }
}
