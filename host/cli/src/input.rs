//! Request fields from the command line: `k=v`, values from files and standard input, and whole
//! objects.

use serde_json::{Map, Value};
use std::io::Read;

/// Maximum number of bytes read from a file or from standard input: the server's limit.
const READ_MAX: u64 = 32 * 1024 * 1024;

/// Parses arguments into fields. `k=v` is a text; `k=@FILE` and `k=-` take the value from a file or
/// standard input without changes; `k=\@v` is the text `@v`; `@FILE` and `-` alone are a whole JSON
/// object. A repeated key makes a list.
///
/// # Errors
/// The error and the number of the argument. The argument itself may be a secret and is not quoted.
pub(crate) fn fields(words: &[String], stdin: &mut dyn Read) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    let mut stdin = UnreadStdin(Some(stdin));
    for (index, word) in words.iter().enumerate() {
        let read = match word.split_once('=') {
            Some((key, value)) => {
                parse_value(key, value, &mut stdin).map(|value| vec![(key.to_owned(), value)])
            }
            None => parse_object(word, &mut stdin).map(|object| object.into_iter().collect()),
        };
        let read = read.map_err(|why| format!("field argument {}: {why}", index + 1))?;
        read.into_iter().for_each(|(key, value)| add(&mut fields, key, value));
    }
    Ok(fields)
}

/// Reads the text of a file, or of standard input for `-`.
///
/// # Errors
/// A file that cannot be read, is larger than 32 MiB, or is not UTF-8.
pub(crate) fn text(word: &str, stdin: &mut dyn Read) -> Result<String, String> {
    if word == "-" { read_text(stdin, "standard input") } else { read_file(word) }
}

/// Reads the bytes of a file, or of standard input for `-`.
///
/// # Errors
/// A file that cannot be read, or is larger than 32 MiB.
pub(crate) fn bytes(word: &str, stdin: &mut dyn Read) -> Result<Vec<u8>, String> {
    if word == "-" { read_bytes(stdin, "standard input") } else { read_bytes(open(word)?, word) }
}

/// Standard input, until an argument has read it.
struct UnreadStdin<'a>(Option<&'a mut dyn Read>);

impl UnreadStdin<'_> {
    fn text(&mut self) -> Result<String, String> {
        let source =
            self.0.take().ok_or("standard input is already used by an earlier argument")?;
        read_text(source, "standard input")
    }
}

fn parse_value(key: &str, value: &str, stdin: &mut UnreadStdin<'_>) -> Result<Value, String> {
    if key.is_empty() {
        return Err("there is no name before the equals sign".to_owned());
    }
    let text = match value.strip_prefix('@') {
        Some(path) => read_file(path)?,
        None if value == "-" => stdin.text()?,
        None => value
            .strip_prefix('\\')
            .filter(|rest| rest.starts_with('@'))
            .unwrap_or(value)
            .to_owned(),
    };
    Ok(Value::String(text))
}

fn parse_object(word: &str, stdin: &mut UnreadStdin<'_>) -> Result<Map<String, Value>, String> {
    let text = match word.strip_prefix('@') {
        Some(path) => read_file(path)?,
        None if word == "-" => stdin.text()?,
        None => return Err("there is no equals sign; write name=value, @FILE or -".to_owned()),
    };
    // The parser's message names a line and column, and never quotes the text.
    serde_json::from_str(&text).map_err(|error| format!("the value is not a JSON object: {error}"))
}

fn read_file(path: &str) -> Result<String, String> {
    read_text(open(path)?, path)
}

fn open(path: &str) -> Result<std::fs::File, String> {
    std::fs::File::open(path).map_err(|error| format!("cannot open {path}: {error}"))
}

fn read_text(source: impl Read, name: &str) -> Result<String, String> {
    String::from_utf8(read_bytes(source, name)?)
        .map_err(|_| format!("cannot read {name}: not UTF-8"))
}

fn read_bytes(source: impl Read, name: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let size = source.take(READ_MAX + 1).read_to_end(&mut bytes);
    let size = size.map_err(|error| format!("cannot read {name}: {error}"))?;
    if u64::try_from(size).is_ok_and(|size| size <= READ_MAX) {
        return Ok(bytes);
    }
    Err(format!("{name} is larger than 32 MiB, the maximum of a server"))
}

fn add(fields: &mut Map<String, Value>, key: String, value: Value) {
    match fields.get_mut(&key) {
        None => {
            fields.insert(key, value);
        }
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(words: &[&str], stdin: &str) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        fields(&words, &mut stdin.as_bytes()).map(Value::Object)
    }

    /// A file for a test, removed when dropped.
    struct TemporaryFile(std::path::PathBuf);

    impl TemporaryFile {
        fn holding(name: &str, text: &[u8]) -> Self {
            let path =
                std::env::temp_dir().join(format!("bulkhead-cli-{}-{name}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            Self(path)
        }

        fn named(&self, before: &str) -> String {
            format!("{before}{}", self.0.display())
        }
    }

    impl Drop for TemporaryFile {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).unwrap();
        }
    }

    #[test]
    fn pairs_are_text_split_at_first_equals_sign() {
        let url = "connection_url=postgresql://{{username}}@h/db?sslmode=disable";
        let expected = json!({"connection_url": "postgresql://{{username}}@h/db?sslmode=disable",
            "ttl": "1h", "empty": ""});
        assert_eq!(read(&[url, "ttl=1h", "empty="], "").unwrap(), expected);
    }

    #[test]
    fn a_key_given_again_makes_a_list() {
        assert_eq!(
            read(&["s=a", "t=x", "s=b", "s=c"], "").unwrap(),
            json!({"s": ["a", "b", "c"], "t": "x"})
        );
    }

    #[test]
    fn values_from_files_and_stdin_are_kept_verbatim() {
        let statements = TemporaryFile::holding("sql", b"CREATE ROLE;\n");
        let words =
            [statements.named("s=@"), "p=-".to_owned(), "e=\\@home".to_owned(), "b=\\n".to_owned()];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let expected = json!({"s": "CREATE ROLE;\n", "p": "pass word\n", "e": "@home", "b": "\\n"});
        assert_eq!(read(&words, "pass word\n").unwrap(), expected);
    }

    #[test]
    fn whole_object_is_read_from_stdin_or_file() {
        let object = r#"{"db_name":"d","n":1,"s":["a"]}"#;
        assert_eq!(
            read(&["-", "extra=1"], object).unwrap(),
            json!({"db_name": "d", "n": 1, "s": ["a"], "extra": "1"})
        );
        let file = TemporaryFile::holding("json", object.as_bytes());
        assert_eq!(
            read(&[&file.named("@")], "").unwrap(),
            json!({"db_name": "d", "n": 1, "s": ["a"]})
        );
    }

    #[test]
    fn standard_input_is_read_once() {
        assert!(
            read(&["a=-", "b=-"], "x")
                .unwrap_err()
                .contains("argument 2: standard input is already used")
        );
    }

    #[test]
    fn unreadable_entry_is_named_by_number_not_content() {
        for (words, stdin, part) in [
            (&["a=1", "canary"][..], "", "argument 2: there is no equals sign"),
            (&["=canary"], "", "argument 1: there is no name"),
            (&["-"], "canary", "not a JSON object"),
            (&["-"], "[\"canary\"]", "not a JSON object"),
            (&["a=@/nonexistent/file"], "", "/nonexistent/file"),
        ] {
            let error = read(words, stdin).unwrap_err();
            assert!(error.contains(part) && !error.contains("canary"), "{words:?}: {error}");
        }
        let binary = TemporaryFile::holding("binary", b"\xff\xfe");
        assert!(read(&[&binary.named("a=@")], "").unwrap_err().contains("UTF-8"));
    }
}
