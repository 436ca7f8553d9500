//! Escaping of the server's texts for a terminal.
//!
//! This file prevents a role name or an error from carrying escape sequences that repaint the
//! operator's screen, change the window title, or reorder the displayed text.

/// Escapes every control and direction character. The result is a single line.
#[must_use]
pub(crate) fn escape_controls(text: &str) -> String {
    escape(text, |_| false)
}

/// Escapes as [`escape_controls`] does, but keeps line breaks and tabs.
#[must_use]
pub(crate) fn visible_lines(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes in rendered JSON the control characters that JSON allows unescaped. Such characters
/// occur only inside strings, where `\u` has the same meaning.
#[must_use]
pub(crate) fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && is_control(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if keep(c) || !is_control(c) => shown.push(c),
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            c => shown.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    shown
}

/// Returns whether `c` is a control character or changes the writing direction. All such characters
/// are below U+10000.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_of_any_language_stays() {
        for text in ["readonly", "päßwörd – 密碼 🔑", "a\\b"] {
            assert_eq!(escape_controls(text), text);
        }
    }

    #[test]
    fn escape_sequences_and_direction_marks_become_visible() {
        assert_eq!(escape_controls("\u{1b}[2J\u{9b}1m\u{7f}"), "\\u{1b}[2J\\u{9b}1m\\u{7f}");
        assert_eq!(escape_controls("a\u{202e}b\r\n\tc"), "a\\u{202e}b\\r\\n\\tc");
        assert_eq!(visible_lines("a\n\tb\u{1b}"), "a\n\tb\\u{1b}");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({"a": "x\u{9b}y\u{202e}\u{7f}\u{1b}"});
        let shown = visible_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!shown.chars().any(|c| c != '\n' && is_control(c)), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
