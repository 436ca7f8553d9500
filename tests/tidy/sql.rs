//! One boundary to the database: the store has SQL and the driver in the folder of a database, and
//! nowhere else.

use crate::rust_text::{code, literals, without_tests};
use crate::sources::{Source, assert_none, rust_below};

/// Folder of the store's code.
const STORE: &str = "host/store/src";

/// Modules that implement a database for the store.
const DATABASES: [&str; 2] = ["postgres", "sqlite"];

/// The module of the database whose statements compatible databases share.
const SHARED: &str = "postgres";

/// Words of statements that compatible databases do not share, as `docs/decisions.md` lists them.
/// `DO UPDATE` is shared; `DO` begins a block of code if a text begins with the word.
const UNSHARED: [&str; 13] = [
    "LISTEN",
    "NOTIFY",
    "UNLISTEN",
    "TEMPORARY",
    "TEMP",
    "UNLOGGED",
    "VACUUM",
    "CLUSTER",
    "COPY",
    "TRIGGER",
    "FUNCTION",
    "EXTENSION",
    "LOCK",
];

/// Beginnings of functions that compatible databases do not share.
const UNSHARED_FUNCTIONS: [&str; 5] =
    ["pg_advisory", "pg_try_advisory", "txid_", "pg_current_", "pg_snapshot"];

/// The module with the operations of a database, which alone knows the databases.
const BOUNDARY: &str = "database";

/// The module of the tests that edits tables like an intruder.
const INTRUDER: &str = "testing";

/// The crate with the drivers.
const DRIVER: &str = "sqlx";

/// Words that begin a statement or join its parts. SQL in this repository is in capital letters.
const WORDS: [&str; 24] = [
    "ALTER", "AND", "BEGIN", "BY", "COMMIT", "CREATE", "DELETE", "DROP", "EXISTS", "FROM",
    "INSERT", "INTO", "JOIN", "LIMIT", "ORDER", "PRAGMA", "ROLLBACK", "SELECT", "SET", "TABLE",
    "UPDATE", "VACUUM", "VALUES", "WHERE",
];

/// Returns the module of the store's file: the first name below the folder of the code.
fn module_of(file: &Source) -> Option<&str> {
    let name = file.path.strip_prefix(STORE)?.strip_prefix('/')?.split('/').next()?;
    Some(name.trim_end_matches(".rs"))
}

/// Returns the code of a product file without its tests and comments, and its text literals.
fn product(file: &Source) -> (String, Vec<String>) {
    let without = without_tests(&file.text, &code(&file.text));
    (code(&without), literals(&without))
}

fn names(text: &str, wanted: &str) -> bool {
    text.split(|c: char| c != '_' && !c.is_alphanumeric()).any(|word| word == wanted)
}

/// Returns the SQL in the literals, and the uses of the driver and of a database's module.
fn offences(file: &Source) -> Vec<String> {
    let Some(module) = module_of(file) else { return Vec::new() };
    if file.is_of_tests() || module == INTRUDER || DATABASES.contains(&module) {
        return Vec::new();
    }
    let (code, literals) = product(file);
    let has_sql = |literal: &&String| {
        let is_file = literal.ends_with(".sql");
        is_file || WORDS.iter().any(|word| names(literal, word))
    };
    let mut found: Vec<String> =
        literals.iter().filter(has_sql).map(|sql| format!("{}: {sql}", file.path)).collect();
    found.extend(names(&code, DRIVER).then(|| format!("{}: {DRIVER}", file.path)));
    if module != BOUNDARY && module != "lib" {
        let modules = DATABASES.iter().filter(|database| names(&code, database));
        found.extend(modules.map(|database| format!("{}: module {database}", file.path)));
    }
    found
}

/// Returns the words of a statement that compatible databases do not share.
fn unshared(file: &Source) -> Vec<String> {
    if file.is_of_tests() || module_of(file) != Some(SHARED) {
        return Vec::new();
    }
    let (_, literals) = product(file);
    let is_unshared = |literal: &&String| {
        literal.starts_with("DO ")
            || UNSHARED.iter().any(|word| names(literal, word))
            || UNSHARED_FUNCTIONS.iter().any(|function| literal.contains(function))
    };
    literals.iter().filter(is_unshared).map(|sql| format!("{}: {sql}", file.path)).collect()
}

#[test]
fn statements_of_servers_are_plain_sql() {
    assert_none(
        rust_below(&[STORE]).iter().flat_map(unshared).collect(),
        "use words that PostgreSQL, CockroachDB and YugabyteDB share (decision T56)",
    );
    let found = |text: &str| {
        let path = format!("{STORE}/postgres/statements.rs");
        unshared(&Source { path, text: text.to_owned() }).len()
    };
    for offence in [
        "const TEXT: &str = \"LISTEN changes\";",
        "const TEXT: &str = \"SELECT pg_advisory_lock(1)\";",
        "const TEXT: &str = \"CREATE TEMPORARY TABLE t (a int)\";",
        "const TEXT: &str = \"DO $$ BEGIN END $$\";",
    ] {
        assert_eq!(found(offence), 1, "{offence}");
    }
    assert_eq!(found("const TEXT: &str = \"ON CONFLICT (a) DO UPDATE SET b = 1\";"), 0);
}

#[test]
fn only_database_folders_contain_sql() {
    let sources = rust_below(&[STORE]);
    let inside = |file: &&Source| module_of(file).is_some_and(|name| DATABASES.contains(&name));
    let of_databases: Vec<&Source> = sources.iter().filter(inside).collect();
    assert!(of_databases.len() > 5, "only {} files of databases were found", of_databases.len());
    let uses_driver = |file: &&Source| names(&product(file).0, DRIVER);
    assert!(of_databases.into_iter().any(|file| uses_driver(&file)), "the rule reads nothing");
    assert_none(
        sources.iter().flat_map(offences).collect(),
        "ask host/store/src/database.rs, and write the statement in the folder of each database",
    );
}

#[test]
fn sql_and_drivers_outside_are_recognised() {
    let found = |path: &str, text: &str| {
        let path = format!("{STORE}/{path}");
        offences(&Source { path, text: text.to_owned() }).len()
    };
    for offence in [
        "const TEXT: &str = \"SELECT 1\";",
        "fn f() { run(\"DELETE \\\n    FROM record\"); }",
        "const SCHEMA: &str = include_str!(\"../schema/0001.sql\");",
        "use sqlx::Row as _;",
        "fn f(error: sqlx::Error) {}",
        "use crate::sqlite::SqliteDatabase;",
        "fn f() { crate::sqlite::open() }",
    ] {
        assert_eq!(found("store.rs", offence), 1, "{offence}");
        assert_eq!(found("store/counters.rs", offence), 1, "{offence}");
        assert_eq!(found("sqlite/rows.rs", offence), 0, "{offence}");
        assert_eq!(found("sqlite.rs", offence), 0, "{offence}");
        assert_eq!(found("store/tests.rs", offence), 0, "{offence}");
    }
    assert_eq!(found("database.rs", "use crate::sqlite::SqliteDatabase;"), 0);
    assert_eq!(found("database/reads.rs", "const TEXT: &str = \"SELECT 1\";"), 1);
    for free in [
        "// SELECT 1 FROM sqlx",
        "const TEXT: &str = \"select another directory from the list\";",
        "#[cfg(test)]\nmod tests {\n    use sqlx::Row as _;\n}",
        "fn f() { tokio::select! {} }",
        "let from_sqlite = database.sqlite_rows();",
    ] {
        assert_eq!(found("store.rs", free), 0, "{free}");
    }
}
