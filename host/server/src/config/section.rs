//! Sections of named values, with lines, from the configuration's tree.
//!
//! This file prevents settings that have no effect. A section is created with its known words; an
//! unknown word refuses the file and suggests the closest known word. A value is read as the
//! expected type or refused. An error is kept, and reading continues with the next setting.

mod value;

pub(super) use value::ConfigValue;

use super::findings::{ConfigError, ConfigFindings, ConfigNotice};
use super::tree::{ConfigEntry, EntryContent};
use bulkhead_wire::failure::quoted;
use bulkhead_wire::spelling::hint;

/// The known words of a section.
pub(super) struct SectionWords {
    /// Words written `key = value`.
    pub(super) keys: &'static [&'static str],
    /// Words written `name "label" { … }`.
    pub(super) blocks: &'static [&'static str],
    /// Words without effect, of other programs or of later versions.
    pub(super) foreign: &'static [ForeignWord],
}

/// A word that is known and has no effect, in either form.
pub(super) struct ForeignWord {
    word: &'static str,
    /// Without the setting's effect the server would be less safe, lack data or serve other clients
    /// than the file says.
    is_refused: bool,
    /// The behaviour of this server, and the advice for the line.
    note: &'static str,
}

#[cfg(test)]
impl ForeignWord {
    /// Returns the word.
    pub(super) fn word(&self) -> &'static str {
        self.word
    }
}

/// Returns a word that refuses the file.
pub(super) const fn refused(word: &'static str, note: &'static str) -> ForeignWord {
    ForeignWord { word, is_refused: true, note }
}

/// Returns a word that is only named in the log.
pub(super) const fn harmless(word: &'static str, note: &'static str) -> ForeignWord {
    ForeignWord { word, is_refused: false, note }
}

/// The name of a section in messages, and its first line.
struct SectionHead {
    title: String,
    line: usize,
}

/// The file or a block of the file.
pub(super) struct ConfigSection<'a> {
    head: SectionHead,
    entries: &'a [ConfigEntry],
    findings: &'a ConfigFindings,
}

impl<'a> ConfigSection<'a> {
    /// Returns the section of a whole file, and checks its words.
    pub(super) fn root(
        entries: &'a [ConfigEntry],
        words: &SectionWords,
        findings: &'a ConfigFindings,
    ) -> Self {
        Self::new(entries, words, findings, SectionHead { title: "the file".to_owned(), line: 1 })
    }

    fn new(
        entries: &'a [ConfigEntry],
        words: &SectionWords,
        findings: &'a ConfigFindings,
        head: SectionHead,
    ) -> Self {
        for entry in entries {
            check_word(entry, words, findings);
        }
        Self { head, entries, findings }
    }

    /// Returns the value of `key`, if present.
    pub(super) fn value(&self, key: &'static str) -> Option<ConfigValue<'a>> {
        self.entries.iter().find_map(|entry| match &entry.content {
            EntryContent::Value(literal) if entry.word == key => {
                Some(ConfigValue::of(key, entry.line, literal))
            }
            _ => None,
        })
    }

    /// Returns the value of `key` as `parse` reads it. `None`: the key is missing, or its error is
    /// kept.
    pub(super) fn read<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&ConfigValue<'a>) -> Result<T, ConfigError>,
    ) -> Option<T> {
        let value = self.value(key)?;
        self.keep(parse(&value))
    }

    /// Returns the elements of a list as `parse` reads them, without the refused ones.
    pub(super) fn each<T>(
        &self,
        elements: &[ConfigValue<'a>],
        parse: impl Fn(&ConfigValue<'a>) -> Result<T, ConfigError>,
    ) -> Vec<T> {
        elements.iter().filter_map(|element| self.keep(parse(element))).collect()
    }

    /// Returns the value of `key`. A missing key is an error; `example` is the suggested value.
    pub(super) fn required(&self, key: &'static str, example: &str) -> Option<ConfigValue<'a>> {
        let missing =
            || self.error(format!("{} needs {key}: write {key} = {example}", self.head.title));
        self.keep(self.value(key).ok_or_else(missing))
    }

    /// Returns every block `name`, in the order of the text.
    pub(super) fn blocks(&self, name: &'static str) -> impl Iterator<Item = LabelledBlock<'a>> {
        let findings = self.findings;
        self.entries.iter().filter_map(move |entry| match &entry.content {
            EntryContent::Block { labels, entries } if entry.word == name => {
                Some(LabelledBlock { name, line: entry.line, labels, entries, findings })
            }
            _ => None,
        })
    }

    /// Returns the only block `name`, if present. A second block and a label are errors.
    pub(super) fn unlabelled_block(&self, name: &'static str) -> Option<LabelledBlock<'a>> {
        let mut blocks = self.blocks(name);
        let block = blocks.next()?;
        if let Some(second) = blocks.next() {
            let first = block.line;
            let twice =
                format!("{name} is given on line {first} already; leave one of the two out");
            self.refuse(second.error(twice));
        }
        if !block.labels.is_empty() {
            self.refuse(block.error(format!("{name} takes no label: write {name} {{ … }}")));
        }
        Some(block)
    }

    /// Returns the block of each kind, if present. A second block of a kind and another kind are
    /// errors; [`BlockKinds::unserved`] holds the unsupported kinds with the reason.
    pub(super) fn blocks_of_kinds<const N: usize>(
        &self,
        wanted: &BlockKinds<'_, N>,
    ) -> [Option<LabelledBlock<'a>>; N] {
        let BlockKinds { name, kinds, unserved, twice } = wanted;
        let mut found = [const { None::<LabelledBlock<'a>> }; N];
        for block in self.blocks(name) {
            let Some(label) = self.keep(block.only_label(kinds)) else { continue };
            if self.keep(block.check_kind(label, kinds, unserved)).is_none() {
                continue;
            }
            for (place, kind) in found.iter_mut().zip(kinds).filter(|(_, kind)| **kind == label) {
                match place {
                    Some(first) => self.refuse(block.error(format!(
                        "{name} \"{kind}\" is given on line {} already; {twice}",
                        first.line
                    ))),
                    None => *place = Some(block.clone()),
                }
            }
        }
        found
    }

    /// Keeps an error.
    pub(super) fn refuse(&self, error: ConfigError) {
        self.findings.refuse(error);
    }

    /// Returns the value, or keeps the error.
    pub(super) fn keep<T>(&self, read: Result<T, ConfigError>) -> Option<T> {
        self.findings.keep(read)
    }

    /// Keeps the notice that `value` has no effect.
    pub(super) fn notice(&self, value: &ConfigValue<'_>, note: impl Into<String>) {
        self.findings.notice(value.notice(note));
    }

    /// Error about the section as a whole.
    pub(super) fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::at(self.head.line, message)
    }
}

/// The kinds of a block, of which a file may have one each.
pub(super) struct BlockKinds<'a, const N: usize> {
    pub(super) name: &'static str,
    pub(super) kinds: [&'static str; N],
    /// Unsupported kinds with the reason.
    pub(super) unserved: &'a [(&'a str, &'a str)],
    /// Advice for a second block of a kind.
    pub(super) twice: &'static str,
}

/// Checks that a word is known and has the right form.
fn check_word(entry: &ConfigEntry, words: &SectionWords, findings: &ConfigFindings) {
    let (word, line) = (entry.word.as_str(), entry.line);
    let is_block = matches!(entry.content, EntryContent::Block { .. });
    let message = match (words.keys.contains(&word), words.blocks.contains(&word)) {
        (true, _) if is_block => format!("{word} takes a value: write {word} = …"),
        (_, true) if !is_block => format!("{word} is a block: write {word} \"…\" {{ … }}"),
        (false, false) => match words.foreign.iter().find(|foreign| foreign.word == word) {
            Some(ForeignWord { note, is_refused: false, .. }) => {
                let (setting, note) = (word.to_owned(), (*note).to_owned());
                return findings.notice(ConfigNotice { line, setting, note });
            }
            Some(foreign) => format!("{word}: {}", foreign.note),
            None => {
                let known_words: Vec<&str> =
                    words.keys.iter().chain(words.blocks).copied().collect();
                let kind = if is_block { "block" } else { "key" };
                format!("unknown {kind} {}{}", quoted(word), hint(word, &known_words))
            }
        },
        _ => return,
    };
    findings.refuse(ConfigError::at(line, message));
}

/// A block with its labels, before the check of its words.
#[derive(Clone)]
pub(super) struct LabelledBlock<'a> {
    name: &'static str,
    line: usize,
    labels: &'a [String],
    entries: &'a [ConfigEntry],
    findings: &'a ConfigFindings,
}

impl<'a> LabelledBlock<'a> {
    pub(super) fn labels(&self) -> Vec<&'a str> {
        self.labels.iter().map(String::as_str).collect()
    }

    /// Returns the words of the block, unchecked.
    pub(super) fn entries(&self) -> &'a [ConfigEntry] {
        self.entries
    }

    /// Returns a block inside of this block.
    pub(super) fn inner(&self, entry: &'a ConfigEntry) -> Option<LabelledBlock<'a>> {
        let EntryContent::Block { labels, entries } = &entry.content else { return None };
        Some(LabelledBlock { name: self.name, line: entry.line, labels, entries, ..*self })
    }

    /// Keeps an error.
    pub(super) fn refuse(&self, error: ConfigError) {
        self.findings.refuse(error);
    }

    fn only_label(&self, kinds: &[&str]) -> Result<&'a str, ConfigError> {
        let (name, kind) = (self.name, kinds.first().copied().unwrap_or_default());
        let [label] = self.labels else {
            let example = format!("{name} takes a single label: write {name} \"{kind}\" {{ … }}");
            return Err(self.error(example));
        };
        Ok(label)
    }

    /// Refuses a label that is not in `kinds`.
    pub(super) fn check_kind(
        &self,
        label: &str,
        kinds: &[&'static str],
        unserved: &[(&str, &str)],
    ) -> Result<(), ConfigError> {
        if kinds.contains(&label) {
            return Ok(());
        }
        let name = self.name;
        if let Some((_, why)) = unserved.iter().find(|(unserved, _)| *unserved == label) {
            return Err(self.error(format!("{name} \"{label}\": {why}")));
        }
        Err(self.error(format!("unknown {name} {}{}", quoted(label), hint(label, kinds))))
    }

    /// Returns the content of the block, and checks its words.
    pub(super) fn section(&self, words: &SectionWords) -> ConfigSection<'a> {
        let labels: String =
            self.labels.iter().map(|label| format!(" {}", quoted(label))).collect();
        let head = SectionHead { title: format!("{}{labels}", self.name), line: self.line };
        ConfigSection::new(self.entries, words, self.findings, head)
    }

    /// Error about the block as a whole.
    pub(super) fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::at(self.line, message)
    }
}
