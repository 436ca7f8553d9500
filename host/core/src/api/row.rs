//! How the modules of this folder write the rows of the host's table.

use bulkhead_wire::description::{Field, FieldKind, Route, Verb};

/// A row for callers with a token whose policies allow it.
pub(super) fn row(verb: Verb, path: &str, about: &str, fields: Vec<Field>) -> Route {
    Route { fields, ..Route::new(verb, path, about) }
}

/// A row for everybody, without a token.
pub(super) fn open(verb: Verb, path: &str, about: &str, fields: Vec<Field>) -> Route {
    Route { unauthenticated: true, ..row(verb, path, about, fields) }
}

/// A row that needs `sudo` besides the ordinary capability (decision H12).
pub(super) fn sudo(verb: Verb, path: &str, about: &str, fields: Vec<Field>) -> Route {
    Route { sudo: true, ..row(verb, path, about, fields) }
}

/// A field that may be left out.
pub(super) fn field(name: &str, kind: FieldKind, about: &str) -> Field {
    Field::new(name, kind, about)
}

/// A field that must be given.
pub(super) fn required(name: &str, kind: FieldKind, about: &str) -> Field {
    field(name, kind, about).required()
}
