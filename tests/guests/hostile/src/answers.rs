//! Malformed or oversized answers.

use crate::Ending;
use crate::bulkhead::plugin::types::{Answer, Call, Outcome, RawAnswer, Secret};

pub(crate) fn of(outcome: Outcome) -> Answer {
    Answer { outcome, warnings: Vec::new(), ext: Vec::new() }
}

pub(crate) fn nothing() -> Answer {
    data("{}".into())
}

pub(crate) fn data(text: String) -> Answer {
    of(Outcome::Data(text))
}

pub(crate) fn secret(tag: Option<&str>) -> Outcome {
    Outcome::Secret(Secret {
        data: "{}".into(),
        tag: tag.map(str::to_owned),
        ttl: 3_600,
        max_ttl: 3_600,
        renewable: true,
        internal: "{}".into(),
        ext: Vec::new(),
    })
}

fn text_of(bytes: usize) -> Answer {
    data(format!("{{\"text\":\"{}\"}}", "x".repeat(bytes)))
}

pub(crate) fn huge(_call: &Call) -> Ending {
    Ok(text_of(5 << 20))
}

pub(crate) fn beyond_all_bounds(_call: &Call) -> Ending {
    Ok(text_of(9 << 20))
}

pub(crate) fn many_warnings(_call: &Call) -> Ending {
    Ok(Answer { warnings: vec!["beware".into(); 1_000], ..nothing() })
}

pub(crate) fn not_json(_call: &Call) -> Ending {
    Ok(data("{\"a\":".into()))
}

pub(crate) fn not_an_object(_call: &Call) -> Ending {
    Ok(data("[1]".into()))
}

pub(crate) fn deep(_call: &Call) -> Ending {
    Ok(data(format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000))))
}

/// A short text that takes much memory when parsed.
pub(crate) fn many_values(_call: &Call) -> Ending {
    Ok(data(format!("{{\"a\":[0{}]}}", ",0".repeat(1_000_000))))
}

/// An object with a repeated key; readers would disagree about the value.
pub(crate) fn key_twice(_call: &Call) -> Ending {
    Ok(data("{\"a\":{\"b\":1,\"b\":2}}".into()))
}

pub(crate) fn not_utf8(_call: &Call) -> Ending {
    // SAFETY: the text is only passed to the host and never read here.
    Ok(data(unsafe { String::from_utf8_unchecked(vec![b'{', 0xff, 0xfe, b'}']) }))
}

fn raw(status: u16, content_type: &str) -> Ending {
    Ok(of(Outcome::Raw(RawAnswer {
        status,
        content_type: content_type.into(),
        body: b"body".to_vec(),
        ext: Vec::new(),
    })))
}

pub(crate) fn impossible_status(_call: &Call) -> Ending {
    raw(99, "text/plain")
}

pub(crate) fn split_header(_call: &Call) -> Ending {
    raw(200, "text/plain\r\nSet-Cookie: stolen=1")
}

pub(crate) fn unmarked_secret(_call: &Call) -> Ending {
    Ok(of(secret(None)))
}

pub(crate) fn unknown_tag(_call: &Call) -> Ending {
    Ok(of(secret(Some("never reserved"))))
}
