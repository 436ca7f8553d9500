//! Sizes as people write them, parsed to bytes.
//!
//! Only powers of two have units here: `MB`, which can mean 1,000,000 or 1,048,576 bytes, is
//! refused.

use crate::failure::quoted;

/// The accepted forms, as the end of a message.
const FORMS: &str =
    r#"a size: give whole bytes, such as 65536, or a text such as "512KiB", "32MiB" or "1GiB""#;

/// The units, the largest first.
const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// Parses `text` to bytes: digits alone, or digits and a unit of `B KiB MiB GiB`.
pub fn parse(text: &str) -> Result<u64, String> {
    read(text.trim()).ok_or_else(|| format!("{} is not {FORMS}", quoted(text)))
}

/// Formats `bytes` for people, in the largest unit without remainder: `32MiB`, `1000B`. [`parse`]
/// accepts the result.
#[must_use]
pub fn show(bytes: u64) -> String {
    let is_multiple = |shift: &u32| bytes > 0 && bytes.trailing_zeros() >= *shift;
    match UNITS.iter().find(|(_, shift)| is_multiple(shift)) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes}B"),
    }
}

fn read(text: &str) -> Option<u64> {
    let (digits, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" | "B" => 0,
        named => UNITS.iter().find(|(unit, _)| *unit == named)?.1,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_one_unit_are_bytes() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65_536),
            ("17B", 17),
            ("512KiB", 524_288),
            (" 32MiB ", 33_554_432),
            ("1GiB", 1_073_741_824),
            ("17179869183GiB", u64::MAX - 0x3fff_ffff),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_size_refusal_shows_value_and_accepted_forms() {
        let long = "9".repeat(60);
        let hostile = [
            "", "MiB", "-1", "+1", "1.5MiB", "32MB", "32mib", "32M", "1 MiB", "1MiB1KiB", "٣KiB",
            "0x10",
        ];
        for text in
            hostile.into_iter().chain(["18446744073709551616", "17179869184GiB", long.as_str()])
        {
            let why = parse(text).unwrap_err();
            assert!(why.starts_with(&quoted(text)) && why.contains("32MiB"), "{why}");
        }
    }

    #[test]
    fn shown_values_are_read_back() {
        for (bytes, text) in
            [(0, "0B"), (1000, "1000B"), (1024, "1KiB"), (33_554_432, "32MiB"), (3 << 30, "3GiB")]
        {
            assert_eq!(show(bytes), text);
            assert_eq!(parse(text), Ok(bytes));
        }
        assert_eq!(parse(&show(u64::MAX)), Ok(u64::MAX));
    }
}
