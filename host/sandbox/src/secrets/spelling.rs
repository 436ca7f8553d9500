//! The spellings in which a value is found again in messages, URLs, statements and headers.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bulkhead_wire::hexadecimal;
use zeroize::Zeroizing;

/// Bytes of which base64 makes four letters at once.
const GROUP: usize = 3;

/// The value as it is, and as SQL, URLs, JSON, `{:?}`, base64 and hexadecimal write it, each once.
pub(super) fn of(value: &str) -> Vec<Zeroizing<String>> {
    let mut spelled: Vec<Zeroizing<String>> = vec![value.to_owned().into()];
    let mut add = |spelling: String| {
        let spelling = Zeroizing::new(spelling);
        if !spelled.contains(&spelling) {
            spelled.push(spelling);
        }
    };
    if value.contains('\'') {
        add(value.replace('\'', "''"));
    }
    if value.bytes().any(|byte| !is_plain_in_urls(byte)) {
        add(escape_for_urls(value));
        add(within_quotes(&format!("{value:?}")));
        add(serde_json::to_string(value)
            .map_or_else(|_| String::new(), |text| within_quotes(&text)));
    }
    // Three places of the value among the groups; what depends on its neighbours is left out.
    for skipped in 0..GROUP {
        let bytes = value.as_bytes().get(skipped..).unwrap_or_default();
        let whole = bytes.get(..bytes.len() / GROUP * GROUP).unwrap_or_default();
        add(STANDARD_NO_PAD.encode(whole));
        add(URL_SAFE_NO_PAD.encode(whole));
    }
    add(hexadecimal::text(value.as_bytes()));
    spelled
}

fn within_quotes(text: &str) -> String {
    let text = text.strip_prefix('"').unwrap_or(text);
    text.strip_suffix('"').unwrap_or(text).to_owned()
}

/// Bytes that are never escaped in a URL.
fn is_plain_in_urls(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn escape_for_urls(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len() * 3);
    for byte in value.bytes() {
        if is_plain_in_urls(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
