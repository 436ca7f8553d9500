//! Reader of the tables and the quoted words in documents.

/// Returns the words in back quotes.
pub fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns the cells of a row.
pub fn cells(row: &str) -> Vec<&str> {
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').unwrap_or(row);
    row.split(" | ").map(str::trim).collect()
}

/// Returns the rows of the table below the line that begins with `heading`.
pub fn rows_below<'a>(document: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let lines = document.lines().skip_while(|line| !line.starts_with(heading));
    lines.skip(2).take_while(|line| line.starts_with('|')).map(cells).collect()
}

#[cfg(test)]
mod of_the_reader_itself {
    use super::*;

    #[test]
    fn tables_end_at_the_first_other_line() {
        let document =
            "| z |\n|---|\n| 0 |\n\n| a | b |\n|---|---|\n| 1 |  |\n| `x|y` | 2 |\n\n| 3 |";
        assert_eq!(rows_below(document, "| a |"), [["1", ""], ["`x|y`", "2"]]);
        assert_eq!(rows_below(document, "| b |"), Vec::<Vec<&str>>::new());
    }

    #[test]
    fn quoted_words_are_found() {
        assert_eq!(quoted("`a` and `b c`"), ["a", "b c"]);
    }
}
