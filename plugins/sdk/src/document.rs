//! Limited parser for rules and selectors pasted by operators, in JSON or YAML.
//!
//! The attacks this file prevents: a short text that expands to a huge document (anchors are
//! refused; depth, nodes and bytes are limited during parsing), and a misspelt key that means
//! "everything" (readers of a document name all permitted keys, see [`ObjectMembers`]).

use bulkhead_wire::failure::quoted;
use granit_parser::{Event, Options, Parser, ScalarStyle};
use serde::de::IgnoredAny;
use serde_json::{Map, Number, Value};

/// Maximum length of a text, in bytes.
pub const LONGEST: usize = 64 * 1024;

/// Maximum nesting of lists and objects. The sandbox's stack is small.
const DEEPEST: usize = 16;

/// Maximum number of values and keys in a document.
const MOST_NODES: usize = 10_000;

/// Parses `text`: JSON, or the first document of YAML.
///
/// # Errors
/// The reason, without quoting the text.
pub fn parse(text: &str) -> Result<Value, String> {
    if text.len() > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    // JSON, even without its outer braces, may be indented with tabs, which YAML forbids.
    load(text).or_else(|why| {
        let braced = format!("{{{}}}", text.trim());
        match [text, &braced].into_iter().find(|json| json.len() > 2 && is_json(json)) {
            Some(json) => load(&json.replace('\t', " ")),
            None => Err(why),
        }
    })
}

/// The members of an object. The reader takes each member by name.
pub struct ObjectMembers {
    left: Map<String, Value>,
}

impl ObjectMembers {
    /// Returns the members of `value`.
    ///
    /// # Errors
    /// Another value than an object.
    pub fn of(value: Value) -> Result<Self, String> {
        match value {
            Value::Object(left) => Ok(Self { left }),
            _ => Err("it is not an object".to_owned()),
        }
    }

    /// Takes the member `name`; null counts as absent.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    /// Takes the list of texts `name`; empty if absent.
    ///
    /// # Errors
    /// Another value than a list of texts.
    pub fn take_texts(&mut self, name: &str) -> Result<Vec<String>, String> {
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        serde_json::from_value(value).map_err(|_| format!("{name} is not a list of texts"))
    }

    /// Refuses all members not taken.
    ///
    /// # Errors
    /// The first member that nobody took.
    pub fn refuse_others(self) -> Result<(), String> {
        match self.left.keys().next() {
            Some(name) => Err(format!("there is no key {}", quoted(name))),
            None => Ok(()),
        }
    }
}

fn load(text: &str) -> Result<Value, String> {
    let mut options = Options::default();
    options.flow_nesting_limit = DEEPEST;
    options.block_nesting_limit = DEEPEST;
    let is_braced = text.trim_start().starts_with('{');
    let mut loader = DocumentLoader { open: Vec::new(), nodes: 0, root: None, is_braced };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| {
            format!("it is neither JSON nor YAML (line {})", error.marker().line())
        })?;
        loader.take(event).map_err(|why| format!("{why} (line {})", span.start.line()))?;
        // Text after the closing brace is read too: a surplus brace may close the object earlier
        // than the operator meant.
        if loader.root.is_some() && !is_braced {
            break;
        }
    }
    loader.root.ok_or_else(|| "it is empty".to_owned())
}

/// An unclosed list, or an unclosed object with the key whose value comes next.
enum OpenContainer {
    List(Vec<Value>),
    Object(Map<String, Value>, Option<String>),
}

struct DocumentLoader {
    open: Vec<OpenContainer>,
    nodes: usize,
    root: Option<Value>,
    /// `true` if the text begins like JSON.
    is_braced: bool,
}

impl DocumentLoader {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                refuse_marks(anchor, tag.is_some())?;
                // JSON with a missing comma: YAML reads `{"a":1 "b":2}` as a single text for `a`.
                if self.is_braced && style == ScalarStyle::Plain && text.contains(['"', '\'']) {
                    return Err("a comma is missing, or a text is not quoted".to_owned());
                }
                self.put(scalar(text.into_owned(), style))
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_marks(anchor, tag.is_some())?;
                self.enter(OpenContainer::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_marks(anchor, tag.is_some())?;
                self.enter(OpenContainer::Object(Map::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenContainer::List(items)) => self.put(Value::Array(items)),
                Some(OpenContainer::Object(members, None)) => self.put(Value::Object(members)),
                _ => Err("a key has no value".to_owned()),
            },
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                Err("an alias (*name) is not taken; write it out".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn enter(&mut self, open: OpenContainer) -> Result<(), String> {
        if self.open.len() >= DEEPEST {
            return Err(format!("it nests more than {DEEPEST} levels deep"));
        }
        self.open.push(open);
        Ok(())
    }

    fn put(&mut self, value: Value) -> Result<(), String> {
        self.nodes = self.nodes.saturating_add(1);
        if self.nodes > MOST_NODES {
            return Err(format!("it has more than {MOST_NODES} values"));
        }
        match self.open.last_mut() {
            None if self.root.is_some() => return Err("there is more than one document".to_owned()),
            None => self.root = Some(value),
            Some(OpenContainer::List(items)) => items.push(value),
            Some(OpenContainer::Object(members, key)) => match (key.take(), value) {
                (None, Value::String(name)) => *key = Some(name),
                (None, _) => return Err("a key is not text".to_owned()),
                (Some(name), value) => {
                    if members.insert(name, value).is_some() {
                        return Err("a key is given twice".to_owned());
                    }
                }
            },
        }
        Ok(())
    }
}

fn refuse_marks(anchor: usize, has_tag: bool) -> Result<(), String> {
    if anchor > 0 {
        return Err("an anchor (&name) is not taken; write it out".to_owned());
    }
    if has_tag { Err("a tag (!name) is not taken".to_owned()) } else { Ok(()) }
}

/// Converts a plain word by the rules of YAML, and a quoted word to a text.
fn scalar(text: String, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text);
    }
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        number => match serde_json::from_str::<Number>(number) {
            Ok(number) => Value::Number(number),
            Err(_) => Value::String(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_of_clients_are_read_in_every_form() {
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]});
        let expected = json!({"rules": [rule]});
        for text in [
            "rules:\n- apiGroups: ['']\n  resources: ['pods']\n  verbs: ['list']\n",
            r#"{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["list"]}]}"#,
            "\"rules\": [\n\t{\n\t\t\"apiGroups\": [\"\"],\n\t\t\"resources\": [\"pods\"],\n\t\t\
             \"verbs\": [\"list\"]\n\t}\n]",
            "{\n\t\"rules\": [\n\t\t{\"apiGroups\": [\"\"], \"resources\": [\"pods\"], \"verbs\": \
             [\"list\"]}\n\t]\n}",
            "'rules': [{'apiGroups': [''],'resources': ['pods'],'verbs': ['list']}]",
            "{'rules': [{'apiGroups': [''],'resources': ['pods'],'verbs': ['list']}]}",
            "{rules: [{apiGroups: [\"\"], resources: [pods],\n  verbs: [list]}]} # of one line\n",
            "---\nrules:\n- {apiGroups: [''], resources: [pods], verbs: [list]}\n---\nb: 1\n",
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn document_neither_json_nor_yaml_is_refused() {
        for text in [
            "",
            "{]",
            "rules: [[[",
            "rules:\n\t- a",
            r#"{"a":1 "b":2}"#,
            "{'a': b 'c': d}",
            "{\"a\":1",
            "{'a': 1}}",
            "{'a': 1} {'b': 2}",
            "{'a': 1}\n---\n{'b': 2}",
            "a: b: c",
        ] {
            assert!(parse(text).is_err(), "{text:?} was read");
        }
    }

    #[test]
    fn a_short_text_never_becomes_a_large_one() {
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n";
        for (text, expected) in [
            (bomb.to_owned(), "anchor"),
            ("a: *b".to_owned(), "JSON nor YAML"),
            ("[".repeat(10_000), "JSON nor YAML"),
            (format!("{{\"a\":{}{}}}", "[".repeat(99), "]".repeat(99)), "JSON nor YAML"),
            ("- ".repeat(99), "JSON nor YAML"),
            (format!("[{}]", "1,".repeat(20_000)), "values"),
            ("x".repeat(LONGEST + 1), "longer"),
            ("a: !!binary eA==".to_owned(), "tag"),
        ] {
            let why = parse(&text).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn duplicate_or_non_text_key_is_refused() {
        for text in ["a: 1\na: 2", r#"{"a":1,"a":2}"#, "{\t\"a\":1,\t\"a\":2}", "[a]: b", "1: a"] {
            assert!(parse(text).is_err(), "{text:?} was read");
        }
    }

    #[test]
    fn unexpected_members_are_refused_by_name() {
        let mut members = ObjectMembers::of(json!({"a": ["x"], "b": null, "typo": 1})).unwrap();
        assert_eq!(members.take_texts("a").unwrap(), ["x"]);
        assert!(members.take("b").is_none() && members.take("c").is_none());
        assert!(members.refuse_others().unwrap_err().contains("typo"));
        assert!(ObjectMembers::of(json!([])).is_err());
        assert!(ObjectMembers::of(json!({"a": [1]})).unwrap().take_texts("a").is_err());
    }
}
