//! The known name that is nearest to a mistyped name.

/// Returns the nearest of `candidates` if it is near enough to be a typing mistake: about one wrong
/// letter in three. Neighbouring letters in the wrong order are one mistake.
#[must_use]
pub fn find_nearest<'a>(typed: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> = typed.chars().collect();
    let most = (typed.len() / 3).max(1);
    let measured =
        candidates.map(|name| (edit_distance(&typed, &name.chars().collect::<Vec<_>>()), name));
    let (found, name) = measured.min_by_key(|(distance, _)| *distance)?;
    (found <= most).then_some(name)
}

/// Counts the letters to insert, remove, replace or swap between the two texts.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(INFINITE_DISTANCE);
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, of_a) in a.iter().enumerate() {
        let (mut next, mut left) = (vec![row + 1], row + 1);
        for (column, of_b) in b.iter().enumerate() {
            let replaced = at(&last, column) + usize::from(of_a != of_b);
            left = replaced.min(at(&last, column + 1) + 1).min(left + 1);
            let swapped = row
                .checked_sub(1)
                .zip(column.checked_sub(1))
                .filter(|(row, column)| b.get(*column) == Some(of_a) && a.get(*row) == Some(of_b));
            if let Some((_, column)) = swapped {
                left = left.min(at(&before, column) + 1);
            }
            next.push(left);
        }
        before = std::mem::replace(&mut last, next);
    }
    at(&last, b.len())
}

/// A distance that no two names have.
const INFINITE_DISTANCE: usize = usize::MAX / 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mistake_in_three_letters_is_near() {
        let names = ["read", "write", "secrets list", "kv get"];
        let near = |typed| find_nearest(typed, names.into_iter());
        assert_eq!(near("raed"), Some("read"), "two letters changed places");
        assert_eq!(near("rea"), Some("read"));
        assert_eq!(near("wriite"), Some("write"));
        assert_eq!(near("secret list"), Some("secrets list"));
        assert_eq!(near("kv gte"), Some("kv get"));
        assert_eq!(near("frobnicate"), None);
        assert_eq!(near(""), None);
        assert_eq!(find_nearest("read", std::iter::empty()), None);
    }

    #[test]
    fn distances_are_the_known_ones() {
        let of = |a: &str, b: &str| {
            edit_distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
        };
        assert_eq!((of("", ""), of("", "abc"), of("abc", "")), (0, 3, 3));
        assert_eq!((of("kitten", "sitting"), of("ab", "ba"), of("é", "e")), (3, 1, 1));
    }
}
