//! A single run of a command: its options, its server and its output.

mod requests;

pub(crate) use requests::RequestIdentity;

use crate::client::{ExtraHeader, ServerAddress, ServerAnswer};
use crate::input;
use crate::io::{CommandIo, RestorePlace};
use crate::keyboard;
use crate::options::{OutputFormat, ParsedOptions};
use crate::output;
use crate::problem::CommandProblem;
use crate::settings;
use crate::tls::TlsTrust;
use crate::wrapping::AnswerWrapping;
use bulkhead_wire::secret::Secret;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The environment of a running command.
pub(crate) struct Session<'a, 'io> {
    /// The parsed command line.
    pub(crate) options: ParsedOptions,
    misuse: CommandProblem,
    server: ServerAddress,
    trust: TlsTrust,
    headers: Vec<ExtraHeader>,
    wrapping: AnswerWrapping,
    /// The header that asks for a wrapped answer.
    wrapping_time: Option<ExtraHeader>,
    io: &'a mut CommandIo<'io>,
}

impl<'a, 'io> Session<'a, 'io> {
    /// Prepares a run without asking the server. The command gives its effect of a wrapping time,
    /// and the problem for arguments that do not fit.
    ///
    /// # Errors
    /// An invalid address, format, header or TLS setting; an option that this version does not
    /// serve.
    pub(crate) fn new(
        (wrapping, misuse): (AnswerWrapping, CommandProblem),
        mut options: ParsedOptions,
        io: &'a mut CommandIo<'io>,
    ) -> Result<Self, CommandProblem> {
        settings::refuse_unserved(&options)?;
        options.format = Some(settings::format(&options, io.env)?);
        let headers = settings::headers(&options)?;
        let wrapping_time = settings::wrapping(&options, io.env)?;
        if wrapping == AnswerWrapping::Offline && options.value("wrap-ttl").is_some() {
            return Err(CommandProblem::usage(
                "this command asks no server, so there is no answer to wrap; leave -wrap-ttl out",
            ));
        }
        let server = settings::server(options.address.as_deref(), io.env)?;
        let trust = settings::read_trust(&options, io.env)?;
        if trust.skip_verify && matches!(server, ServerAddress::Network { is_encrypted: true, .. })
        {
            // If standard error is closed, the warning has no reader.
            let warning = "warning: the server's certificate is not checked (-tls-skip-verify)";
            writeln!(io.stderr, "{warning}").unwrap_or_default();
        }
        Ok(Self { options, misuse, server, trust, headers, wrapping, wrapping_time, io })
    }

    /// Returns the arguments if there are exactly `N`.
    ///
    /// # Errors
    /// Another number of arguments.
    pub(crate) fn words<const N: usize>(&self) -> Result<[String; N], CommandProblem> {
        <[String; N]>::try_from(self.options.words.clone()).map_err(|_| self.usage_problem())
    }

    /// Returns the only argument, if present.
    ///
    /// # Errors
    /// More than 1 argument.
    pub(crate) fn at_most_one_word(&self) -> Result<Option<String>, CommandProblem> {
        match self.options.words.as_slice() {
            [] => Ok(None),
            [word] => Ok(Some(word.clone())),
            _ => Err(self.usage_problem()),
        }
    }

    /// Returns the first argument, which is a path, and the rest.
    ///
    /// # Errors
    /// No argument.
    pub(crate) fn path_and_rest(&self) -> Result<(String, Vec<String>), CommandProblem> {
        let (path, rest) = self.options.words.split_first().ok_or_else(|| self.usage_problem())?;
        Ok((path.trim_matches('/').to_owned(), rest.to_vec()))
    }

    /// Returns the problem that explains the command's usage.
    #[must_use]
    pub(crate) fn usage_problem(&self) -> CommandProblem {
        self.misuse.clone()
    }

    /// Parses `k=v` arguments, with values from files and standard input.
    ///
    /// # Errors
    /// See [`input::fields`].
    pub(crate) fn fields(
        &mut self,
        words: &[String],
    ) -> Result<Map<String, Value>, CommandProblem> {
        input::fields(words, self.io.stdin).map_err(CommandProblem::usage)
    }

    /// Reads the text of a file, or of standard input for `-`.
    ///
    /// # Errors
    /// A source that cannot be read.
    pub(crate) fn text(&mut self, word: &str) -> Result<String, CommandProblem> {
        input::text(word, self.io.stdin).map_err(CommandProblem::usage)
    }

    /// Reads the bytes of a file, or of standard input for `-`.
    ///
    /// # Errors
    /// A source that cannot be read.
    pub(crate) fn bytes(&mut self, word: &str) -> Result<Vec<u8>, CommandProblem> {
        input::bytes(word, self.io.stdin).map_err(CommandProblem::usage)
    }

    /// Reads a secret without showing it: asks at the terminal, or reads all of standard input if
    /// there is no terminal.
    ///
    /// # Errors
    /// A terminal or standard input that cannot be read.
    pub(crate) fn secret(&mut self, question: &str) -> Result<Secret, CommandProblem> {
        let Some(hide) = self.io.hide else {
            return self.text("-").map(Secret::new);
        };
        if self.options.switch("non-interactive") {
            return Err(CommandProblem::usage(format!(
                "{question}: -non-interactive asks nothing; give the secret on standard input"
            )));
        }
        let answered = keyboard::ask(question, hide, self.io.stdin, self.io.stderr);
        answered.map_err(|error| {
            CommandProblem::usage(format!(
                "the terminal cannot be asked: {error}; use standard input"
            ))
        })
    }

    /// Asks for the word `yes` at the terminal, which must be [interactive](Self::is_interactive).
    ///
    /// # Errors
    /// A terminal that cannot be read.
    pub(crate) fn agrees(&mut self, question: &str) -> Result<bool, CommandProblem> {
        let question = crate::terminal::escape_controls(question);
        let answer = keyboard::ask_openly(&question, self.io.stdin, self.io.stderr);
        let answer = answer.map_err(|error| {
            CommandProblem::usage(format!("the terminal cannot be asked: {error}"))
        })?;
        Ok(answer.trim() == "yes")
    }

    /// Tells if somebody at the terminal can be asked about the command's request. A request that
    /// is printed changes nothing, so nothing is asked.
    pub(crate) fn is_interactive(&self) -> bool {
        let is_printed = ["output-curl-string", "output-policy"]
            .iter()
            .any(|option| self.options.switch(option));
        self.io.hide.is_some() && !is_printed && !self.options.switch("non-interactive")
    }

    /// Returns `typed`, or asks with [`Self::secret`] if `typed` is absent or `-`. The result is a
    /// single word. `noun` names the secret, for example `unseal key`.
    ///
    /// # Errors
    /// No word or several words; see [`Self::secret`].
    pub(crate) fn secret_word(
        &mut self,
        typed: Option<&str>,
        noun: &str,
    ) -> Result<String, CommandProblem> {
        if let Some(word) = typed.filter(|word| *word != "-") {
            return Ok(word.to_owned());
        }
        let secret = self.secret(&format!("Type the {noun} (not shown)"))?;
        let mut words = secret.expose().split_whitespace();
        match (words.next(), words.next()) {
            (Some(word), None) => Ok(word.to_owned()),
            (None, _) => Err(CommandProblem::usage(format!(
                "no {noun} was given; type the {noun} when asked, or use standard input"
            ))),
            (Some(_), Some(_)) => Err(CommandProblem::usage(format!(
                "several words were given; give a single {noun} at a time"
            ))),
        }
    }

    /// Prints the answer in the requested format: table, JSON or a single field.
    ///
    /// # Errors
    /// A field that is not in the answer; standard output that cannot be written.
    pub(crate) fn show(&mut self, answer: &ServerAnswer) -> Result<u8, CommandProblem> {
        self.warn(answer);
        let text = output::render(answer, &self.options, self.io.terminal)?;
        self.print(&text)
    }

    /// Prints `rows`. For programs or a single field, prints the answer itself.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub(crate) fn show_rows(
        &mut self,
        answer: &ServerAnswer,
        rows: output::TableRows,
    ) -> Result<u8, CommandProblem> {
        if !self.options.is_for_people() || output::is_wrapped(&answer.body) {
            return self.show(answer);
        }
        self.warn(answer);
        self.print(&output::table(&rows))
    }

    /// Prints only `part` of the answer: as its table form `text`, or for programs.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub(crate) fn show_part(
        &mut self,
        answer: &ServerAnswer,
        part: &Value,
        text: &str,
    ) -> Result<u8, CommandProblem> {
        if self.options.field.is_some() || output::is_wrapped(&answer.body) {
            return self.show(answer);
        }
        self.warn(answer);
        match self.options.format() {
            OutputFormat::Table => self.print(text),
            OutputFormat::Raw => self.print(&output::document(OutputFormat::Raw, &answer.body)),
            format => self.print(&output::document(format, part)),
        }
    }

    /// Prints `text`, which is the table form of the answer, below the server's warnings.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub(crate) fn show_text(
        &mut self,
        answer: &ServerAnswer,
        text: &str,
    ) -> Result<u8, CommandProblem> {
        self.warn(answer);
        self.print(text)
    }

    /// Prints the answer, or `done` if the answer holds only warnings.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub(crate) fn show_or(
        &mut self,
        answer: &ServerAnswer,
        done: &str,
    ) -> Result<u8, CommandProblem> {
        if answer.body.is_null() {
            return self.confirm(done);
        }
        let is_empty = !answer.body.is_string() && output::rows(&answer.body).is_empty();
        if self.options.is_for_people() && is_empty {
            self.warn(answer);
            return self.confirm(done);
        }
        self.show(answer)
    }

    /// Prints the server's warnings in table format. Programs find the warnings in the answer.
    fn warn(&mut self, answer: &ServerAnswer) {
        if self.wrapping_time.is_some()
            && let Some(warning) = self.wrapping.warning(answer)
        {
            self.note(warning);
        }
        if self.options.format() == OutputFormat::Table {
            for warning in output::warnings(answer) {
                self.note(&format!("warning: {warning}"));
            }
        }
    }

    /// Stores a token for the next commands and returns the file.
    ///
    /// # Errors
    /// See [`settings::store_token`].
    pub(crate) fn store_token(&self, token: &Secret) -> Result<PathBuf, CommandProblem> {
        settings::store_token(token, self.io.env)
    }

    /// Returns the variable that overrides the stored token, if one is set.
    #[must_use]
    pub(crate) fn token_variable(&self) -> Option<&'static str> {
        settings::token_variable(self.io.env)
    }

    /// Returns the token of the settings.
    ///
    /// # Errors
    /// See [`settings::token`].
    pub(crate) fn token(&self) -> Result<Option<Secret>, CommandProblem> {
        settings::token(self.io.env)
    }

    /// Wraps the answers for `time` unless the user says another time.
    pub(crate) fn wrap_for(&mut self, time: &'static str) {
        let header = HeaderName::from_static(settings::WRAP_HEADER);
        self.wrapping_time.get_or_insert((header, HeaderValue::from_static(time)));
    }

    /// Checks the file of a snapshot. Returns a line about the snapshot.
    ///
    /// # Errors
    /// The reason why the file is not a complete snapshot.
    pub(crate) fn inspect_snapshot(&self, file: &Path) -> Result<String, String> {
        (self.io.inspect_snapshot)(file)
    }

    /// Restores a snapshot into the data of a server that does not run. `replaces` data at the
    /// place, if there are any. Returns a line about the place and the snapshot.
    ///
    /// # Errors
    /// The reason why the data are unchanged.
    pub(crate) fn restore_data(
        &self,
        place: RestorePlace<'_>,
        snapshot: &Path,
        replaces: bool,
    ) -> Result<String, String> {
        (self.io.restore_data)(place, snapshot, replaces)
    }

    /// Prints a note on standard error.
    pub(crate) fn note(&mut self, text: &str) {
        // A closed standard error must not suppress the answer.
        writeln!(self.io.stderr, "{}", crate::terminal::escape_controls(text)).unwrap_or_default();
    }

    /// Prints `done` in table format. For programs nothing is printed: programs read the exit
    /// code.
    ///
    /// # Errors
    /// Standard output that cannot be written; a requested field, because the answer is empty.
    pub(crate) fn confirm(&mut self, done: &str) -> Result<u8, CommandProblem> {
        if let Some(field) = &self.options.field {
            return Err(CommandProblem {
                code: 1,
                message: format!("Error: the answer has no field {field:?}: the answer is empty"),
            });
        }
        if self.options.format() != OutputFormat::Table {
            return Ok(0);
        }
        let line = format!("{}\n", crate::terminal::escape_controls(done));
        self.print(&line)
    }

    /// Writes text that is already escaped for the terminal.
    ///
    /// # Errors
    /// Standard output that cannot be written.
    pub(crate) fn print(&mut self, text: &str) -> Result<u8, CommandProblem> {
        let written =
            self.io.stdout.write_all(text.as_bytes()).and_then(|()| self.io.stdout.flush());
        written.map_err(CommandProblem::unwritable)?;
        Ok(0)
    }
}
