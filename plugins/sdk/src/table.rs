//! An engine's API as one constant table.
//!
//! Rows are constants, because each request makes a fresh instance of the component, which must not
//! spend time on building the table. The host receives the table once, as JSON, at registration.

use crate::answer::Answer;
use crate::call::Call;
use crate::host::Host;
pub use bulkhead_wire::description::Operation;
use bulkhead_wire::description::{Route, Verb};
use bulkhead_wire::failure::{Failure, FailureKind};

pub use crate::field::Field;

/// Function that serves a row.
pub type Handler = fn(&dyn Host, &Call) -> Result<Answer, Failure>;

/// A row: verb, path, fields, and the attributes that the host acts on (see [`Route`]).
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
    verbatim: bool,
    api_version: u64,
    successor: Option<&'static str>,
    login: bool,
    unauthenticated: bool,
    sudo: bool,
    body_limit: u64,
    asked_as: Option<Operation>,
    leases: bool,
    nested: bool,
    deadline: u64,
}

/// Returns a row for GET.
#[must_use]
pub const fn read(path: &'static str, handler: Handler) -> Row {
    Row::new(Verb::Read, path, Some(handler))
}

/// Returns a row for POST and PUT.
#[must_use]
pub const fn write(path: &'static str, handler: Handler) -> Row {
    Row::new(Verb::Write, path, Some(handler))
}

/// Returns a row for PATCH: a JSON merge patch with fields that may be `null`.
#[must_use]
pub const fn patch(path: &'static str, handler: Handler) -> Row {
    Row::new(Verb::Patch, path, Some(handler))
}

/// Returns a row for DELETE.
#[must_use]
pub const fn delete(path: &'static str, handler: Handler) -> Row {
    Row::new(Verb::Delete, path, Some(handler))
}

/// Returns a row for LIST. The host lists the keys below `prefix` without running the component.
#[must_use]
pub const fn list(path: &'static str, prefix: &'static str) -> Row {
    let mut row = Row::new(Verb::List, path, None);
    row.list = Some(prefix);
    row
}

/// Returns a row for LIST with a handler, for names that are stored below no prefix of their own.
/// The handler answers `keys`, or [`Failure::absent`] if there are none.
#[must_use]
pub const fn list_by(path: &'static str, handler: Handler) -> Row {
    Row::new(Verb::List, path, Some(handler))
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
            verbatim: false,
            api_version: 0,
            successor: None,
            login: false,
            unauthenticated: false,
            sudo: false,
            body_limit: 0,
            asked_as: None,
            leases: false,
            nested: false,
            deadline: 0,
        }
    }

    /// Sets the sentence for help and OpenAPI.
    #[must_use]
    pub const fn about(mut self, sentence: &'static str) -> Self {
        self.about = sentence;
        self
    }

    /// Sets captures and body fields, in groups that rows may share.
    #[must_use]
    pub const fn fields(mut self, groups: &'static [&'static [Field]]) -> Self {
        self.fields = groups;
        self
    }

    /// Sets groups of fields. A request may give at most one field of each group.
    #[must_use]
    pub const fn exclusive(mut self, groups: &'static [&'static [&'static str]]) -> Self {
        self.exclusive = groups;
        self
    }

    /// Sets a storage key such as `role/{name}`. If the key exists, a write is an update.
    #[must_use]
    pub const fn existence(mut self, key: &'static str) -> Self {
        self.existence = Some(key);
        self
    }

    /// Passes on body fields that the row does not name.
    #[must_use]
    pub const fn open_fields(mut self) -> Self {
        self.open_fields = true;
        self
    }

    /// Passes on the body exactly as sent. The fields of the call are then the members of the body,
    /// `null` included; captures are read with [`Call::capture`]. Only for writes.
    #[must_use]
    pub const fn verbatim(mut self) -> Self {
        self.open_fields = true;
        self.verbatim = true;
        self
    }

    /// Serves the row only on mounts with the option `version` of this value. A mount without the
    /// option has the lowest version of the table.
    #[must_use]
    pub const fn api_version(mut self, version: u64) -> Self {
        self.api_version = version;
        self
    }

    /// Names the path of the same object in later versions of the API, with the captures of this
    /// path. A mount of a later version answers a request to this path with the other path.
    #[must_use]
    pub const fn successor(mut self, path: &'static str) -> Self {
        self.successor = Some(path);
        self
    }

    /// Marks a row that answers a login and needs no token. Only for writes of auth methods.
    #[must_use]
    pub const fn login(mut self) -> Self {
        self.login = true;
        self
    }

    /// Marks a row that needs no token. Only for reads and writes.
    #[must_use]
    pub const fn unauthenticated(mut self) -> Self {
        self.unauthenticated = true;
        self
    }

    /// Requires the capability `sudo` besides the ordinary capability.
    #[must_use]
    pub const fn sudo(mut self) -> Self {
        self.sudo = true;
        self
    }

    /// Sets the maximum body size in bytes, up to 32 MiB; 1 MiB by default.
    #[must_use]
    pub const fn body_limit(mut self, bytes: u64) -> Self {
        self.body_limit = bytes;
        self
    }

    /// Checks a GET against policy as `operation` instead of `read`, for a GET that changes
    /// something or lists.
    #[must_use]
    pub const fn asked_as(mut self, operation: Operation) -> Self {
        self.asked_as = Some(operation);
        self
    }

    /// Marks a row that answers a secret with a lease.
    #[must_use]
    pub const fn leases(mut self) -> Self {
        self.leases = true;
        self
    }

    /// Marks a row that calls a database plugin.
    #[must_use]
    pub const fn nested(mut self) -> Self {
        self.nested = true;
        self
    }

    /// Sets the timeout of the call in seconds. By default the listener's timeout applies (90
    /// unless set).
    #[must_use]
    pub const fn deadline(mut self, seconds: u64) -> Self {
        self.deadline = seconds;
        self
    }

    /// Returns the row as the host receives it.
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
            verbatim: self.verbatim,
            api_version: self.api_version,
            successor: self.successor.map(str::to_owned),
            login: self.login,
            unauthenticated: self.unauthenticated,
            sudo: self.sudo,
            body_limit: self.body_limit,
            asked_as: self.asked_as,
            leases: self.leases,
            nested: self.nested,
            deadline: self.deadline,
            ..Route::new(self.verb, self.path, self.about)
        }
    }
}

/// Serves `call` by its row.
///
/// # Errors
/// The failure of the handler; unsupported operation if no row with a handler matches.
pub fn dispatch(table: &[Row], host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let verb = verb(call.operation);
    let row = table.iter().find(|row| row.verb == verb && row.path == call.route);
    let Some(handler) = row.and_then(|row| row.handler) else {
        let message =
            format!("{} on {:?} is not served by this plugin", call.operation.word(), call.route);
        return Err(Failure::new(FailureKind::UnsupportedOperation, message));
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
mod tests;
