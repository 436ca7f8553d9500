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

/// Returns how SQL, URLs, JSON, `{:?}`, base64, hexadecimal and lists of bytes spell the value,
/// where the spelling is not the value itself.
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
    // `{:?}` of bytes, as in the panic of `Result::unwrap` on an error that holds the bytes.
    add(byte_list(value));
    spelled
}

/// Returns the bytes of the value as decimal numbers: `115, 51, 99`.
fn byte_list(value: &str) -> String {
    value.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ")
}

/// A text without blanks, line ends, commas and the prefix `0x`: the characters that separate the
/// numbers of a list, and the places where a line is broken.
pub(super) struct DenseText {
    pub(super) letters: Vec<char>,
    /// The position in the original text of each letter.
    pub(super) positions: Vec<usize>,
}

impl DenseText {
    /// Leaves the separators of `text` out.
    pub(super) fn of(text: &[char]) -> Self {
        let starts_prefix = |at: usize| {
            let is_number = |letter: &char| letter.is_ascii_hexdigit();
            let is_first = at.checked_sub(1).and_then(|at| text.get(at));
            text.get(at..at.saturating_add(2)) == Some(&['0', 'x'])
                && !is_first.is_some_and(|letter| letter.is_alphanumeric())
                && text.get(at.saturating_add(2)).is_some_and(is_number)
        };
        let is_kept = |(at, letter): &(usize, &char)| {
            let is_prefix = starts_prefix(*at) || at.checked_sub(1).is_some_and(starts_prefix);
            !letter.is_whitespace() && **letter != ',' && !is_prefix
        };
        let dense = text.iter().enumerate().filter(is_kept);
        let (positions, letters) = dense.map(|(at, letter)| (at, *letter)).unzip();
        Self { letters, positions }
    }
}

fn within_quotes(text: &str) -> String {
    let text = text.strip_prefix('"').unwrap_or(text);
    text.strip_suffix('"').unwrap_or(text).to_owned()
}
