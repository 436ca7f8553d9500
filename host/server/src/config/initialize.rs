//! `initialize "NAME" { request "NAME" { … } }`: requests that set an empty server up, once.
//!
//! This file prevents secrets in the configuration, and a start that fails half-way for a reason
//! that was visible before: values come from variables and files, all sources are read before the
//! first request, and a reference to an answer names an earlier request of its block.

use super::findings::ConfigError;
use super::section::{ConfigSection, ConfigValue, LabelledBlock, SectionWords};
use super::tree::{ConfigEntry, ConfigLiteral, EntryContent};
use bulkhead_api::{InitialBlock, InitialRequest, InitialValue};
use bulkhead_tls::NamedFile;
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::quoted;
use bulkhead_wire::name::canonical_path;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

const BLOCK_WORDS: SectionWords = SectionWords { keys: &[], blocks: &["request"], foreign: &[] };
const REQUEST_WORDS: SectionWords =
    SectionWords { keys: &["operation", "path", "allow_failure"], blocks: &["data"], foreign: &[] };
const VARIABLE_WORDS: SectionWords =
    SectionWords { keys: &["eval_source", "eval_type", "env_var"], blocks: &[], foreign: &[] };
const FILE_WORDS: SectionWords =
    SectionWords { keys: &["eval_source", "eval_type", "path"], blocks: &[], foreign: &[] };
const ANSWER_WORDS: SectionWords = SectionWords {
    keys: &["eval_source", "eval_type", "initialize_name", "request_name", "response_selector"],
    blocks: &[],
    foreign: &[],
};

const EXAMPLE: &str = "request \"policy\" { operation = \"update\" path = \
    \"sys/policies/acl/admin\" data = { policy = \"…\" } }";

/// The operations, by the words of Vault.
const OPERATIONS: [(&str, Verb); 6] = [
    ("create", Verb::Write),
    ("update", Verb::Write),
    ("patch", Verb::Patch),
    ("read", Verb::Read),
    ("delete", Verb::Delete),
    ("list", Verb::List),
];

/// A lookup of an environment variable.
type InitialEnvironment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A block of the file, before variables and files are read.
#[derive(Clone, Debug)]
pub(crate) struct InitializeSettings {
    pub(crate) name: String,
    requests: Vec<RequestSettings>,
}

#[derive(Clone, Debug)]
struct RequestSettings {
    name: String,
    verb: Verb,
    path: String,
    fields: BTreeMap<String, ValueSource>,
    may_fail: bool,
}

/// The place of a value.
#[derive(Clone, Debug)]
enum ValueSource {
    Constant(Json),
    List(Vec<ValueSource>),
    Object(BTreeMap<String, ValueSource>),
    Variable { name: String, kind: ValueKind },
    File { path: PathBuf, kind: ValueKind },
    Answer { request: String, members: Vec<String> },
}

/// The type of a value that is read from a text.
#[derive(Clone, Copy, Debug)]
enum ValueKind {
    Text,
    Number,
    Flag,
}

/// Reads the blocks, in order.
pub(super) fn settings(file: &ConfigSection<'_>) -> Vec<InitializeSettings> {
    let mut found: Vec<InitializeSettings> = Vec::new();
    for block in file.blocks("initialize") {
        let Some(name) = file.keep(only_name(&block, "initialize \"policies\" { … }")) else {
            continue;
        };
        if found.iter().any(|other| other.name == name) {
            file.refuse(block.error(format!(
                "initialize {} is given before; give each block a different name",
                quoted(name)
            )));
        }
        let requests = requests(&block.section(&BLOCK_WORDS), name);
        found.push(InitializeSettings { name: name.to_owned(), requests });
    }
    found
}

fn only_name<'a>(block: &LabelledBlock<'a>, example: &str) -> Result<&'a str, ConfigError> {
    match block.labels()[..] {
        [name] if !name.is_empty() => Ok(name),
        _ => Err(block.error(format!("the block takes a name: write {example}"))),
    }
}

fn requests(section: &ConfigSection<'_>, block_name: &str) -> Vec<RequestSettings> {
    let mut found: Vec<RequestSettings> = Vec::new();
    for block in section.blocks("request") {
        let Some(name) = section.keep(only_name(&block, EXAMPLE)) else { continue };
        if found.iter().any(|other| other.name == name) {
            section.refuse(block.error(format!(
                "request {} is given before in the block; give each request a different name",
                quoted(name)
            )));
        }
        let names: Vec<&str> = found.iter().map(|request| request.name.as_str()).collect();
        let before = EarlierRequests { block: block_name, names: &names };
        let request = request(&block.section(&REQUEST_WORDS), name, &before);
        found.extend(request);
    }
    if found.is_empty() {
        section.refuse(section.error(format!("the block has no request; write {EXAMPLE}")));
    }
    found
}

/// The requests that a request may refer to.
struct EarlierRequests<'a> {
    block: &'a str,
    names: &'a [&'a str],
}

/// Reads a request. `None`: an error is kept.
fn request(
    section: &ConfigSection<'_>,
    name: &str,
    before: &EarlierRequests<'_>,
) -> Option<RequestSettings> {
    let verb = section.required("operation", "\"update\"");
    let path = section.required("path", "\"sys/policies/acl/admin\"");
    let verb = verb.and_then(|value| section.keep(operation(&value)));
    let path = path.and_then(|value| section.keep(request_path(&value)));
    let may_fail = section.read("allow_failure", ConfigValue::flag).unwrap_or(false);
    let data = section.unlabelled_block("data");
    let fields = data.map(|data| object(&data, section, before)).unwrap_or_default();
    Some(RequestSettings { name: name.to_owned(), verb: verb?, path: path?, fields, may_fail })
}

fn operation(value: &ConfigValue<'_>) -> Result<Verb, ConfigError> {
    let text = value.text()?;
    let found = OPERATIONS.iter().find(|(word, _)| *word == text);
    found.map(|(_, verb)| *verb).ok_or_else(|| {
        let words = OPERATIONS.map(|(word, _)| word).join(", ");
        value.error(format!("{} is not an operation; write one of {words}", quoted(text)))
    })
}

fn request_path(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let below = text.trim_start_matches('/');
    let below = below.strip_prefix("v1/").unwrap_or(below);
    canonical_path(below).map_err(|why| value.error(why))
}

/// Reads the members of an object. A word that is given as several objects is a list.
fn object(
    block: &LabelledBlock<'_>,
    section: &ConfigSection<'_>,
    before: &EarlierRequests<'_>,
) -> BTreeMap<String, ValueSource> {
    let mut members: BTreeMap<String, ValueSource> = BTreeMap::new();
    for entry in block.entries() {
        let Some(value) = member(block, entry, section, before) else { continue };
        match members.remove(&entry.word) {
            None => drop(members.insert(entry.word.clone(), value)),
            Some(ValueSource::List(mut list)) => {
                list.push(value);
                members.insert(entry.word.clone(), ValueSource::List(list));
            }
            Some(first) => {
                members.insert(entry.word.clone(), ValueSource::List(vec![first, value]));
            }
        }
    }
    members
}

/// Reads a member of an object. `None`: an error is kept.
fn member(
    block: &LabelledBlock<'_>,
    entry: &ConfigEntry,
    section: &ConfigSection<'_>,
    before: &EarlierRequests<'_>,
) -> Option<ValueSource> {
    let inner = match &entry.content {
        EntryContent::Value(literal) => return section.keep(constant(entry.line, literal)),
        EntryContent::Block { .. } => block.inner(entry)?,
    };
    let is_source = inner.entries().iter().any(|member| member.word == "eval_source");
    if is_source {
        return source(&inner, before);
    }
    Some(ValueSource::Object(object(&inner, section, before)))
}

fn constant(line: usize, literal: &ConfigLiteral) -> Result<ValueSource, ConfigError> {
    let value = match literal {
        ConfigLiteral::Flag(flag) => Json::Bool(*flag),
        ConfigLiteral::Number(number) => Json::Number(number.clone()),
        ConfigLiteral::Text(text) => Json::String(text.clone()),
        ConfigLiteral::List(elements) => {
            let elements = elements.iter().map(|(line, element)| constant(*line, element));
            return elements.collect::<Result<_, _>>().map(ValueSource::List);
        }
        ConfigLiteral::Unusable(why) => return Err(ConfigError::at(line, why)),
    };
    Ok(ValueSource::Constant(value))
}

/// Reads a value with `eval_source`. `None`: an error is kept.
fn source(block: &LabelledBlock<'_>, before: &EarlierRequests<'_>) -> Option<ValueSource> {
    let word = block.entries().iter().find_map(|entry| match &entry.content {
        EntryContent::Value(ConfigLiteral::Text(text)) if entry.word == "eval_source" => Some(text),
        _ => None,
    });
    let words = match word.map(String::as_str) {
        Some("env") => &VARIABLE_WORDS,
        Some("file") => &FILE_WORDS,
        Some("response") => &ANSWER_WORDS,
        _ => {
            let why = "eval_source is env (with env_var), file (with path) or response (with \
                       request_name and response_selector)";
            block.refuse(block.error(why));
            return None;
        }
    };
    let section = block.section(words);
    let kind = match section.value("eval_type") {
        Some(value) => section.keep(value_kind(&value))?,
        None => ValueKind::Text,
    };
    match word.map(String::as_str) {
        Some("env") => {
            let name = section.required("env_var", "\"ADMIN_PASSWORD\"")?;
            let name = section.keep(name.text())?.to_owned();
            Some(ValueSource::Variable { name, kind })
        }
        Some("file") => {
            let path = section.required("path", "\"/etc/bulkhead/admin.hcl\"")?;
            section.keep(path.path()).map(|path| ValueSource::File { path, kind })
        }
        _ => answer(&section, before),
    }
}

fn value_kind(value: &ConfigValue<'_>) -> Result<ValueKind, ConfigError> {
    match value.text()? {
        "string" | "any" => Ok(ValueKind::Text),
        "int" | "float" => Ok(ValueKind::Number),
        "bool" => Ok(ValueKind::Flag),
        other => {
            Err(value.error(format!("{} is not a type; write string, int or bool", quoted(other))))
        }
    }
}

/// Reads a reference to an earlier answer. `None`: an error is kept.
fn answer(section: &ConfigSection<'_>, before: &EarlierRequests<'_>) -> Option<ValueSource> {
    if let Some(value) = section.value("initialize_name")
        && section.keep(value.text())? != before.block
    {
        section.refuse(value.error(format!(
            "an answer is known in its block only, which is {}; move both requests into one block",
            quoted(before.block)
        )));
        return None;
    }
    let request = section.required("request_name", "\"role\"")?;
    let name = section.keep(request.text())?;
    if !before.names.contains(&name) {
        section.refuse(request.error(format!(
            "no earlier request of the block is called {}; name a request above this one",
            quoted(name)
        )));
        return None;
    }
    let selector = section.required("response_selector", "\"data.role_id\"")?;
    let text = section.keep(selector.text())?;
    let members: Vec<String> = text.split('.').map(str::to_owned).collect();
    if members.iter().any(String::is_empty) {
        let why = "is not a path of members; write for example \"data.role_id\"";
        section.refuse(selector.error(format!("{} {why}", quoted(text))));
        return None;
    }
    Some(ValueSource::Answer { request: name.to_owned(), members })
}

/// Reads the variables and files of all blocks.
///
/// # Errors
/// The request, and its unusable variable or file.
pub(crate) fn load(
    blocks: &[InitializeSettings],
    environment: InitialEnvironment<'_>,
) -> Result<Vec<InitialBlock>, String> {
    let block = |settings: &InitializeSettings| {
        let requests = settings.requests.iter().map(|request| {
            let fields = load_all(&request.fields, environment).map_err(|why| {
                format!(
                    "request {} of initialize {}: {why}",
                    quoted(&request.name),
                    quoted(&settings.name)
                )
            })?;
            Ok(InitialRequest {
                name: request.name.clone(),
                verb: request.verb,
                path: request.path.clone(),
                fields,
                may_fail: request.may_fail,
            })
        });
        let requests = requests.collect::<Result<_, String>>()?;
        Ok(InitialBlock { name: settings.name.clone(), requests })
    };
    blocks.iter().map(block).collect()
}

fn load_all(
    members: &BTreeMap<String, ValueSource>,
    environment: InitialEnvironment<'_>,
) -> Result<BTreeMap<String, InitialValue>, String> {
    let load =
        |(name, source): (&String, &ValueSource)| Ok((name.clone(), source.load(environment)?));
    members.iter().map(load).collect()
}

impl ValueSource {
    fn load(&self, environment: InitialEnvironment<'_>) -> Result<InitialValue, String> {
        match self {
            Self::Constant(value) => Ok(InitialValue::Constant(value.clone())),
            Self::List(elements) => {
                let elements = elements.iter().map(|source| source.load(environment));
                elements.collect::<Result<_, _>>().map(InitialValue::List)
            }
            Self::Object(members) => load_all(members, environment).map(InitialValue::Object),
            Self::Variable { name, kind } => {
                let text = environment(name).ok_or_else(|| format!("{name} is not set"))?;
                let text = text.into_string().map_err(|_| format!("{name} is not UTF-8"))?;
                kind.parse(&text, name)
            }
            Self::File { path, kind } => {
                let content = NamedFile::new("path", path).content()?;
                let place = path.display().to_string();
                let text = std::str::from_utf8(&content);
                let text = text.map_err(|_| format!("path {place} is not UTF-8"))?;
                kind.parse(text.strip_suffix('\n').unwrap_or(text), &place)
            }
            Self::Answer { request, members } => {
                Ok(InitialValue::Answer { request: request.clone(), members: members.clone() })
            }
        }
    }
}

impl ValueKind {
    /// Parses a text from `place`. The text is not repeated in the error: it may be a secret.
    fn parse(self, text: &str, place: &str) -> Result<InitialValue, String> {
        let value = match self {
            Self::Text => Some(Json::String(text.to_owned())),
            Self::Number => serde_json::from_str(text.trim()).ok().filter(Json::is_number),
            Self::Flag => text.trim().parse().ok().map(Json::Bool),
        };
        let value = value
            .ok_or_else(|| format!("the content of {place} does not have the type of eval_type"))?;
        Ok(InitialValue::Constant(value))
    }
}
