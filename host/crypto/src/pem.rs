//! PEM, the text format of keys and certificates: base64 between two labelled lines.
//!
//! Text outside the sections is a comment, as many tools write. The input may be a private key, so
//! no copy stays in memory.

use crate::limits::{self, check_length};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bulkhead_wire::failure::Failure;
use zeroize::Zeroizing;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
/// Characters per line of base64.
const LINE: usize = 64;

/// A section: its label and its bytes.
pub(crate) struct PemSection {
    pub(crate) label: String,
    pub(crate) bytes: Zeroizing<Vec<u8>>,
}

/// Returns the sections of a text, at least one. `subject` names the text in refusals.
pub(crate) fn read(subject: &str, text: &str) -> Result<Vec<PemSection>, Failure> {
    check_length(subject, text.len(), limits::PEM_BYTES)?;
    let mut sections = Vec::new();
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once(BEGIN) {
        let (section, left) = read_section(behind).ok_or_else(|| {
            Failure::invalid(format!(
                "{subject} is not PEM: a section has no end, or the content is not base64"
            ))
        })?;
        sections.push(section);
        rest = left;
    }
    if sections.is_empty() {
        return Err(Failure::invalid(format!(
            "{subject} is not PEM: no line begins with -----BEGIN"
        )));
    }
    Ok(sections)
}

/// Parses a section, from behind `-----BEGIN ` to its end.
fn read_section(text: &str) -> Option<(PemSection, &str)> {
    let (label, text) = text.split_once(DASHES)?;
    let (body, text) = text.split_once(END)?;
    let rest = text.strip_prefix(label)?.strip_prefix(DASHES)?;
    let mut packed = Zeroizing::new(String::with_capacity(body.len()));
    packed.extend(body.chars().filter(|c| !c.is_ascii_whitespace()));
    let bytes = Zeroizing::new(STANDARD.decode(packed.as_bytes()).ok()?);
    Some((PemSection { label: label.to_owned(), bytes }, rest))
}

/// Encodes bytes with a label such as `PUBLIC KEY`, in lines of 64 characters, each with a newline.
#[must_use]
pub fn encode_pem(label: &str, bytes: &[u8]) -> String {
    let packed = Zeroizing::new(STANDARD.encode(bytes));
    let room = packed.len() + packed.len() / LINE + 2 * (BEGIN.len() + label.len() + DASHES.len());
    let mut text = String::with_capacity(room + 4);
    text.extend([BEGIN, label, DASHES, "\n"]);
    let mut rest = packed.as_str();
    while !rest.is_empty() {
        let (line, left) = rest.split_at(rest.len().min(LINE));
        text.extend([line, "\n"]);
        rest = left;
    }
    text.extend([END, label, DASHES, "\n"]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn armoured_text_is_read_back() {
        for length in [0, 1, 47, 48, 49, 96, 200] {
            let bytes: Vec<u8> = (0..length).collect();
            let text = encode_pem("PUBLIC KEY", &bytes);
            assert!(text.lines().all(|line| line.len() <= 64), "{text}");
            let sections = read("it", &format!("a comment\n{text}another\n{text}")).unwrap();
            assert_eq!(sections.len(), 2);
            assert!(sections.iter().all(|s| s.label == "PUBLIC KEY" && *s.bytes == bytes));
        }
    }

    #[test]
    fn pem_section_with_mismatched_end_is_refused() {
        for text in [
            "",
            "MIIB",
            "-----BEGIN A-----",
            "-----BEGIN A-----\nAAAA\n",
            "-----BEGIN A-----\nAAAA\n-----END B-----",
            "-----BEGIN A-----\nAAA\n-----END A-----",
            "-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\nAAAA\n-----END A-----",
            "-----BEGIN A-----\nAAAA\n-----BEGIN A-----\nAAAA\n-----END A-----",
        ] {
            let refused = read("it", text).err().map(|failure| failure.message);
            assert!(refused.is_some_and(|why| why.starts_with("it is not PEM: ")), "{text}");
        }
        assert!(read("it", &" ".repeat(70_000)).is_err_and(|why| why.message.contains("65536")));
    }
}
