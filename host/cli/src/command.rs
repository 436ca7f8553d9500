//! Definition of a command: name, options and function.

use crate::option::CommandOption;
use crate::options::{self, ParsedOptions};
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use std::ffi::OsString;
use std::fmt::Write as _;

/// One command.
pub(crate) struct Command {
    /// Name, for example `lease revoke`.
    pub(crate) words: &'static str,
    /// Placeholder of the arguments, for help.
    pub(crate) takes: &'static str,
    /// Help text. The overview shows only the first line.
    pub(crate) about: &'static str,
    /// Options besides [`COMMON`], in groups that commands share.
    pub(crate) options: &'static [&'static [CommandOption]],
    /// Effect of `-wrap-ttl` and its variables.
    pub(crate) wrapping: AnswerWrapping,
    /// Runs the command and returns the exit code.
    pub(crate) run: fn(&mut Session<'_, '_>) -> Result<u8, CommandProblem>,
}

impl Command {
    /// Returns the options of the help, the command's own options first.
    pub(crate) fn options(&self) -> impl Iterator<Item = &'static CommandOption> {
        self.options.iter().copied().flatten().chain(&COMMON)
    }

    /// Parses the arguments after the command's name.
    ///
    /// # Errors
    /// See [`options::parse`].
    pub(crate) fn parse(
        &self,
        args: impl Iterator<Item = OsString>,
    ) -> Result<ParsedOptions, CommandProblem> {
        let known_options: Vec<CommandOption> =
            self.options().chain(&WITHOUT_EFFECT).chain(&UNSERVED).copied().collect();
        options::parse(self.words, &known_options, args)
    }

    /// Returns the problem that explains the command's usage.
    #[must_use]
    pub(crate) fn usage_problem(&self) -> CommandProblem {
        let Self { words, takes, .. } = self;
        CommandProblem::usage(format!(
            "type: bulkhead {words} {takes}; see `bulkhead {words} -help`"
        ))
    }

    /// Returns the help text.
    #[must_use]
    pub(crate) fn help(&self) -> String {
        let Self { words, takes, about, .. } = self;
        let mut text = format!("Usage: bulkhead {words} {takes}\n\n{about}\n\n");
        let shown = |opt: &CommandOption| {
            opt.takes
                .word()
                .map_or_else(|| format!("-{}", opt.name), |word| format!("-{}={word}", opt.name))
        };
        let width = self.options().map(|opt| shown(opt).len()).max().unwrap_or_default() + 3;
        for opt in self.options() {
            // Writing to a String cannot fail.
            writeln!(text, "  {:<width$}{}", shown(opt), opt.about).unwrap_or_default();
        }
        let accepted: Vec<String> = WITHOUT_EFFECT.iter().map(shown).collect();
        writeln!(text, "\nAccepted without effect: {}", accepted.join(", ")).unwrap_or_default();
        text
    }
}

/// Options of every command.
const COMMON: [CommandOption; 16] = [
    CommandOption::text(
        "address",
        "URL",
        "the server (or BULKHEAD_ADDR, VAULT_ADDR; http://127.0.0.1:8200 without both)",
    ),
    CommandOption::text(
        "format",
        "table|json|yaml|raw",
        "the form of the answer (or BULKHEAD_FORMAT)",
    ),
    CommandOption::text("field", "NAME", "print only this value"),
    CommandOption::text(
        "ca-cert",
        "FILE",
        "trust the certificate authorities in FILE (or BULKHEAD_CACERT)",
    ),
    CommandOption::text(
        "ca-path",
        "FOLDER",
        "trust the authorities in the folder (or BULKHEAD_CAPATH)",
    ),
    CommandOption::text("client-cert", "FILE", "your certificate (or BULKHEAD_CLIENT_CERT)"),
    CommandOption::text(
        "client-key",
        "FILE",
        "the key of your certificate (or BULKHEAD_CLIENT_KEY)",
    ),
    CommandOption::text(
        "tls-server-name",
        "NAME",
        "the name in the server's certificate (or BULKHEAD_TLS_SERVER_NAME)",
    ),
    CommandOption::switch("tls-skip-verify", "accept any certificate (or BULKHEAD_SKIP_VERIFY)"),
    CommandOption::pairs("header", "send this HTTP header; may be repeated"),
    CommandOption::text(
        "wrap-ttl",
        "TIME",
        "wrap the answer: print a token to open the answer once (or BULKHEAD_WRAP_TTL)",
    ),
    CommandOption::text("namespace", "NAME", "refused: this version has no namespaces"),
    CommandOption::switch(
        "non-interactive",
        "ask nothing at the terminal; a missing secret is an error",
    ),
    CommandOption::switch(
        "output-curl-string",
        "print the request as a curl command, and send nothing",
    ),
    CommandOption::switch("output-policy", "print the policy for the request, and send nothing"),
    CommandOption::switch("help", "print this text"),
];

/// Options of every command that change nothing here: output has no colours, redirects are never
/// followed, commands write no log, and no Sentinel policy can be overridden.
const WITHOUT_EFFECT: [CommandOption; 4] = [
    CommandOption::switch("no-color", "output has no colours"),
    CommandOption::switch("disable-redirects", "redirects are never followed"),
    CommandOption::text("log-level", "LEVEL", "commands write no log"),
    CommandOption::switch("policy-override", "there are no Sentinel policies"),
];

/// Options of every command that are refused with a reason, see `settings::refuse_unserved`.
const UNSERVED: [CommandOption; 4] = [
    CommandOption::text("ns", "NAME", "refused"),
    CommandOption::text("mfa", "CREDENTIAL", "refused"),
    CommandOption::text("unlock-key", "KEY", "refused"),
    CommandOption::text("agent-address", "URL", "refused"),
];
