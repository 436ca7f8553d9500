//! Requests of a running command.

use super::Session;
use crate::client::{self, Answer, AskError, Call, Caller};
use crate::curl;
use crate::problem::Problem;
use crate::refusal::{self, Access, Circumstances};
use crate::settings;
use bulkhead_wire::secret::Secret;
use hyper::Method;
use serde_json::Value;

/// The identity that a request is made with.
pub(crate) enum Identity {
    /// The token of the settings.
    Own,
    /// No token, as for a login.
    Anonymous,
    /// Another token.
    Token(Secret),
}

impl Session<'_, '_> {
    /// Asks the server. `doing` names the action for the error message, for example `reading
    /// database/config/orders`.
    ///
    /// # Errors
    /// Every answer other than 2xx, with the server's message.
    pub(crate) fn ask(&self, doing: &str, call: &Call) -> Result<Answer, Problem> {
        self.ask_until(doing, call, |_| true)
    }

    /// Asks the server with another identity.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn ask_as(
        &self,
        identity: Identity,
        doing: &str,
        call: &Call,
    ) -> Result<Answer, Problem> {
        let access = match identity {
            Identity::Own => self.access(),
            Identity::Anonymous => Access::Login,
            Identity::Token(_) => Access::Token,
        };
        let caller = self.caller(identity)?;
        let answer = self.send(&caller, doing, call, &|_| true)?;
        if is_success(&answer) { Ok(answer) } else { Err(self.refusal_of(access, doing, &answer)) }
    }

    /// Asks the server repeatedly until `last` accepts an answer.
    ///
    /// # Errors
    /// As [`Self::ask`], for the first answer other than 2xx.
    pub(crate) fn ask_until(
        &self,
        doing: &str,
        call: &Call,
        last: impl Fn(&Answer) -> bool,
    ) -> Result<Answer, Problem> {
        let answer = self.send(&self.caller(Identity::Own)?, doing, call, &last)?;
        self.accept(doing, answer)
    }

    /// Asks the server for something that may be missing. A 404 without an error is `None`. A 404
    /// with data, such as the metadata of a deleted version, is an answer.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn find(&self, doing: &str, call: &Call) -> Result<Option<Answer>, Problem> {
        let answer = self.try_asking(doing, call)?;
        self.found(doing, answer)
    }

    /// Asks as [`Self::find`] does, also if `-output-curl-string` wants the command's request
    /// printed: the request depends on this answer.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn find_before(&self, doing: &str, call: &Call) -> Result<Option<Answer>, Problem> {
        let answer = self.transmit(&self.caller(Identity::Own)?, doing, call, &|_| true)?;
        self.found(doing, answer)
    }

    /// Asks the server and returns the answer of any status.
    ///
    /// # Errors
    /// No answer.
    pub(crate) fn try_asking(&self, doing: &str, call: &Call) -> Result<Answer, Problem> {
        self.send(&self.caller(Identity::Own)?, doing, call, &|_| true)
    }

    /// Returns the refusal that `answer` is.
    #[must_use]
    pub(crate) fn refusal(&self, doing: &str, answer: &Answer) -> Problem {
        self.refusal_of(self.access(), doing, answer)
    }

    fn access(&self) -> Access {
        let has_token = settings::token(self.io.env).is_ok_and(|token| token.is_some());
        if has_token { Access::Token } else { Access::Missing }
    }

    fn refusal_of(&self, access: Access, doing: &str, answer: &Answer) -> Problem {
        let is_initialised = if refusal::is_sealed(answer) { self.is_initialised() } else { None };
        let circumstances = Circumstances { access, is_initialised };
        Problem::refused(doing, refusal::describe(answer, &self.server, circumstances))
    }

    /// Asks a sealed server whether it has keys. No answer is no reason for another error.
    fn is_initialised(&self) -> Option<bool> {
        let caller = self.caller(Identity::Anonymous).ok()?;
        let call = Call::new(Method::GET, "sys/seal-status");
        let answer = self.transmit(&caller, "asking for the seal", &call, &|_| true).ok()?;
        answer.body.get("initialized").and_then(Value::as_bool)
    }

    fn found(&self, doing: &str, answer: Answer) -> Result<Option<Answer>, Problem> {
        let has_data = answer.body.get("data").is_some_and(|data| !data.is_null());
        let errors = answer.body.get("errors").and_then(Value::as_array);
        match answer.status {
            404 if has_data => Ok(Some(answer)),
            404 if errors.is_none_or(Vec::is_empty) => Ok(None),
            _ => self.accept(doing, answer).map(Some),
        }
    }

    fn accept(&self, doing: &str, answer: Answer) -> Result<Answer, Problem> {
        if is_success(&answer) { Ok(answer) } else { Err(self.refusal(doing, &answer)) }
    }

    fn caller(&self, identity: Identity) -> Result<Caller, Problem> {
        let token = match identity {
            Identity::Own => settings::token(self.io.env)?,
            Identity::Anonymous => None,
            Identity::Token(token) => Some(token),
        };
        let namespace = settings::namespace(self.io.env)?;
        Ok(Caller { token, namespace, headers: self.headers.clone() })
    }

    /// Sends the request, or prints it for `-output-curl-string`.
    fn send(
        &self,
        caller: &Caller,
        doing: &str,
        call: &Call,
        last: &dyn Fn(&Answer) -> bool,
    ) -> Result<Answer, Problem> {
        if self.options.switch("output-curl-string") {
            let line = curl::line((&self.server, &self.trust), caller, call);
            return Err(Problem::instead_of_asking(line));
        }
        self.transmit(caller, doing, call, last)
    }

    fn transmit(
        &self,
        caller: &Caller,
        doing: &str,
        call: &Call,
        last: &dyn Fn(&Answer) -> bool,
    ) -> Result<Answer, Problem> {
        let asked = (&self.server, &self.trust);
        let answer =
            client::ask(asked, caller, call, &|answer| !is_success(answer) || last(answer));
        answer.map_err(|error| match error {
            AskError::Unreachable(why) => Problem::unreachable(doing, why),
            AskError::InvalidAnswer(why) => Problem::refused(doing, why),
        })
    }
}

fn is_success(answer: &Answer) -> bool {
    (200..300).contains(&answer.status)
}
