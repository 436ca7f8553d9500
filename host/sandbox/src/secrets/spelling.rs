//! Spells a value as messages, URLs, statements and headers do.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bulkhead_wire::hexadecimal;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use zeroize::Zeroizing;

/// Characters that URLs escape.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Bytes that base64 encodes together.
const GROUP: usize = 3;

/// Returns how SQL, URLs, JSON, `{:?}`, base64 and hexadecimal spell the value, where the spelling
/// is not the value itself.
pub(super) fn others(value: &str) -> Vec<Zeroizing<String>> {
    let mut spelled: Vec<Zeroizing<String>> = Vec::new();
    let mut add = |spelling: String| {
        let spelling = Zeroizing::new(spelling);
        if spelling.as_str() != value && !spelled.contains(&spelling) {
            spelled.push(spelling);
        }
    };
    add(value.replace('\'', "''"));
    add(utf8_percent_encode(value, ESCAPED).to_string());
    add(within_quotes(&format!("{value:?}")));
    add(serde_json::to_string(value).map_or_else(|_| String::new(), |text| within_quotes(&text)));
    // A value begins at one of three places of a group. Letters that depend on other text are left
    // out.
    for skipped in 0..GROUP {
        let bytes = value.as_bytes().get(skipped..).unwrap_or_default();
        let groups = bytes.get(..bytes.len() / GROUP * GROUP).unwrap_or_default();
        add(STANDARD_NO_PAD.encode(groups));
        add(URL_SAFE_NO_PAD.encode(groups));
    }
    add(hexadecimal::text(value.as_bytes()));
    spelled
}

fn within_quotes(text: &str) -> String {
    let text = text.strip_prefix('"').unwrap_or(text);
    text.strip_suffix('"').unwrap_or(text).to_owned()
}
