//! Rust sources with parts blanked out, so that a rule sees only code, only comments, or only the
//! product without tests. Line numbers do not change.
//!
//! The reader knows where comments and literals begin and end, and no more of the language.

use std::iter;
use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Literal,
    Comment,
}

/// Returns the text with comments and literals blanked.
pub fn code(text: &str) -> String {
    keep(text, Part::Code)
}

/// Returns the text with everything but comments blanked.
pub fn comments(text: &str) -> String {
    keep(text, Part::Comment)
}

/// Returns the contents of the text literals, with escaped line ends as one blank.
pub fn literals(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let found = pieces(&chars).filter(|(part, _)| *part == Part::Literal);
    let found = found.map(|(_, range)| chars[range].iter().collect::<String>());
    found.filter(|literal| literal.contains('"')).map(|literal| content(&literal)).collect()
}

/// Returns the text between the quotes of a literal.
fn content(literal: &str) -> String {
    let inner = literal.split_once('"').map_or("", |(_, rest)| rest);
    let inner = inner.rsplit_once('"').map_or(inner, |(inner, _)| inner);
    let joined = inner.replace("\\\n", " ").replace("\\n", " ").replace("\\\"", "\"");
    joined.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn keep(text: &str, visible: Part) -> String {
    let chars: Vec<char> = text.chars().collect();
    let parts = parts(&chars);
    let shown = |(c, part): (&char, &Part)| if *c == '\n' || *part == visible { *c } else { ' ' };
    chars.iter().zip(&parts).map(shown).collect()
}

fn parts(chars: &[char]) -> Vec<Part> {
    let mut parts = vec![Part::Code; chars.len()];
    for (part, range) in pieces(chars) {
        parts[range].fill(part);
    }
    parts
}

/// Returns the pieces of the text in order, with their positions.
fn pieces(chars: &[char]) -> impl Iterator<Item = (Part, Range<usize>)> {
    let mut at = 0;
    iter::from_fn(move || {
        let start = at;
        let (part, end) = (start < chars.len()).then(|| piece(chars, start))?;
        at = end;
        Some((part, start..end))
    })
}

/// Returns the kind of the piece that begins at `at`, and the end of the piece.
fn piece(chars: &[char], at: usize) -> (Part, usize) {
    let starts = |with: &str| with.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    let continues_word = at > 0 && is_word(&chars[at - 1]);
    if starts("//") {
        let length = chars[at..].iter().position(|c| *c == '\n');
        return (Part::Comment, length.map_or(chars.len(), |length| at + length));
    }
    if starts("/*") {
        return (Part::Comment, block_end(chars, at));
    }
    if !continues_word && let Some(end) = raw_end(chars, at) {
        return (Part::Literal, end);
    }
    match chars[at] {
        '"' => (Part::Literal, quoted_end(chars, at, '"')),
        // A character literal; any other quote begins a lifetime or a label.
        '\'' if chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\'') => {
            (Part::Literal, quoted_end(chars, at, '\''))
        }
        _ => (Part::Code, at + 1),
    }
}

/// Returns the position after a block comment, which may be nested.
fn block_end(chars: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

/// Returns the position after a raw text such as `r#"…"#` that begins at `start`.
fn raw_end(chars: &[char], start: usize) -> Option<usize> {
    let prefix = chars[start..].iter().take(2).take_while(|c| ['b', 'c', 'r'].contains(c)).count();
    if prefix == 0 || chars[start + prefix - 1] != 'r' {
        return None;
    }
    let hashes = chars[start + prefix..].iter().take_while(|c| **c == '#').count();
    let open = start + prefix + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let mut close = vec!['"'];
    close.resize(hashes + 1, '#');
    let found = chars[open + 1..].windows(close.len()).position(|window| window == close);
    Some(found.map_or(chars.len(), |found| open + 1 + found + close.len()))
}

fn quoted_end(chars: &[char], start: usize, quote: char) -> usize {
    let mut at = start + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    chars.len().min(at + 1)
}

/// Returns `text` with items blanked that are built only for tests. `code` is [`code`] of `text`,
/// without the brackets of comments and literals.
pub fn without_tests(text: &str, code: &str) -> String {
    let code: Vec<char> = code.chars().collect();
    let mut shown: Vec<char> = text.chars().collect();
    let mut at = 0;
    while let Some(start) = attribute(&code, at, &["cfg(test)", "cfg(all(test"]) {
        at = item_end(&code, start);
        for c in shown[start..at].iter_mut().filter(|c| **c != '\n') {
            *c = ' ';
        }
    }
    shown.into_iter().collect()
}

/// Returns the position of the next attribute that begins with one of `names`.
fn attribute(code: &[char], from: usize, names: &[&str]) -> Option<usize> {
    let begins = |start: usize, name: &str| {
        let written = format!("#[{name}");
        written.chars().enumerate().all(|(i, c)| code.get(start + i) == Some(&c))
    };
    (from..code.len()).find(|start| names.iter().any(|name| begins(*start, name)))
}

/// Returns the position after the item of the attribute at `start`: after `;` or the closing
/// bracket.
fn item_end(code: &[char], start: usize) -> usize {
    let mut depth = 0_i32;
    for (at, c) in code.iter().enumerate().skip(start) {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 && ['}', ';'].contains(c) {
            return at + 1;
        }
    }
    code.len()
}

#[cfg(test)]
mod of_the_reader_itself {
    use super::{code, comments, literals, without_tests};

    fn squeezed(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn code_comments_and_literals_are_separated() {
        let text = concat!(
            "let a = \"// no comment \\\" {\"; // one \" quote\n",
            "let b = r#\"/* \"raw\" */\"#; /* two /* nested */ still */ let c = '\"';\n",
            "fn d<'a>(x: &'a str) -> char { '{' } // 'three'\n",
            "let var = br\"}\"; let four = '\\'';"
        );
        assert_eq!(
            squeezed(&code(text)),
            "let a = ; let b = ; let c = ; fn d<'a>(x: &'a str) -> char { } \
             let var = ; let four = ;"
        );
        let found = squeezed(&comments(text));
        assert_eq!(found, "// one \" quote /* two /* nested */ still */ // 'three'");
        assert_eq!(code(text).lines().count(), text.lines().count());
    }

    #[test]
    fn literals_are_read_without_their_line_ends() {
        let text =
            "let a = \"one \\\n   two\\n\"; // \"three\"\nlet b = r#\"fo\"ur\"#; let c = 'c';";
        assert_eq!(literals(text), ["one two", "fo\"ur"]);
    }

    #[test]
    fn items_for_tests_are_blanked() {
        let text = "use a;\n#[cfg(test)]\nuse b;\n#[cfg(test)]\n#[allow(x)]\nmod t {\n \
                    const C: &str = \"}\";\n}\n#[cfg(all(test, unix))]\nmod u;\nuse c;\n";
        assert_eq!(squeezed(&without_tests(text, &code(text))), "use a; use c;");
    }
}
