//! Builder for the rows of the host's table:
//! `read("sys/key-status", "the present sealing key").handled_by(key_status)`.

use super::call::{PermittedCall, PresentQuestion, PublicCall, SealedCall};
use super::handler::{AsyncHandler, PermittedHandler, PresentReader, PublicHandler, SealedHandler};
use super::reply::Reply;
use bulkhead_sandbox::SideEffect;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use bulkhead_wire::response::Response;
use serde_json::{Map, Value};

/// An endpoint of the host: row and handler.
pub(crate) struct Endpoint {
    pub(crate) route: Route,
    pub(crate) answers: EndpointHandler,
    /// Reads the present values of the fields that need `sudo`. `None`: the record of the row's
    /// `existence` has the values.
    pub(crate) present: Option<PresentReader>,
    /// The body has any size and form, and is stored in a file.
    pub(crate) takes_file: bool,
}

impl Endpoint {
    /// Returns whether the endpoint is served without a record. Such an endpoint closes the
    /// service.
    pub(crate) fn goes_unrecorded(&self) -> bool {
        matches!(self.answers, EndpointHandler::Permitted { goes_unrecorded: true, .. })
    }
}

/// The handler of an endpoint, by the callers that the endpoint answers.
pub(crate) enum EndpointHandler {
    /// Callers with a token and with permission for the request.
    Permitted {
        handler: PermittedHandler,
        /// Changes that the handler may make outside the unit of work.
        effect: SideEffect,
        /// The endpoint is served even if no audit device records the request.
        goes_unrecorded: bool,
    },
    /// Every caller, while the service is open.
    WithoutToken(PublicHandler),
    /// Every caller, also while sealed.
    WhileSealed(SealedHandler),
}

/// A row without its handler.
pub(super) struct EndpointBuilder {
    route: Route,
    effect: SideEffect,
    goes_unrecorded: bool,
    present: Option<PresentReader>,
    takes_file: bool,
}

/// Begins a row for GET.
pub(super) fn read(path: &str, about: &str) -> EndpointBuilder {
    EndpointBuilder::new(Verb::Read, path, about)
}

/// Begins a row for POST and PUT.
pub(super) fn write(path: &str, about: &str) -> EndpointBuilder {
    EndpointBuilder::new(Verb::Write, path, about)
}

/// Begins a row for DELETE.
pub(super) fn delete(path: &str, about: &str) -> EndpointBuilder {
    EndpointBuilder::new(Verb::Delete, path, about)
}

/// Begins a row for LIST.
pub(super) fn list(path: &str, about: &str) -> EndpointBuilder {
    EndpointBuilder::new(Verb::List, path, about)
}

impl EndpointBuilder {
    fn new(verb: Verb, path: &str, about: &str) -> Self {
        let route = Route::new(verb, path, about);
        let effect = SideEffect::Pure;
        Self { route, effect, goes_unrecorded: false, present: None, takes_file: false }
    }

    /// Adds captures and body fields.
    pub(super) fn fields(mut self, fields: impl IntoIterator<Item = Field>) -> Self {
        self.route.fields.extend(fields);
        self
    }

    /// Sets the storage key. If the key is present, a write is an update.
    pub(super) fn existence(mut self, key: &str) -> Self {
        self.route.existence = Some(key.to_owned());
        self
    }

    /// Also takes a body of at most `most` bytes; the fields are then in the query.
    pub(super) fn takes_bytes(mut self, most: u64) -> Self {
        (self.route.raw, self.route.body_limit) = (true, most);
        self
    }

    /// Reads body fields of any name.
    pub(super) fn open_fields(mut self) -> Self {
        self.route.open_fields = true;
        self
    }

    /// Requires `sudo` besides the ordinary capability (decision H12).
    pub(super) fn needs_sudo(mut self) -> Self {
        self.route.sudo = true;
        self
    }

    /// Takes a body of any size and form, which is stored in a file, from callers with permission
    /// for the request.
    pub(super) fn takes_file(mut self) -> Self {
        self.takes_file = true;
        self
    }

    /// Sets the function for reading the present values of the fields that need `sudo`.
    pub(super) fn with_present_values(
        mut self,
        reader: impl for<'a> AsyncHandler<'a, PresentQuestion<'a>, Map<String, Value>> + 'static,
    ) -> Self {
        self.present = Some(Box::new(reader));
        self
    }

    /// Marks the handler as able to change something outside its unit of work. The request is then
    /// not run again after a conflict; the caller decides whether to retry.
    pub(super) fn with_effect(mut self) -> Self {
        self.effect = SideEffect::Effect;
        self
    }

    /// Serves the endpoint even if no audit device records the request. Only for an endpoint that
    /// hands nothing out and closes the service.
    pub(super) fn goes_unrecorded(mut self) -> Self {
        self.goes_unrecorded = true;
        self
    }

    /// Answers callers with permission for the request.
    pub(super) fn handled_by(
        self,
        handler: impl for<'a> AsyncHandler<'a, PermittedCall<'a>, Reply> + 'static,
    ) -> Endpoint {
        let Self { route, effect, goes_unrecorded, present, takes_file } = self;
        let handler: PermittedHandler = Box::new(handler);
        let answers = EndpointHandler::Permitted { handler, effect, goes_unrecorded };
        Endpoint { route, answers, present, takes_file }
    }

    /// Answers every caller, with or without a token, while the service is open.
    pub(super) fn without_a_token(
        self,
        handler: impl for<'a> AsyncHandler<'a, PublicCall<'a>, Response> + 'static,
    ) -> Endpoint {
        self.public(EndpointHandler::WithoutToken(Box::new(handler)))
    }

    /// Answers every caller, also while sealed.
    pub(super) fn while_sealed(
        self,
        handler: impl for<'a> AsyncHandler<'a, SealedCall<'a>, Response> + 'static,
    ) -> Endpoint {
        self.public(EndpointHandler::WhileSealed(Box::new(handler)))
    }

    fn public(self, answers: EndpointHandler) -> Endpoint {
        let route = Route { unauthenticated: true, ..self.route };
        Endpoint { route, answers, present: None, takes_file: false }
    }
}

/// Creates an optional field.
pub(super) fn field(name: &str, kind: FieldKind, about: &str) -> Field {
    Field::new(name, kind, about)
}

/// Creates a required field.
pub(super) fn required(name: &str, kind: FieldKind, about: &str) -> Field {
    field(name, kind, about).required()
}
