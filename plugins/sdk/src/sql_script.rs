//! A scripted host for unit tests of a database plugin: records every request, and answers by the
//! rules of the test.

use crate::database_plugin::{
    ConnectionSettings, DatabaseTarget, SqlFailure, SqlHost, Statement, StoreTime,
};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};

type ScriptedRows = Vec<Vec<Option<String>>>;

/// A scripted host. A request is answered by the first rule with a text that occurs in the request,
/// once or always. Without a rule, the answer is success with no rows.
#[derive(Default)]
pub struct SqlScript {
    asked: RefCell<Vec<String>>,
    secrets: RefCell<Vec<String>>,
    logins: RefCell<Vec<String>>,
    rules: RefCell<Vec<ScriptRule>>,
    drawn: Cell<u8>,
}

struct ScriptRule {
    part: String,
    answer: Result<ScriptedRows, SqlFailure>,
    once: bool,
}

impl SqlScript {
    /// Answers requests that contain `part` with one column.
    #[must_use]
    pub fn answers(self, part: &str, column: &[&str]) -> Self {
        let rows = column.iter().map(|text| vec![Some((*text).to_owned())]).collect();
        self.rule(part, Ok(rows), false)
    }

    /// Answers the first request that contains `part` with one column.
    #[must_use]
    pub fn answers_once(self, part: &str, column: &[&str]) -> Self {
        let rows = column.iter().map(|text| vec![Some((*text).to_owned())]).collect();
        self.rule(part, Ok(rows), true)
    }

    /// Answers requests that contain `part` with one row.
    #[must_use]
    pub fn answers_row(self, part: &str, row: &[&str]) -> Self {
        let row: Vec<_> = row.iter().copied().map(Some).collect();
        self.answers_cells(part, &row)
    }

    /// Answers requests that contain `part` with rows.
    #[must_use]
    pub fn answers_rows(self, part: &str, rows: &[&[&str]]) -> Self {
        self.rule(part, Ok(scripted(rows)), false)
    }

    /// Answers the first request that contains `part` with rows.
    #[must_use]
    pub fn answers_rows_once(self, part: &str, rows: &[&[&str]]) -> Self {
        self.rule(part, Ok(scripted(rows)), true)
    }

    /// Answers requests that contain `part` with one row, some of whose cells may be null.
    #[must_use]
    pub fn answers_cells(self, part: &str, row: &[Option<&str>]) -> Self {
        let row = row.iter().map(|cell| cell.map(str::to_owned)).collect();
        self.rule(part, Ok(vec![row]), false)
    }

    /// Fails requests that contain `part`.
    #[must_use]
    pub fn fails(self, part: &str, failure: SqlFailure) -> Self {
        self.rule(part, Err(failure), false)
    }

    /// Fails the first request that contains `part`.
    #[must_use]
    pub fn fails_once(self, part: &str, failure: SqlFailure) -> Self {
        self.rule(part, Err(failure), true)
    }

    fn rule(self, part: &str, answer: Result<ScriptedRows, SqlFailure>, once: bool) -> Self {
        self.rules.borrow_mut().push(ScriptRule { part: part.to_owned(), answer, once });
        self
    }

    /// Returns all requests: `ping user:password`, `query … <- parameters`, `execute …`, and
    /// `transact a; [b]`, with brackets around statements that may fail.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.borrow().clone()
    }

    /// Returns the statements marked secret.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        self.secrets.borrow().clone()
    }

    /// Returns the login of each transaction, as `user:password`.
    #[must_use]
    pub fn logins(&self) -> Vec<String> {
        self.logins.borrow().clone()
    }

    fn ask(&self, request: String) -> Result<ScriptedRows, SqlFailure> {
        let mut rules = self.rules.borrow_mut();
        let found = rules.iter().position(|rule| request.contains(&rule.part));
        self.asked.borrow_mut().push(request);
        let Some(place) = found else { return Ok(Vec::new()) };
        let answer = rules.get(place).map_or(Ok(Vec::new()), |rule| rule.answer.clone());
        if rules.get(place).is_some_and(|rule| rule.once) {
            rules.remove(place);
        }
        answer
    }

    fn note(&self, statements: &[Statement]) {
        let secrets = statements.iter().filter(|statement| statement.secret);
        self.secrets.borrow_mut().extend(secrets.map(|statement| statement.text.clone()));
    }
}

fn scripted(rows: &[&[&str]]) -> ScriptedRows {
    let row = |row: &&[&str]| row.iter().map(|cell| Some((*cell).to_owned())).collect();
    rows.iter().map(row).collect()
}

impl SqlHost for SqlScript {
    fn ping(&self, target: &DatabaseTarget) -> Result<(), SqlFailure> {
        self.ask(format!("ping {}:{}", target.username, target.password)).map(drop)
    }

    fn query(
        &self,
        _: &DatabaseTarget,
        statement: &str,
        parameters: &[&str],
    ) -> Result<ScriptedRows, SqlFailure> {
        self.ask(format!("query {statement} <- {}", parameters.join(", ")))
    }

    fn transact(&self, at: &DatabaseTarget, statements: &[Statement]) -> Result<(), SqlFailure> {
        self.note(statements);
        self.logins.borrow_mut().push(format!("{}:{}", at.username, at.password));
        let texts: Vec<String> = statements
            .iter()
            .map(|one| if one.may_fail { format!("[{}]", one.text) } else { one.text.clone() })
            .collect();
        self.ask(format!("transact {}", texts.join("; "))).map(drop)
    }

    fn execute(&self, _: &DatabaseTarget, statement: &Statement) -> Result<(), SqlFailure> {
        self.note(std::slice::from_ref(statement));
        self.ask(format!("execute {}", statement.text)).map(drop)
    }

    fn now(&self) -> StoreTime {
        1_700_000_000_000
    }

    fn pbkdf2_sha256(&self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        pbkdf2::pbkdf2_hmac_array::<sha2::Sha256, 32>(password.as_bytes(), salt, iterations)
            .to_vec()
    }

    fn random(&self, length: u32) -> Vec<u8> {
        let from = self.drawn.get();
        self.drawn.set(from.wrapping_add(1));
        (0..length)
            .map(|place| from.wrapping_add(u8::try_from(place % 200).unwrap_or_default()))
            .collect()
    }
}

impl SqlScript {
    /// Returns a failure with a message that must never be shown.
    #[must_use]
    pub fn failure(code: &str, sqlstate: Option<&str>) -> SqlFailure {
        SqlFailure {
            code: code.to_owned(),
            message: "canary".to_owned(),
            statement: None,
            sqlstate: sqlstate.map(str::to_owned),
            tls: None,
        }
    }

    /// Returns the failure of a statement.
    #[must_use]
    pub fn state(sqlstate: &str) -> SqlFailure {
        Self::failure("statement-failed", Some(sqlstate))
    }

    /// Returns settings with only a connection URL.
    #[must_use]
    pub fn settings(connection_url: &str) -> ConnectionSettings {
        Self::settings_with(connection_url, &[])
    }

    /// Returns settings with a connection URL and other settings.
    #[must_use]
    pub fn settings_with(connection_url: &str, more: &[(&str, Value)]) -> ConnectionSettings {
        let mut settings = ConnectionSettings::new();
        settings.insert("connection_url".to_owned(), json!(connection_url));
        settings.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        settings
    }
}
