//! Removal of repeated values from a list that a client sent.
//!
//! This file prevents a long list from taking time quadratic in its length: a comparison of all
//! pairs of 100,000 names computes for more than a minute.

use std::collections::BTreeSet;

/// Returns the first of each group of equal values, in the given order. Takes n log n comparisons.
#[must_use]
pub fn first_of_each<T: Ord + Clone>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    values.into_iter().filter(|value| seen.insert(value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::first_of_each;
    use std::cell::Cell;
    use std::cmp::Ordering;

    /// A number that counts the comparisons with other numbers.
    #[derive(Clone)]
    struct CountedNumber<'a>(usize, &'a Cell<usize>);

    impl Ord for CountedNumber<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for CountedNumber<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for CountedNumber<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other) == Ordering::Equal
        }
    }

    impl Eq for CountedNumber<'_> {}

    #[test]
    fn repeated_values_are_removed_in_order() {
        assert_eq!(first_of_each(["b", "a", "b", "c", "a"]), ["b", "a", "c"]);
    }

    #[test]
    fn distinct_values_are_compared_few_times() {
        let (count, comparisons) = (100_000, Cell::new(0));
        let values = (0..count).map(|number| CountedNumber(number * 7 % count, &comparisons));
        assert_eq!(first_of_each(values).len(), count);
        assert!(comparisons.get() < 100 * count, "{} comparisons", comparisons.get());
    }
}
