//! The table as the host receives it, and the row of a call.

use super::{Field, Row, delete, list, list_by, read, write};
use crate::testbed::TestBed;
use crate::{Answer, Call, Failure, FailureKind, Host, MountedPlugin, SecretsEngine};
use bulkhead_wire::description::{ComponentDescription, FieldKind, Verb};
use serde_json::json;

struct Shelf;

const NAME: &[Field] = &[Field::name_of("name", "the box's name")];
const BOX: &[Field] = &[
    Field::text("label", "what stands on it").required().aliases(&["title"]),
    Field::whole("size", "in litres").or_whole(7),
    Field::flag("open", "without a lid"),
    Field::text("lid", "its material").or_text("oak").secret(),
];

impl MountedPlugin for Shelf {
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
        list_by("box/{name}/shelves", echo).about("Lists the shelves of a box.").fields(&[NAME]),
    ];
}

impl SecretsEngine for Shelf {}

fn echo(_host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    Answer::data(&json!({
        "operation": call.operation.word(), "route": call.route, "fields": call.fields,
    }))
}

#[test]
fn the_description_survives_its_way_as_json() {
    let written = serde_json::to_string(&Shelf::description()).unwrap();
    let description: ComponentDescription = serde_json::from_str(&written).unwrap();
    assert_eq!(description, Shelf::description());
    assert_eq!((description.kind.as_str(), description.schema), ("secrets-engine", 3));
}

#[test]
fn listing_with_handler_is_served_by_engine() {
    let bed = TestBed::<Shelf>::new().unwrap();
    let listed = bed.list("box/blue/shelves").ok().unwrap().data;
    assert_eq!((&listed["operation"], &listed["fields"]["name"]), (&json!("list"), &json!("blue")));
}

#[test]
fn table_rows_become_routes() {
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
fn call_reaches_verb_handler_with_aliases_and_defaults() {
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
fn a_path_without_a_row_is_unsupported() {
    let bed = TestBed::<Shelf>::new().unwrap();
    assert_eq!(bed.write("box", &json!({})).err().unwrap().kind, FailureKind::UnsupportedOperation);
    assert_eq!(bed.read("crate/a").err().unwrap().kind, FailureKind::NotFound);
}
