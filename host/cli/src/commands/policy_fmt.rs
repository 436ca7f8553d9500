//! `bulkhead policy fmt`: indents the text of a policy, without a server.
//!
//! This file prevents a changed meaning: only white space at the start and end of lines, and around
//! a first equals sign, changes.

use crate::command::Command;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::terminal::visible_lines;
use crate::wrapping::AnswerWrapping;

pub(crate) const FMT: Command = Command {
    words: "policy fmt",
    takes: "FILE|-",
    about: "indent a policy file; - prints the result instead; needs no server",
    options: &[],
    wrapping: AnswerWrapping::Offline,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [file] = session.words()?;
    let text = session.text(&file)?;
    let formatted = format(&text);
    if file == "-" {
        return session.print(&visible_lines(&formatted));
    }
    if formatted != text {
        std::fs::write(&file, &formatted)
            .map_err(|error| CommandProblem::usage(format!("cannot write {file}: {error}")))?;
    }
    session.confirm(&format!("formatted {file}"))
}

/// Indents each line by two spaces for each open bracket. Texts between `<<` marks stay as they
/// are.
fn format(text: &str) -> String {
    let (mut lines, mut depth) = (Vec::<String>::new(), 0_usize);
    let mut here_document: Option<String> = None;
    for line in text.lines() {
        if let Some(end) = &here_document {
            lines.push(line.to_owned());
            if line.trim() == end {
                here_document = None;
            }
            continue;
        }
        let line = line.trim();
        let is_second_blank = line.is_empty() && lines.last().is_none_or(String::is_empty);
        if is_second_blank {
            continue;
        }
        let scanned = LineBrackets::of(line);
        let indent = depth.saturating_sub(scanned.closes_first);
        let indent = if line.is_empty() { 0 } else { indent };
        lines.push(format!("{}{}", "  ".repeat(indent), scanned.space_equals(line)));
        depth = (depth + scanned.opens).saturating_sub(scanned.closes);
        here_document = scanned.here_document;
    }
    let text = lines.join("\n");
    format!("{}\n", text.trim_end())
}

/// The brackets of a line, outside of quoted texts and comments.
#[derive(Default)]
struct LineBrackets {
    opens: usize,
    closes: usize,
    /// Closing brackets before any other character.
    closes_first: usize,
    /// The byte of the first lone equals sign.
    equals: Option<usize>,
    /// The word that ends the text that begins in this line.
    here_document: Option<String>,
}

impl LineBrackets {
    fn of(line: &str) -> Self {
        let mut scanned = Self::default();
        let (mut is_quoted, mut is_escaped, mut is_first) = (false, false, true);
        for (at, c) in line.char_indices() {
            let rest = line.get(at..).unwrap_or_default();
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' if is_quoted => is_escaped = true,
                '"' => is_quoted = !is_quoted,
                _ if is_quoted => {}
                '#' => break,
                '/' if rest.starts_with("//") => break,
                '<' if rest.starts_with("<<") => {
                    let word = rest.trim_start_matches(['<', '-']).trim();
                    scanned.here_document = Some(word.to_owned());
                    break;
                }
                '{' | '[' | '(' => scanned.opens += 1,
                '}' | ']' | ')' => {
                    scanned.closes += 1;
                    scanned.closes_first += usize::from(is_first);
                }
                '=' if scanned.equals.is_none() => scanned.equals = Some(at),
                _ => {}
            }
            is_first &= matches!(c, '}' | ']' | ')');
        }
        scanned
    }

    /// Returns the line with one space on each side of the first equals sign.
    fn space_equals(&self, line: &str) -> String {
        let halves = self.equals.map(|at| line.split_at(at));
        match halves.and_then(|(name, value)| Some((name, value.strip_prefix('=')?))) {
            Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
                format!("{} = {}", name.trim_end(), value.trim_start())
            }
            _ => line.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_lists_are_indented() {
        let text = "\n\npath \"a/{{x}}=b\" {\ncapabilities=[\"read\",\n \"list\"]\n\n\n\
            # } comment\n\
            allowed_parameters = {\n\"*\"   =  []\n}\n}\n";
        let expected = "\
path \"a/{{x}}=b\" {
  capabilities = [\"read\",
    \"list\"]

  # } comment
  allowed_parameters = {
    \"*\" = []
  }
}
";
        assert_eq!(format(text), expected);
        assert_eq!(format(expected), expected, "a formatted text stays as it is");
    }

    #[test]
    fn multiline_text_is_left_unformatted() {
        let text = "a {\n  b = <<EOT\n x {\n=  y\nEOT\n}\n";
        assert_eq!(format(text), text);
    }
}
