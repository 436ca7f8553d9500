//! A count or a time, as a cell of the page and as the text of a constant.

use std::fmt;

/// The value of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A number of things: bytes, rows, characters.
    Count(u128),
    /// A time in milliseconds.
    Milliseconds(u128),
}

/// Units of a cell of the page, with the value of each.
const UNITS: [(&str, Quantity); 11] = [
    ("", Quantity::Count(1)),
    ("bytes", Quantity::Count(1)),
    ("characters", Quantity::Count(1)),
    ("KiB", Quantity::Count(1 << 10)),
    ("MiB", Quantity::Count(1 << 20)),
    ("GiB", Quantity::Count(1 << 30)),
    ("ms", Quantity::Milliseconds(1)),
    ("s", Quantity::Milliseconds(1_000)),
    ("min", Quantity::Milliseconds(60_000)),
    ("h", Quantity::Milliseconds(3_600_000)),
    ("days", Quantity::Milliseconds(86_400_000)),
];

impl Quantity {
    /// Parses a cell of the page, such as `4,096`, `64 KiB` or `30 s`.
    pub fn of_cell(cell: &str) -> Option<Self> {
        let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
        let number: u128 = number.replace(',', "").parse().ok()?;
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
        Some(match unit {
            Self::Count(each) => Self::Count(number * each),
            Self::Milliseconds(each) => Self::Milliseconds(number * each),
        })
    }

    /// Parses the text of a constant's value, such as `64 << 10` or `Duration::from_secs(30)`.
    /// `None` for every other expression.
    pub fn of_expression(text: &str) -> Option<Self> {
        let text = text.trim();
        let Some(call) = text.trim_start_matches("std::time::").strip_prefix("Duration::from_")
        else {
            return number(text).map(Self::Count);
        };
        let (unit, argument) = call.strip_suffix(')')?.split_once('(')?;
        let each = match unit {
            "millis" => 1,
            "secs" => 1_000,
            "mins" => 60_000,
            "hours" => 3_600_000,
            _ => return None,
        };
        number(argument).map(|number| Self::Milliseconds(number * each))
    }

    /// Returns `true` if this quantity of the page is the value of the constant `name`. A time in a
    /// constant of an integer type is in milliseconds or seconds.
    pub fn is_value_of(self, name: &str, value: Self) -> bool {
        match (self, value) {
            (Self::Count(shown), Self::Count(kib)) if name.ends_with("_KIB") => shown == kib << 10,
            (Self::Milliseconds(shown), Self::Count(ms)) if name.ends_with("_MS") => shown == ms,
            (Self::Milliseconds(shown), Self::Count(number)) => {
                shown == number || shown == number * 1_000
            }
            (shown, value) => shown == value,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(number) => write!(f, "{number}"),
            Self::Milliseconds(number) => write!(f, "{number} ms"),
        }
    }
}

/// Evaluates a product of integers, or such a product shifted to the left.
fn number(text: &str) -> Option<u128> {
    if let Some((left, right)) = text.split_once("<<") {
        return number(left)?.checked_shl(number(right)?.try_into().ok()?);
    }
    text.split('*').map(|factor| factor.trim().replace('_', "").parse::<u128>().ok()).product()
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    #[test]
    fn expressions_of_constants_are_evaluated() {
        let value = Quantity::of_expression;
        assert_eq!(value("64 * 1024"), Some(Quantity::Count(65_536)));
        assert_eq!(value("1 << 20"), Some(Quantity::Count(1_048_576)));
        assert_eq!(value("24 * 3_600_000"), Some(Quantity::Count(86_400_000)));
        assert_eq!(value("Duration::from_secs(30)"), Some(Quantity::Milliseconds(30_000)));
        assert_eq!(value("Duration::from_mins(1)"), Some(Quantity::Milliseconds(60_000)));
        assert_eq!(value("OTHER + 1"), None);
        assert_eq!(value("bounds::HEADERS"), None);
    }

    #[test]
    fn cells_of_the_page_are_numbers_with_units() {
        assert_eq!(Quantity::of_cell("1,024"), Some(Quantity::Count(1_024)));
        assert_eq!(Quantity::of_cell("2 GiB"), Some(Quantity::Count(2 << 30)));
        assert_eq!(Quantity::of_cell("10 min"), Some(Quantity::Milliseconds(600_000)));
        assert_eq!(Quantity::of_cell("10 apples"), None);
        assert_eq!(Quantity::of_cell("none"), None);
    }
}
