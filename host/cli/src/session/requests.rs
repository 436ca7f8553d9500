//! Requests of a running command.

use super::Session;
use crate::client::{self, AskError, RequestCaller, ServerAnswer, ServerRequest};
use crate::curl;
use crate::download::{self, AnswerPace};
use crate::problem::CommandProblem;
use crate::refusal::{self, RefusalContext, TokenSource};
use crate::sample_policy;
use crate::settings;
use crate::upload;
use bulkhead_wire::secret::Secret;
use hyper::Method;
use serde_json::Value;
use std::io::Write;
use std::path::Path;

/// The identity that a request is made with.
pub(crate) enum RequestIdentity {
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
    pub(crate) fn ask(
        &self,
        doing: &str,
        call: &ServerRequest,
    ) -> Result<ServerAnswer, CommandProblem> {
        self.ask_until(doing, call, |_| true)
    }

    /// Asks the server with another identity.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn ask_as(
        &self,
        identity: RequestIdentity,
        doing: &str,
        call: &ServerRequest,
    ) -> Result<ServerAnswer, CommandProblem> {
        let access = match identity {
            RequestIdentity::Own => self.token_source(),
            RequestIdentity::Anonymous => TokenSource::Login,
            RequestIdentity::Token(_) => TokenSource::Token,
        };
        let caller = self.caller_of_shown(identity)?;
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
        call: &ServerRequest,
        last: impl Fn(&ServerAnswer) -> bool,
    ) -> Result<ServerAnswer, CommandProblem> {
        let answer = self.send(&self.caller_of_shown(RequestIdentity::Own)?, doing, call, &last)?;
        match is_success(&answer) {
            true => Ok(answer),
            false if call.is_login() => Err(self.refusal_of(TokenSource::Login, doing, &answer)),
            false => Err(self.refusal(doing, &answer)),
        }
    }

    /// Asks the server for something that may be missing. A 404 without an error is `None`. A 404
    /// with data, such as the metadata of a deleted version, is an answer.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn find(
        &self,
        doing: &str,
        call: &ServerRequest,
    ) -> Result<Option<ServerAnswer>, CommandProblem> {
        let answer = self.try_asking(doing, call)?;
        self.found(doing, answer)
    }

    /// Asks as [`Self::find`] does, for an answer that the command reads itself: the answer is
    /// never wrapped.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn find_unwrapped(
        &self,
        doing: &str,
        call: &ServerRequest,
    ) -> Result<Option<ServerAnswer>, CommandProblem> {
        let answer = self.send(&self.caller(RequestIdentity::Own)?, doing, call, &|_| true)?;
        self.found(doing, answer)
    }

    /// Asks as [`Self::find_unwrapped`] does, also if `-output-curl-string` or `-output-policy`
    /// wants the command's request printed: the request depends on this answer.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn find_before(
        &self,
        doing: &str,
        call: &ServerRequest,
    ) -> Result<Option<ServerAnswer>, CommandProblem> {
        let answer = self.transmit(&self.caller(RequestIdentity::Own)?, doing, call, &|_| true)?;
        self.found(doing, answer)
    }

    /// Asks the server and returns the answer of any status.
    ///
    /// # Errors
    /// No answer.
    pub(crate) fn try_asking(
        &self,
        doing: &str,
        call: &ServerRequest,
    ) -> Result<ServerAnswer, CommandProblem> {
        self.send(&self.caller_of_shown(RequestIdentity::Own)?, doing, call, &|_| true)
    }

    /// Asks for an answer of any length, and writes its bytes to `sink`.
    ///
    /// # Errors
    /// As [`Self::ask`]. `sink` may have a part of the answer.
    pub(crate) fn download(
        &self,
        doing: &str,
        call: &ServerRequest,
        sink: &mut dyn Write,
    ) -> Result<(), CommandProblem> {
        let caller = self.caller_of_shown(RequestIdentity::Own)?;
        self.print_instead(&caller, call)?;
        let sink = (sink, AnswerPace::Steady);
        let answer = download::download((&self.server, &self.trust), &caller, call, sink);
        self.accept(doing, answer.map_err(|error| unanswered(doing, error))?).map(drop)
    }

    /// Asks for an answer without an end, and prints its bytes when they come.
    ///
    /// # Errors
    /// As [`Self::ask`]. A part of the answer may be printed.
    pub(crate) fn follow(
        &mut self,
        doing: &str,
        call: &ServerRequest,
    ) -> Result<(), CommandProblem> {
        let caller = self.caller_of_shown(RequestIdentity::Own)?;
        self.print_instead(&caller, call)?;
        let stdout: &mut dyn Write = &mut *self.io.stdout;
        let sink = (stdout, AnswerPace::AsItHappens);
        let answer = download::download((&self.server, &self.trust), &caller, call, sink);
        self.accept(doing, answer.map_err(|error| unanswered(doing, error))?).map(drop)
    }

    /// Sends a request with the content of `file` as the body, which is read while it is sent.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn upload(
        &self,
        doing: &str,
        call: &ServerRequest,
        file: &Path,
    ) -> Result<ServerAnswer, CommandProblem> {
        let caller = self.caller_of_shown(RequestIdentity::Own)?;
        self.print_instead(&caller, call)?;
        let answer = upload::upload((&self.server, &self.trust), &caller, call, file);
        self.accept(doing, answer.map_err(|error| unanswered(doing, error))?)
    }

    /// Returns the refusal that `answer` is.
    #[must_use]
    pub(crate) fn refusal(&self, doing: &str, answer: &ServerAnswer) -> CommandProblem {
        self.refusal_of(self.token_source(), doing, answer)
    }

    fn token_source(&self) -> TokenSource {
        let has_token = settings::token(self.io.env).is_ok_and(|token| token.is_some());
        if has_token { TokenSource::Token } else { TokenSource::Missing }
    }

    fn refusal_of(
        &self,
        access: TokenSource,
        doing: &str,
        answer: &ServerAnswer,
    ) -> CommandProblem {
        let is_initialised = if refusal::is_sealed(answer) { self.is_initialised() } else { None };
        let circumstances = RefusalContext { access, is_initialised };
        CommandProblem::refused(doing, refusal::describe(answer, &self.server, circumstances))
    }

    /// Asks a sealed server whether it has keys. No answer is not a reason for another error.
    fn is_initialised(&self) -> Option<bool> {
        let caller = self.caller(RequestIdentity::Anonymous).ok()?;
        let call = ServerRequest::new(Method::GET, "sys/seal-status");
        let answer = self.transmit(&caller, "asking for the seal", &call, &|_| true).ok()?;
        answer.body.get("initialized").and_then(Value::as_bool)
    }

    fn found(
        &self,
        doing: &str,
        answer: ServerAnswer,
    ) -> Result<Option<ServerAnswer>, CommandProblem> {
        let has_data = answer.body.get("data").is_some_and(|data| !data.is_null());
        let errors = answer.body.get("errors").and_then(Value::as_array);
        match answer.status {
            404 if has_data => Ok(Some(answer)),
            404 if errors.is_none_or(Vec::is_empty) => Ok(None),
            _ => self.accept(doing, answer).map(Some),
        }
    }

    fn accept(&self, doing: &str, answer: ServerAnswer) -> Result<ServerAnswer, CommandProblem> {
        if is_success(&answer) { Ok(answer) } else { Err(self.refusal(doing, &answer)) }
    }

    fn caller(&self, identity: RequestIdentity) -> Result<RequestCaller, CommandProblem> {
        let token = match identity {
            RequestIdentity::Own => settings::token(self.io.env)?,
            RequestIdentity::Anonymous => None,
            RequestIdentity::Token(token) => Some(token),
        };
        let namespace = settings::namespace(self.io.env)?;
        Ok(RequestCaller { token, namespace, headers: self.headers.clone() })
    }

    /// Returns the caller of a request whose answer is printed: the answer is wrapped if the
    /// settings say so.
    fn caller_of_shown(&self, identity: RequestIdentity) -> Result<RequestCaller, CommandProblem> {
        let mut caller = self.caller(identity)?;
        if let Some(time) = &self.wrapping_time {
            self.wrapping.check()?;
            caller.headers.push(time.clone());
        }
        Ok(caller)
    }

    /// Sends the request, or prints it for `-output-curl-string` or `-output-policy`.
    fn send(
        &self,
        caller: &RequestCaller,
        doing: &str,
        call: &ServerRequest,
        last: &dyn Fn(&ServerAnswer) -> bool,
    ) -> Result<ServerAnswer, CommandProblem> {
        self.print_instead(caller, call)?;
        self.transmit(caller, doing, call, last)
    }

    /// Ends the command with the text for `-output-curl-string` or `-output-policy`.
    fn print_instead(
        &self,
        caller: &RequestCaller,
        call: &ServerRequest,
    ) -> Result<(), CommandProblem> {
        if self.options.switch("output-curl-string") {
            let line = curl::line((&self.server, &self.trust), caller, call);
            return Err(CommandProblem::instead_of_asking(line));
        }
        if self.options.switch("output-policy") {
            return Err(CommandProblem::instead_of_asking(sample_policy::text(call)));
        }
        Ok(())
    }

    fn transmit(
        &self,
        caller: &RequestCaller,
        doing: &str,
        call: &ServerRequest,
        last: &dyn Fn(&ServerAnswer) -> bool,
    ) -> Result<ServerAnswer, CommandProblem> {
        let server = (&self.server, &self.trust);
        let answer =
            client::ask(server, caller, call, &|answer| !is_success(answer) || last(answer));
        answer.map_err(|error| unanswered(doing, error))
    }
}

fn unanswered(doing: &str, error: AskError) -> CommandProblem {
    match error {
        AskError::Unreachable(why) => CommandProblem::unreachable(doing, why),
        AskError::InvalidAnswer(why) => CommandProblem::refused(doing, why),
    }
}

fn is_success(answer: &ServerAnswer) -> bool {
    (200..300).contains(&answer.status)
}
