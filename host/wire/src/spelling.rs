//! Suggestions for a misspelt word of a policy or configuration.

/// Returns the end of a message about a word not in `candidates`: `; did you mean "capabilities"?`,
/// or the whole list if no known word is similar.
#[must_use]
pub fn hint(word: &str, candidates: &[&str]) -> String {
    let near = candidates.iter().map(|candidate| (distance(word, candidate), candidate)).min();
    match near {
        Some((distance, candidate)) if distance <= 3 && distance < candidate.len() => {
            format!("; did you mean {candidate:?}?")
        }
        _ => format!("; known are {}", candidates.join(", ")),
    }
}

/// Returns the number of characters to add, remove or replace, ignoring case. Long words are not
/// compared: they are not misspellings, and the time grows with the length.
fn distance(word: &str, candidate: &str) -> usize {
    if word.len() > 64 {
        return usize::MAX;
    }
    let candidate: Vec<char> = candidate.chars().collect();
    let mut row: Vec<usize> = (0..=candidate.len()).collect();
    for (number, letter) in word.to_lowercase().chars().enumerate() {
        let mut left = number + 1;
        let mut next = vec![left];
        for (pair, other) in row.windows(2).zip(&candidate) {
            let [diagonal, above] = pair else { continue };
            left = (left + 1).min(above + 1).min(diagonal + usize::from(letter != *other));
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["capabilities", "policy", "comment"];

    #[test]
    fn a_near_word_is_offered() {
        assert_eq!(hint("capabilites", KNOWN), "; did you mean \"capabilities\"?");
        assert_eq!(hint("Policy", KNOWN), "; did you mean \"policy\"?");
    }

    #[test]
    fn far_and_overlong_words_get_the_list() {
        let long = "capabilities".repeat(10_000);
        for word in ["x", "unrelated_key", "", long.as_str()] {
            assert_eq!(
                hint(word, KNOWN),
                "; known are capabilities, policy, comment",
                "{}",
                word.len()
            );
        }
    }

    #[test]
    fn the_distance_counts_single_changes() {
        assert_eq!(distance("read", "read"), 0);
        assert_eq!(distance("raed", "read"), 2);
        assert_eq!(distance("red", "read"), 1);
        assert_eq!(distance("", "read"), 4);
        assert_eq!(distance("reader", "read"), 2);
    }
}
