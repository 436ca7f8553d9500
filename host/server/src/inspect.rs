//! `bulkhead plugin inspect`: the tables of the built-in plugins, without a running server.
//!
//! The components in the binary describe themselves over a temporary store. The test suite takes
//! its list of endpoints from here, so that it cannot miss an endpoint.

use crate::config::{Config, DEFAULT_ADDRESS};
use crate::dev::DevDirectory;
use crate::process::{ServerProcess, service_settings};
use bulkhead_access::log::Log;
use bulkhead_access::random;
use bulkhead_api::Service;
use bulkhead_cli::double_dashes;
use bulkhead_core::tables::{InspectedPlugin, PluginDescription, RouteTables};
use bulkhead_sandbox::SandboxRuntime;
use bulkhead_wire::description::Route;
use bulkhead_wire::secret::Secret;
use lexopt::ValueExt;
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;

/// Help text of `bulkhead plugin inspect --help`.
pub const USAGE: &str = "\
Usage: bulkhead plugin inspect --all [-format=json]
       bulkhead plugin inspect NAME [-format=json]

Shows the descriptions of the plugins inside this program: name, version, digest, and every
endpoint with all fields. With --all also the endpoints of the server. Needs no server.
";

/// The action that the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum InspectAction {
    /// Print [`USAGE`].
    Help,
    /// Print tables.
    Inspect(Inspection),
}

/// The selected tables and their format.
#[derive(Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Name of the plugin. `None`: all plugins and the server's own endpoints.
    name: Option<String>,
    json: bool,
}

/// Parses the arguments after `plugin inspect`.
///
/// # Errors
/// A message for standard error; the process then exits with code 2.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<InspectAction, String> {
    use lexopt::Arg::{Long, Short, Value};
    let (mut name, mut all, mut json) = (None, false, false);
    let mut parser = lexopt::Parser::from_args(double_dashes(args));
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("help") | Short('h') => return Ok(InspectAction::Help),
            Long("all") => all = true,
            Long("format") => json = parse_format(&mut parser)?,
            Value(value) if name.is_none() => {
                name = Some(value.string().map_err(|error| error.to_string())?)
            }
            other => {
                return Err(format!(
                    "{}; see `bulkhead plugin inspect --help`",
                    other.unexpected()
                ));
            }
        }
    }
    match (&name, all) {
        (None, false) => Err("no plugin is named; give a name, or --all".to_owned()),
        (Some(name), true) => {
            Err(format!("--all already includes {name:?}; leave one of the two out"))
        }
        _ => Ok(InspectAction::Inspect(Inspection { name, json })),
    }
}

fn parse_format(parser: &mut lexopt::Parser) -> Result<bool, String> {
    match parser
        .value()
        .and_then(|value| value.string())
        .map_err(|error| error.to_string())?
        .as_str()
    {
        "json" => Ok(true),
        "table" => Ok(false),
        other => Err(format!("-format={other} is not known; use json or table")),
    }
}

/// Prints the selected tables.
///
/// # Errors
/// The components could not be asked, or the name is unknown; the error lists the known names.
pub async fn run(
    inspection: &Inspection,
    process: ServerProcess,
    out: &mut dyn Write,
) -> Result<(), String> {
    let mut tables = read_tables(process).await?;
    if let Some(name) = &inspection.name {
        let plugin_names: Vec<String> =
            tables.plugins.iter().map(|plugin| plugin.described.name().to_owned()).collect();
        tables.plugins.retain(|plugin| plugin.described.name() == name);
        tables.host.clear();
        if tables.plugins.is_empty() {
            return Err(format!(
                "there is no plugin {name:?} in this program; there are: {}",
                plugin_names.join(", ")
            ));
        }
    }
    let printed = if inspection.json {
        print_json(&tables, inspection.name.is_none(), out)
    } else {
        print_table(&tables, out)
    };
    printed.map_err(|error| format!("standard output cannot be written: {error}"))
}

/// Asks the components, in a server without a listener.
async fn read_tables(process: ServerProcess) -> Result<RouteTables, String> {
    let log = Arc::clone(&process.log) as Arc<dyn Log>;
    let data = DevDirectory::prepare(None)?;
    let tables = ask_components(process, &data).await;
    data.remove(&log);
    tables
}

async fn ask_components(
    process: ServerProcess,
    data: &DevDirectory,
) -> Result<RouteTables, String> {
    let log = Arc::clone(&process.log) as Arc<dyn Log>;
    let settings =
        service_settings(&Config::at(DEFAULT_ADDRESS, data.path()), process.officials, &log);
    let service = Service::start(SandboxRuntime::new()?, settings).await;
    let service = service.map_err(|failure| failure.message)?;
    let token = random::base62(32).map_err(|failure| failure.message)?;
    let opened = service.open_dev(&Secret::new(token)).await.map_err(|failure| failure.message);
    let tables = service.tables();
    service.stop().await;
    opened.and_then(|()| {
        tables.ok_or_else(|| "the store closed before the plugins were asked".to_owned())
    })
}

fn print_json(tables: &RouteTables, all: bool, out: &mut dyn Write) -> io::Result<()> {
    match tables.plugins.as_slice() {
        [plugin] if !all => serde_json::to_writer_pretty(&mut *out, plugin)?,
        _ => serde_json::to_writer_pretty(&mut *out, tables)?,
    }
    writeln!(out)?;
    out.flush()
}

fn print_table(tables: &RouteTables, out: &mut dyn Write) -> io::Result<()> {
    if !tables.host.is_empty() {
        writeln!(out, "bulkhead {}: the server itself", env!("CARGO_PKG_VERSION"))?;
        print_routes(&tables.host, out)?;
    }
    for plugin in &tables.plugins {
        print_plugin(plugin, out)?;
    }
    out.flush()
}

fn print_plugin(plugin: &InspectedPlugin, out: &mut dyn Write) -> io::Result<()> {
    match &plugin.described {
        PluginDescription::Mountable(it) => {
            writeln!(
                out,
                "\n{} {} ({}): {}\nsha256 {}",
                it.name, it.version, it.kind, it.about, plugin.sha256
            )?;
            print_routes(&it.routes, out)
        }
        PluginDescription::Database(it) => {
            writeln!(
                out,
                "\n{} {} ({}): {}\nsha256 {}",
                it.name, it.version, it.kind, it.about, plugin.sha256
            )?;
            for field in &it.settings {
                writeln!(out, "  {:<34}{}", field.name, field.about)?;
            }
            Ok(())
        }
    }
}

fn print_routes(routes: &[Route], out: &mut dyn Write) -> io::Result<()> {
    for route in routes {
        let verb = format!("{:?}", route.verb).to_lowercase();
        let marks = [
            (route.sudo, " (sudo)"),
            (route.needs_no_token(), " (no token)"),
            (route.leases, " (lease)"),
        ];
        let marks: String =
            marks.into_iter().filter(|(set, _)| *set).map(|(_, mark)| mark).collect();
        writeln!(out, "  {verb:<7}{:<42}{}{marks}", route.path, route.about)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<InspectAction, String> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn inspect_accepts_one_or_all_and_output_format() {
        let inspection = |name: Option<&str>, json| {
            InspectAction::Inspect(Inspection { name: name.map(str::to_owned), json })
        };
        assert_eq!(parse_words(&["--all", "-format=json"]).unwrap(), inspection(None, true));
        assert_eq!(parse_words(&["-all"]).unwrap(), inspection(None, false));
        assert_eq!(
            parse_words(&["database", "--format", "table"]).unwrap(),
            inspection(Some("database"), false)
        );
        assert_eq!(parse_words(&["-h"]).unwrap(), InspectAction::Help);
    }

    #[test]
    fn unclear_arguments_are_refused() {
        for (words, part) in [
            (&[][..], "no plugin is named"),
            (&["database", "--all"], "leave one of the two out"),
            (&["--all", "-format=yaml"], "use json or table"),
            (&["a", "b"], "see `bulkhead plugin inspect --help`"),
        ] {
            let why = parse_words(words).unwrap_err();
            assert!(why.contains(part), "{words:?}: {why}");
        }
    }
}
