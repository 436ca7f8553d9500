//! Patterns with `*`, for policies, allowed roles and parameter rules.
//!
//! The attack this file prevents: a pattern such as `*a*a*a*b` that keeps a matcher busy. Every
//! text is scanned once.

/// Returns whether the whole `text` matches `pattern`. Each `*` stands for any number of
/// characters, including none. Case matters. The time is linear in both lengths.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(head).and_then(|after| after.strip_suffix(tail)) else {
        return false;
    };
    // The leftmost match of each piece leaves most room for the next piece, so no backtracking is
    // needed.
    let mut left = text;
    for piece in middle.split('*') {
        let Some((_, after)) = left.split_once(piece) else {
            return false;
        };
        left = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slow and obvious reference implementation.
    fn matches_reference(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => {
                (0..=text.len()).any(|start| matches_reference(rest, &text[start..]))
            }
            Some((byte, rest)) => text.first() == Some(byte) && matches_reference(rest, &text[1..]),
        }
    }

    fn words(letters: &[char], longest: usize) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut start = 0;
        for _ in 0..longest {
            let end = words.len();
            for place in start..end {
                let word = words[place].clone();
                words.extend(letters.iter().map(|letter| format!("{word}{letter}")));
            }
            start = end;
        }
        words
    }

    #[test]
    fn every_short_pattern_agrees_with_the_definition() {
        let texts = words(&['a', 'b'], 5);
        for pattern in words(&['a', 'b', '*'], 5) {
            for text in &texts {
                let expected = matches_reference(pattern.as_bytes(), text.as_bytes());
                assert_eq!(matches(&pattern, text), expected, "{pattern} on {text}");
            }
        }
    }

    #[test]
    fn head_and_tail_do_not_share_a_character() {
        assert!(!matches("aba*aba", "ababa"));
        assert!(matches("aba*aba", "abaaba"));
    }

    #[test]
    fn case_matters_and_characters_stay_whole() {
        assert!(!matches("Read*", "readonly"));
        assert!(matches("*ü*", "für"));
        assert!(matches("é*é", "éé"));
        assert!(!matches("a?c", "abc"));
    }

    #[test]
    fn a_hostile_pattern_ends_at_once() {
        let text = "a".repeat(100_000);
        assert!(!matches(&format!("{}b", "*a".repeat(20_000)), &text));
        assert!(!matches(&format!("{}b*", "*a".repeat(20_000)), &text));
        assert!(!matches(&format!("*{}b{}*", "a".repeat(20_000), "a".repeat(20_000)), &text));
        assert!(matches(&"*".repeat(100_000), &text));
    }
}
