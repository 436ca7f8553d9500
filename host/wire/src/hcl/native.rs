//! Recursive-descent parser for HCL1 as used by policies. `check_depth` limits the recursion.

use super::cursor::HclCursor;
use super::{HclBody, HclItem, HclValue, SyntaxError, check_depth, count_node};

/// Parses a whole HCL1 text.
pub(super) fn parse(text: &str) -> Result<HclBody, SyntaxError> {
    let mut reader = HclReader { at: HclCursor::new(text), nodes: 0 };
    let mut items = Vec::new();
    loop {
        reader.at.skip_blank()?;
        if reader.at.peek().is_none() {
            return Ok(HclBody { items });
        }
        items.push(reader.item(0)?);
    }
}

struct HclReader<'a> {
    at: HclCursor<'a>,
    nodes: usize,
}

impl HclReader<'_> {
    /// Parses an item, and a comma after the item if there is one. `depth` is the depth of the
    /// surrounding body.
    fn item(&mut self, depth: usize) -> Result<HclItem, SyntaxError> {
        let line = self.at.place().line;
        let key = self.key()?;
        let (mut labels, mut element_lines) = (Vec::new(), Vec::new());
        let value = loop {
            self.at.skip_blank()?;
            match self.at.peek() {
                Some('{') => break self.block(depth + 1)?,
                Some('=') if labels.is_empty() => {
                    self.at.bump();
                    self.at.skip_blank()?;
                    break self.value(depth, &mut element_lines)?;
                }
                Some('=') => {
                    return Err(self.at.error(format!(
                        "{} has a label; write `{{` instead of `=`",
                        escape_excerpt(&key)
                    )));
                }
                Some('"' | '_') => labels.push(self.key()?),
                Some(c) if c.is_alphabetic() => labels.push(self.key()?),
                _ => {
                    return Err(self.at.error(format!(
                        "{} has no value; write `= value` or `{{ … }}` after it",
                        escape_excerpt(&key)
                    )));
                }
            }
        };
        self.at.skip_blank()?;
        self.at.take(",");
        Ok(HclItem { key, labels, value, line, element_lines })
    }

    /// Parses a key or label, with or without quotes.
    fn key(&mut self) -> Result<String, SyntaxError> {
        self.count()?;
        match self.at.peek() {
            Some('"') => self.text(),
            Some(c) if c.is_alphabetic() || c == '_' => Ok(self.at.word(is_key_char).to_owned()),
            Some('}') => Err(self.at.error("this `}` closes nothing; remove the brace")),
            Some(c) => Err(self.at.error(format!(
                "{} cannot begin a key; keys are words or quoted text",
                escape_excerpt(c.encode_utf8(&mut [0; 4]))
            ))),
            None => Err(self.at.error("the text ends where a key is expected")),
        }
    }

    /// Parses a value. For a list, adds the line of each element to `element_lines`.
    fn value(
        &mut self,
        depth: usize,
        element_lines: &mut Vec<usize>,
    ) -> Result<HclValue, SyntaxError> {
        self.count()?;
        match self.at.peek() {
            Some('"') => Ok(HclValue::Text(self.text()?)),
            Some('{') => self.block(depth + 1),
            Some('[') => self.list(depth + 1, element_lines),
            Some('<') => Ok(HclValue::Text(self.heredoc()?)),
            Some(c) if c == '-' || c.is_ascii_digit() => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.flag(),
            Some(c) => Err(self.at.error(format!(
                "{} cannot begin a value; put text in double quotes",
                escape_excerpt(c.encode_utf8(&mut [0; 4]))
            ))),
            None => Err(self.at.error("the text ends where a value is expected")),
        }
    }

    fn block(&mut self, depth: usize) -> Result<HclValue, SyntaxError> {
        check_depth(depth).map_err(|why| self.at.error(why))?;
        let opened = self.at.place();
        self.at.bump();
        let mut items = Vec::new();
        loop {
            self.at.skip_blank()?;
            if self.at.take("}") {
                return Ok(HclValue::Block(HclBody { items }));
            }
            if self.at.peek().is_none() {
                return Err(opened.error("the block opened here is not closed; add `}`"));
            }
            items.push(self.item(depth)?);
        }
    }

    fn list(
        &mut self,
        depth: usize,
        element_lines: &mut Vec<usize>,
    ) -> Result<HclValue, SyntaxError> {
        check_depth(depth).map_err(|why| self.at.error(why))?;
        let opened = self.at.place();
        self.at.bump();
        let mut elements = Vec::new();
        loop {
            self.at.skip_blank()?;
            if self.at.take("]") {
                return Ok(HclValue::List(elements));
            }
            if self.at.peek().is_none() {
                return Err(opened.error("the list opened here is not closed; add `]`"));
            }
            element_lines.push(self.at.place().line);
            elements.push(self.value(depth, &mut Vec::new())?);
            self.at.skip_blank()?;
            if !self.at.take(",") && self.at.peek().is_some_and(|c| c != ']') {
                return Err(self
                    .at
                    .error("elements of a list are separated by commas; add one here"));
            }
        }
    }

    fn flag(&mut self) -> Result<HclValue, SyntaxError> {
        let here = self.at.place();
        match self.at.word(is_key_char) {
            "true" => Ok(HclValue::Bool(true)),
            "false" => Ok(HclValue::Bool(false)),
            word => Err(here.error(format!(
                "{} is not a value; put text in double quotes",
                escape_excerpt(word)
            ))),
        }
    }

    fn number(&mut self) -> Result<HclValue, SyntaxError> {
        let here = self.at.place();
        let digits =
            self.at.word(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_'));
        // JSON's grammar on purpose: some readers take a leading zero for octal, others for
        // decimal.
        serde_json::from_str(digits).map(HclValue::Number).map_err(|_| {
            here.error(format!(
                "{} is not a number; write it like 20, -3 or 1.5, or put it in double quotes",
                escape_excerpt(digits)
            ))
        })
    }

    /// Parses text in double quotes, on a single line.
    fn text(&mut self) -> Result<String, SyntaxError> {
        let opened = self.at.place();
        self.at.bump();
        let mut text = String::new();
        loop {
            match self.at.bump() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                None | Some('\n') => {
                    return Err(opened
                        .error("the text opened here is not closed on the same line; add `\"`"));
                }
                Some(c) => text.push(c),
            }
        }
    }

    /// Parses the rest of an escape sequence, after the backslash.
    fn escape(&mut self) -> Result<char, SyntaxError> {
        let here = self.at.place();
        let read = match self.at.bump() {
            Some(c @ ('"' | '\\')) => Some(c),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('u') => self.code_point(4),
            Some('U') => self.code_point(8),
            _ => None,
        };
        read.ok_or_else(|| {
            here.error("behind `\\` one of these is read: \\ \" n r t uXXXX UXXXXXXXX")
        })
    }

    fn code_point(&mut self, digits: usize) -> Option<char> {
        let mut code = 0_u32;
        for _ in 0..digits {
            code = code.checked_mul(16)?.checked_add(self.at.bump()?.to_digit(16)?)?;
        }
        char::from_u32(code)
    }

    /// Parses `<<MARK` and the lines up to a line with only the mark. `<<-MARK` removes the closing
    /// mark's indentation from every line, if every line has that indentation.
    fn heredoc(&mut self) -> Result<String, SyntaxError> {
        let opened = self.at.place();
        let begins = self.at.take("<<");
        let indented = self.at.take("-");
        let mark = self.at.word(is_key_char);
        let tail = self.at.rest_of_line().unwrap_or_default();
        if !begins || mark.is_empty() || !tail.trim_end_matches('\r').is_empty() {
            return Err(opened.error("a heredoc begins with `<<MARK` at the end of a line"));
        }
        let mut lines = Vec::new();
        loop {
            let Some(line) = self.at.rest_of_line() else {
                return Err(opened
                    .error("the heredoc opened here is not closed by a line with only the mark"));
            };
            if line.trim() == mark {
                let margin = line.strip_suffix(line.trim_start()).unwrap_or_default();
                return Ok(join_lines(&lines, if indented { margin } else { "" }));
            }
            lines.push(line);
        }
    }

    fn count(&mut self) -> Result<(), SyntaxError> {
        count_node(&mut self.nodes).map_err(|why| self.at.error(why))
    }
}

/// Joins the lines, each with its newline, without `margin` if all lines begin with `margin`.
fn join_lines(lines: &[&str], margin: &str) -> String {
    let margin = if lines.iter().all(|line| line.starts_with(margin)) { margin } else { "" };
    let mut text = String::new();
    for line in lines {
        text.push_str(line.strip_prefix(margin).unwrap_or(line));
        text.push('\n');
    }
    text
}

fn is_key_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Returns a piece of the text for a message: invisible characters escaped, cut after 64
/// characters.
fn escape_excerpt(text: &str) -> String {
    let start: String = text.chars().take(64).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("`{}{more}`", start.escape_debug())
}
