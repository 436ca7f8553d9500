//! How the files of this folder write the rows of the host's table:
//! `read("sys/key-status", "the key that seals now").handled_by(key_status)`.

use super::call::{Call, PublicCall, SealedCall};
use super::handler::{Handle, Handler, PublicHandler, SealedHandler};
use super::reply::Reply;
use bulkhead_sandbox::Effect;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::response::Response;

/// An endpoint of the host: its row, and what answers it to whom.
pub(crate) struct Endpoint {
    pub(crate) route: Route,
    pub(crate) answers: Answers,
}

/// Whom an endpoint answers.
pub(crate) enum Answers {
    /// Callers with a token whose policies allow it.
    Permitted {
        handler: Handler,
        /// What it may do to the world besides its unit of work.
        effect: Effect,
        /// It is served also when no audit device records it.
        goes_unrecorded: bool,
    },
    /// Every caller, while the service is open.
    WithoutToken(PublicHandler),
    /// Every caller, while sealed too.
    WhileSealed(SealedHandler),
}

/// A row without its handler.
pub(super) struct Row {
    route: Route,
    effect: Effect,
    goes_unrecorded: bool,
}

/// A row for GET.
pub(super) fn read(path: &str, about: &str) -> Row {
    Row::new(Verb::Read, path, about)
}

/// A row for POST and PUT.
pub(super) fn write(path: &str, about: &str) -> Row {
    Row::new(Verb::Write, path, about)
}

/// A row for DELETE.
pub(super) fn delete(path: &str, about: &str) -> Row {
    Row::new(Verb::Delete, path, about)
}

/// A row for LIST.
pub(super) fn list(path: &str, about: &str) -> Row {
    Row::new(Verb::List, path, about)
}

impl Row {
    fn new(verb: Verb, path: &str, about: &str) -> Self {
        let route = Route::new(verb, path, about);
        Self { route, effect: Effect::Pure, goes_unrecorded: false }
    }

    /// Captures and body fields.
    pub(super) fn fields(mut self, fields: impl IntoIterator<Item = Field>) -> Self {
        self.route.fields.extend(fields);
        self
    }

    /// The storage key whose presence makes a write an update.
    pub(super) fn existence(mut self, key: &str) -> Self {
        self.route.existence = Some(key.to_owned());
        self
    }

    /// Its body is bytes, at most so many, and its fields are in the query.
    pub(super) fn takes_bytes(mut self, most: u64) -> Self {
        (self.route.raw, self.route.body_limit) = (true, most);
        self
    }

    /// Needs `sudo` besides the ordinary capability (decision H12).
    pub(super) fn needs_sudo(mut self) -> Self {
        self.route.sudo = true;
        self
    }

    /// It may change something outside of its unit of work, so that it is not run again after a
    /// conflict: to try again is for the caller.
    pub(super) fn with_effect(mut self) -> Self {
        self.effect = Effect::Effect;
        self
    }

    /// It hands nothing out and only closes the service, so that it is served also when no audit
    /// device records it.
    pub(super) fn goes_unrecorded(mut self) -> Self {
        self.goes_unrecorded = true;
        self
    }

    /// Answers callers whose policies allow it.
    pub(super) fn handled_by(
        self,
        handler: impl for<'a> Handle<'a, Call<'a>, Reply> + 'static,
    ) -> Endpoint {
        let Self { route, effect, goes_unrecorded } = self;
        let handler: Handler = Box::new(handler);
        Endpoint { route, answers: Answers::Permitted { handler, effect, goes_unrecorded } }
    }

    /// Answers every caller, with a token or without, while the service is open.
    pub(super) fn without_a_token(
        self,
        handler: impl for<'a> Handle<'a, PublicCall<'a>, Response> + 'static,
    ) -> Endpoint {
        self.public(Answers::WithoutToken(Box::new(handler)))
    }

    /// Answers every caller, while sealed too.
    pub(super) fn while_sealed(
        self,
        handler: impl for<'a> Handle<'a, SealedCall<'a>, Response> + 'static,
    ) -> Endpoint {
        self.public(Answers::WhileSealed(Box::new(handler)))
    }

    fn public(self, answers: Answers) -> Endpoint {
        Endpoint { route: Route { unauthenticated: true, ..self.route }, answers }
    }
}

/// A field that may be left out.
pub(super) fn field(name: &str, kind: FieldKind, about: &str) -> Field {
    Field::new(name, kind, about)
}

/// A field that must be given.
pub(super) fn required(name: &str, kind: FieldKind, about: &str) -> Field {
    field(name, kind, about).required()
}
