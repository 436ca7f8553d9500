//! An engine's API as one constant table, written so that it reads like a table.
//!
//! Rows are constants: a component is made anew for each request, and must not spend it on building
//! its own table. The host gets the table once, as JSON, at registration.

use crate::answer::Answer;
use crate::call::Call;
use crate::host::Host;
use bulkhead_wire::description::{self, FieldKind, Operation, Route, Verb};
use bulkhead_wire::failure::{Failure, Kind};
use serde_json::Value;

/// What serves a row.
pub type Handler = fn(&dyn Host, &Call) -> Result<Answer, Failure>;

/// One row: verb, path, fields, and the marks that the host acts on (see [`Route`]).
#[derive(Clone, Copy)]
pub struct Row {
    verb: Verb,
    path: &'static str,
    handler: Option<Handler>,
    about: &'static str,
    fields: &'static [&'static [Field]],
    exclusive: &'static [&'static [&'static str]],
    existence: Option<&'static str>,
    list: Option<&'static str>,
    open_fields: bool,
    leases: bool,
    nested: bool,
    deadline: u64,
}

/// A row for GET.
#[must_use]
pub const fn read(path: &'static str, handler: Handler) -> Row {
    Row::new(Verb::Read, path, Some(handler))
}

/// A row for POST and PUT.
#[must_use]
pub const fn write(path: &'static str, handler: Handler) -> Row {
    Row::new(Verb::Write, path, Some(handler))
}

/// A row for DELETE.
#[must_use]
pub const fn delete(path: &'static str, handler: Handler) -> Row {
    Row::new(Verb::Delete, path, Some(handler))
}

/// A row for LIST, which the host serves from the keys below `prefix` without entering the
/// component.
#[must_use]
pub const fn list(path: &'static str, prefix: &'static str) -> Row {
    let mut row = Row::new(Verb::List, path, None);
    row.list = Some(prefix);
    row
}

impl Row {
    const fn new(verb: Verb, path: &'static str, handler: Option<Handler>) -> Self {
        Self {
            verb,
            path,
            handler,
            about: "",
            fields: &[],
            exclusive: &[],
            existence: None,
            list: None,
            open_fields: false,
            leases: false,
            nested: false,
            deadline: 0,
        }
    }

    /// One sentence for help and OpenAPI.
    #[must_use]
    pub const fn about(mut self, sentence: &'static str) -> Self {
        self.about = sentence;
        self
    }

    /// Captures and body fields, in groups that rows may share.
    #[must_use]
    pub const fn fields(mut self, groups: &'static [&'static [Field]]) -> Self {
        self.fields = groups;
        self
    }

    /// Groups of which at most one field may be given.
    #[must_use]
    pub const fn exclusive(mut self, groups: &'static [&'static [&'static str]]) -> Self {
        self.exclusive = groups;
        self
    }

    /// The storage key whose presence makes a write an update: `role/{name}`.
    #[must_use]
    pub const fn existence(mut self, key: &'static str) -> Self {
        self.existence = Some(key);
        self
    }

    /// Fields that the row does not name are passed on.
    #[must_use]
    pub const fn open_fields(mut self) -> Self {
        self.open_fields = true;
        self
    }

    /// Answers a secret with a lease.
    #[must_use]
    pub const fn leases(mut self) -> Self {
        self.leases = true;
        self
    }

    /// Reaches a database plugin.
    #[must_use]
    pub const fn nested(mut self) -> Self {
        self.nested = true;
        self
    }

    /// Seconds until the call is stopped; 90 unless said.
    #[must_use]
    pub const fn deadline(mut self, seconds: u64) -> Self {
        self.deadline = seconds;
        self
    }

    /// The row as the host reads it.
    #[must_use]
    pub fn route(&self) -> Route {
        let owned = |names: &&[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Route {
            fields: self
                .fields
                .iter()
                .flat_map(|group| group.iter())
                .map(Field::declaration)
                .collect(),
            exclusive: self.exclusive.iter().map(owned).collect(),
            existence: self.existence.map(str::to_owned),
            list: self.list.map(str::to_owned),
            open_fields: self.open_fields,
            leases: self.leases,
            nested: self.nested,
            deadline: self.deadline,
            ..Route::new(self.verb, self.path, self.about)
        }
    }
}

/// One capture or body field.
#[derive(Clone, Copy)]
pub struct Field {
    name: &'static str,
    kind: FieldKind,
    about: &'static str,
    aliases: &'static [&'static str],
    default: Option<Preset>,
    required: bool,
    secret: bool,
}

/// A default, filled in when a write creates.
#[derive(Clone, Copy)]
enum Preset {
    Text(&'static str),
    Flag(bool),
    Whole(i64),
}

impl Field {
    const fn new(name: &'static str, kind: FieldKind, about: &'static str) -> Self {
        Self { name, kind, about, aliases: &[], default: None, required: false, secret: false }
    }

    /// A path segment, or a reference to an object by its name.
    #[must_use]
    pub const fn name_of(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Name, about)
    }

    /// Text; numbers and flags are written out.
    #[must_use]
    pub const fn text(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::String, about)
    }

    /// True or false.
    #[must_use]
    pub const fn flag(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Bool, about)
    }

    /// A whole number.
    #[must_use]
    pub const fn whole(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Int, about)
    }

    /// A duration, read as seconds.
    #[must_use]
    pub const fn seconds(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Duration, about)
    }

    /// A list of words, also written `a, b`.
    #[must_use]
    pub const fn words(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::CommaList, about)
    }

    /// A list of texts, or one text; never split.
    #[must_use]
    pub const fn texts(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::TextList, about)
    }

    /// An object of texts.
    #[must_use]
    pub const fn map(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Map, about)
    }

    /// Any JSON value.
    #[must_use]
    pub const fn any(name: &'static str, about: &'static str) -> Self {
        Self::new(name, FieldKind::Any, about)
    }

    /// Must be given when a write creates.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Never in a log, an audit line or an error.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Other names that clients send.
    #[must_use]
    pub const fn aliases(mut self, names: &'static [&'static str]) -> Self {
        self.aliases = names;
        self
    }

    /// A text to start from.
    #[must_use]
    pub const fn or_text(mut self, text: &'static str) -> Self {
        self.default = Some(Preset::Text(text));
        self
    }

    /// A flag to start from.
    #[must_use]
    pub const fn or_flag(mut self, flag: bool) -> Self {
        self.default = Some(Preset::Flag(flag));
        self
    }

    /// A number, or seconds, to start from.
    #[must_use]
    pub const fn or_whole(mut self, number: i64) -> Self {
        self.default = Some(Preset::Whole(number));
        self
    }

    /// Its canonical name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    fn declaration(&self) -> description::Field {
        description::Field {
            aliases: self.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            default: self.default.map(|preset| match preset {
                Preset::Text(text) => Value::from(text),
                Preset::Flag(flag) => Value::from(flag),
                Preset::Whole(number) => Value::from(number),
            }),
            required: self.required,
            secret: self.secret,
            ..description::Field::new(self.name, self.kind, self.about)
        }
    }
}

/// Serves `call` by its row.
///
/// # Errors
/// What the handler refused; an unsupported operation where no row with a handler matches.
pub fn dispatch(table: &[Row], host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let verb = verb(call.operation);
    let row = table.iter().find(|row| row.verb == verb && row.path == call.route);
    let Some(handler) = row.and_then(|row| row.handler) else {
        let message =
            format!("{} on {:?} is not served by this plugin", call.operation.word(), call.route);
        return Err(Failure::new(Kind::UnsupportedOperation, message));
    };
    handler(host, call)
}

fn verb(operation: Operation) -> Verb {
    match operation {
        Operation::Create | Operation::Update => Verb::Write,
        Operation::Read => Verb::Read,
        Operation::Patch => Verb::Patch,
        Operation::Delete => Verb::Delete,
        Operation::List => Verb::List,
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, Row, delete, list, read, write};
    use crate::testbed::TestBed;
    use crate::{Answer, Call, Failure, Host, Kind, SecretsEngine};
    use bulkhead_wire::description::{Description, FieldKind, Verb};
    use serde_json::json;

    struct Shelf;

    const NAME: &[Field] = &[Field::name_of("name", "the box's name")];
    const BOX: &[Field] = &[
        Field::text("label", "what stands on it").required().aliases(&["title"]),
        Field::whole("size", "in litres").or_whole(7),
        Field::flag("open", "without a lid"),
        Field::text("lid", "its material").or_text("oak").secret(),
    ];

    impl SecretsEngine for Shelf {
        const NAME: &'static str = "shelf";
        const VERSION: &'static str = "1.0.0";
        const SCHEMA: u32 = 3;
        const ABOUT: &'static str = "Boxes on a shelf.";
        const TABLE: &'static [Row] = &[
            read("box/{name}", echo).about("Shows a box.").fields(&[NAME]),
            write("box/{name}", echo)
                .about("Puts a box.")
                .fields(&[NAME, BOX])
                .exclusive(&[&["open", "lid"]])
                .existence("box/{name}")
                .nested(),
            delete("box/{name}", echo).about("Takes a box.").fields(&[NAME]),
            list("box", "box/").about("Lists boxes."),
        ];
    }

    fn echo(_host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
        Answer::data(
            &json!({"operation": call.operation.word(), "route": call.route, "fields": call.fields}),
        )
    }

    #[test]
    fn the_description_survives_its_way_as_json() {
        let written = serde_json::to_string(&Shelf::description()).unwrap();
        let description: Description = serde_json::from_str(&written).unwrap();
        assert_eq!(description, Shelf::description());
        assert_eq!((description.kind.as_str(), description.schema), ("secrets-engine", 3));
    }

    #[test]
    fn a_row_says_what_was_written_in_the_table() {
        let description = Shelf::description();
        let put = description.routes.iter().find(|route| route.verb == Verb::Write).unwrap();
        assert_eq!(put.existence.as_deref(), Some("box/{name}"));
        assert_eq!(put.exclusive, [["open", "lid"]]);
        assert!(put.nested && !put.leases && !put.open_fields);
        let lid = put.fields.iter().find(|field| field.name == "lid").unwrap();
        assert!(lid.secret && !lid.required);
        assert_eq!((lid.kind, lid.default.clone()), (FieldKind::String, Some(json!("oak"))));
        let listing = description.routes.iter().find(|route| route.verb == Verb::List).unwrap();
        assert_eq!(listing.list.as_deref(), Some("box/"));
    }

    #[test]
    fn a_call_reaches_the_handler_of_its_verb_with_aliases_and_defaults_resolved() {
        let bed = TestBed::<Shelf>::new().unwrap();
        let data = bed.write("box/a", &json!({"title": "tools", "open": "1"})).unwrap().data;
        let fields = json!({"name": "a", "label": "tools", "open": true, "size": 7});
        assert_eq!(
            serde_json::Value::Object(data),
            json!({"operation": "create", "route": "box/{name}", "fields": fields})
        );
        assert_eq!(bed.delete("box/a").unwrap().data.get("operation"), Some(&json!("delete")));
    }

    #[test]
    fn what_no_row_serves_is_unsupported() {
        let bed = TestBed::<Shelf>::new().unwrap();
        assert_eq!(bed.write("box", &json!({})).err().unwrap().kind, Kind::UnsupportedOperation);
        assert_eq!(bed.read("crate/a").err().unwrap().kind, Kind::NotFound);
    }
}
