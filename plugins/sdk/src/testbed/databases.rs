//! A database server in memory behind one plugin, with the interface of real databases.

mod server;

use super::script::Script;
use crate::database_plugin::{
    Account, ConfiguredConnection, CreatedUser, Credential, NewUser, StatementAct,
    StatementPurpose, StoreTime,
};
use crate::host::{CreationFailure, DatabaseConnection, Databases, ResolvedPlugin, VersionChoice};
use bulkhead_wire::description::{DatabaseDescription, Field, FieldKind};
use bulkhead_wire::failure::{Failure, FailureKind};
use server::{Server, account_names, targets};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A user of the database in memory. No `Debug`: contains the credential.
#[derive(Clone, PartialEq)]
pub struct User {
    /// Credential for logins.
    pub credential: Credential,
    /// Time at which the database stops accepting the credential.
    pub expires: StoreTime,
    /// Statements of the last call about the user.
    pub statements: Vec<String>,
    /// Identity, which no other user has.
    pub identity: String,
}

/// The plugin and the contents of its databases.
pub(super) struct TestDatabases {
    script: Rc<Script>,
    server: RefCell<Server>,
}

/// Returns the description of a database plugin named `test-database-plugin` with a secret setting
/// `password`.
#[must_use]
pub fn plugin() -> DatabaseDescription {
    let setting = |name: &str| Field::new(name, FieldKind::String, format!("The {name}."));
    DatabaseDescription {
        kind: "database-plugin".to_owned(),
        name: "test-database-plugin".to_owned(),
        aliases: vec!["test".to_owned()],
        version: "1.0.0".to_owned(),
        asks: Vec::new(),
        about: "A database in memory.".to_owned(),
        credential_types: vec!["password".to_owned()],
        creation_statements_required: true,
        settings: vec![
            setting("connection_url"),
            setting("username"),
            setting("password").secret(),
        ],
        codes: BTreeMap::new(),
        warnings: BTreeMap::from([(
            "tls-off".to_owned(),
            "connection {connection} does not use TLS".to_owned(),
        )]),
    }
}

impl TestDatabases {
    pub(super) fn new(script: &Rc<Script>) -> Self {
        let (warnings, users) = (Vec::new(), BTreeMap::new());
        let server = Server {
            plugin: plugin(),
            newer: Vec::new(),
            is_built_in: false,
            chosen: BTreeMap::new(),
            warnings,
            lacking: Vec::new(),
            users,
            planned: 0,
            created: 0,
            keeps_nothing: false,
            told_logins: BTreeMap::new(),
        };
        Self { script: Rc::clone(script), server: RefCell::new(server) }
    }

    /// Changes the description of the plugin.
    pub(super) fn describe_plugin(&self, change: impl FnOnce(&mut DatabaseDescription)) {
        change(&mut self.server.borrow_mut().plugin);
    }

    /// Adds a newer version of the plugin.
    pub(super) fn add_version(&self, version: &str) {
        self.server.borrow_mut().newer.push(version.to_owned());
    }

    /// Makes the plugin a plugin of the server.
    pub(super) fn build_in(&self) {
        self.server.borrow_mut().is_built_in = true;
    }

    /// Returns the version that was chosen for the connection `name`.
    pub(super) fn chosen_version(&self, name: &str) -> Option<String> {
        self.server.borrow().chosen.get(name).cloned()
    }

    /// Sets the warning codes that `configure` answers.
    pub(super) fn warn_when_configured(&self, codes: &[&str]) {
        self.server.borrow_mut().warnings = codes.iter().map(|code| (*code).to_owned()).collect();
    }

    /// Sets the warning codes that `verify` answers.
    pub(super) fn warn_when_verified(&self, codes: &[&str]) {
        self.server.borrow_mut().lacking = codes.iter().map(|code| (*code).to_owned()).collect();
    }

    /// Makes the next failed creation report that nothing was made.
    pub(super) fn keep_nothing(&self) {
        self.server.borrow_mut().keeps_nothing = true;
    }

    /// Fixes the answer about logins of `username`, in all databases.
    pub(super) fn fix_login_answer(&self, username: &str, answer: Option<bool>) {
        self.server.borrow_mut().told_logins.insert(username.to_owned(), answer);
    }

    /// Makes the plugin compare the credential of `username` again.
    pub(super) fn try_logins(&self, username: &str) {
        self.server.borrow_mut().told_logins.remove(username);
    }

    /// Returns the user `username` of the database behind `connection`.
    pub(super) fn user(&self, connection: &str, username: &str) -> Option<User> {
        self.server.borrow().users.get(&(connection.to_owned(), username.to_owned())).cloned()
    }

    /// Returns the number of users in all databases.
    pub(super) fn user_count(&self) -> usize {
        self.server.borrow().users.len()
    }

    /// Runs a step about the user `whom` of `connection`.
    fn step<T>(
        &self,
        word: &str,
        connection: &DatabaseConnection,
        whom: &str,
        act: impl FnOnce(&mut Server) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let detail = format!("{} {whom}", connection.name);
        self.script.step(word, Some(detail.trim_end()), || act(&mut self.server.borrow_mut()))
    }
}

impl Databases for TestDatabases {
    fn resolve(&self, plugin: &str, _version: &str) -> Result<ResolvedPlugin, Failure> {
        self.script.step("resolve", None, || {
            let entry = &self.server.borrow().plugin;
            if plugin != entry.name && !entry.aliases.iter().any(|alias| alias == plugin) {
                let message =
                    format!("there is no database plugin {plugin:?}; there is {:?}", entry.name);
                return Err(Failure::new(FailureKind::NotFound, message));
            }
            let (version, description) = (entry.version.clone(), entry.clone());
            Ok(ResolvedPlugin { version, description, is_built_in: false })
        })
    }

    fn choose(&self, name: &str, choice: VersionChoice<'_>) -> Result<ResolvedPlugin, Failure> {
        let plugin = self.resolve(choice.plugin, choice.version)?;
        self.script.step("choose", None, || {
            let mut server = self.server.borrow_mut();
            let version = server.version_for(name, choice)?;
            let is_built_in = server.is_built_in;
            server.chosen.insert(name.to_owned(), version.clone());
            Ok(ResolvedPlugin { version, is_built_in, ..plugin })
        })
    }

    fn running(&self, connection: &DatabaseConnection) -> Result<ResolvedPlugin, Failure> {
        let plugin = self.resolve(&connection.plugin, &connection.version)?;
        let version = self.server.borrow().chosen.get(&connection.name).cloned();
        Ok(ResolvedPlugin { version: version.unwrap_or_else(|| plugin.version.clone()), ..plugin })
    }

    fn release(&self, name: &str) -> Result<(), Failure> {
        self.script.step("release", None, || {
            self.server.borrow_mut().chosen.remove(name);
            Ok(())
        })
    }

    fn configure(&self, connection: &DatabaseConnection) -> Result<ConfiguredConnection, Failure> {
        self.step("configure", connection, "", |server| {
            let warnings = server.warnings.clone();
            let targets = targets(&connection.settings);
            Ok(ConfiguredConnection { settings: connection.settings.clone(), targets, warnings })
        })
    }

    /// Refuses statements that contain `unreadable`, and statements that contain `{{password}}` for
    /// acts other than creation and rotation. Passwords with `'` do not fit.
    fn check_statements(
        &self,
        connection: &DatabaseConnection,
        statements: &[String],
        purpose: &StatementPurpose,
    ) -> Result<Option<u32>, Failure> {
        let has_password = matches!(purpose.act, StatementAct::Creation | StatementAct::Rotation);
        let is_bad = |statement: &String| {
            statement.contains("unreadable") || !has_password && statement.contains("{{password}}")
        };
        self.step("check-statements", connection, purpose.act.word(), |_| {
            match statements.iter().position(is_bad) {
                Some(at) => Err(Failure::invalid(format!("statement {at} cannot be read"))),
                None => Ok(purpose
                    .passwords
                    .iter()
                    .position(|password| !password.contains('\''))
                    .and_then(|place| u32::try_from(place).ok())),
            }
        })
    }

    fn verify(&self, connection: &DatabaseConnection) -> Result<Vec<String>, Failure> {
        self.step("verify", connection, "", |server| Ok(server.lacking.clone()))
    }

    /// Returns `v-<display name>-<role>-<number>`, and an account of this name for the user and for
    /// each statement that contains `EXTRA`, with the suffix `_extra`. The number grows with each
    /// plan for a caller; the check of a role has no display name.
    fn plan_accounts(
        &self,
        connection: &DatabaseConnection,
        display_name: &str,
        role_name: &str,
        creation: &[String],
    ) -> Result<CreatedUser, Failure> {
        self.step("plan-accounts", connection, "", |server| {
            server.planned += u32::from(!display_name.is_empty());
            let username = format!("v-{display_name}-{role_name}-{}", server.planned);
            let accounts = account_names(&username, creation);
            let accounts = accounts.iter().map(|name| Account::named(name)).collect();
            Ok(CreatedUser { username, accounts })
        })
    }

    fn create_accounts(
        &self,
        connection: &DatabaseConnection,
        user: &NewUser,
        statements: &[String],
        _rollback: &[String],
    ) -> Result<Vec<Account>, CreationFailure> {
        let created = self.step("create-accounts", connection, &user.username, |server| {
            let names = account_names(&user.username, statements).into_iter();
            Ok(names.map(|name| server.create(connection, name, user, statements)).collect())
        });
        created.map_err(|why| match std::mem::take(&mut self.server.borrow_mut().keeps_nothing) {
            true => CreationFailure::Surely(why),
            false => CreationFailure::Perhaps(why),
        })
    }

    fn change_credential(
        &self,
        connection: &DatabaseConnection,
        username: &str,
        credential: &Credential,
        current: Option<&Credential>,
        statements: &[String],
    ) -> Result<(), Failure> {
        let whom = match current {
            Some(_) => format!("{username} as itself"),
            None => username.to_owned(),
        };
        self.step("change-credential", connection, &whom, |server| {
            let user = server.user_mut(connection, username)?;
            if current.is_some_and(|current| *current != user.credential) {
                return Err(Failure::invalid("the database refused the user's present credential"));
            }
            user.credential = credential.clone();
            user.statements = statements.to_vec();
            Ok(())
        })
    }

    fn prolong_accounts(
        &self,
        connection: &DatabaseConnection,
        user: &CreatedUser,
        expires: StoreTime,
        statements: &[String],
    ) -> Result<(), Failure> {
        let username = &user.username;
        self.step("prolong-accounts", connection, username, |server| {
            let user = server.user_mut(connection, username)?;
            user.expires = expires;
            user.statements = statements.to_vec();
            Ok(())
        })
    }

    /// Records the statements in the step, because the user is gone afterwards. Removes accounts
    /// with the recorded identity only.
    fn remove_accounts(
        &self,
        connection: &DatabaseConnection,
        user: &CreatedUser,
        statements: &[String],
    ) -> Result<(), Failure> {
        let whom = format!("{} {}", user.username, statements.join("; "));
        self.step("remove-accounts", connection, &whom, |server| {
            let named = [Account::named(&user.username)];
            let accounts = if user.accounts.is_empty() { &named[..] } else { &user.accounts };
            for account in accounts {
                let key = (connection.name.clone(), account.name.clone());
                let found = server.users.get(&key);
                let is_ours = |found: &User| {
                    account.identity.is_empty() || account.identity == found.identity
                };
                if found.is_some_and(is_ours) {
                    server.users.remove(&key);
                }
            }
            Ok(())
        })
    }

    fn check_credential(
        &self,
        connection: &DatabaseConnection,
        username: &str,
        credential: &Credential,
    ) -> Result<Option<bool>, Failure> {
        self.step("check-credential", connection, username, |server| {
            if let Some(answer) = server.told_logins.get(username) {
                return Ok(*answer);
            }
            let user = server.users.get(&(connection.name.clone(), username.to_owned()));
            Ok(Some(user.is_some_and(|user| user.credential == *credential)))
        })
    }

    fn close(&self, name: &str) {
        self.script.record(format!("close {name}"));
    }
}
