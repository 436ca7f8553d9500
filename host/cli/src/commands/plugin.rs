//! `bulkhead plugin register · list · info · deregister · pin · unpin · reload`.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::commands::paths::join_path;
use crate::commands::plugin_file_name::PluginFileName;
use crate::commands::plugin_list::{self, DETAILED, TYPES};
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::{Map, Value, json};

const CATALOG: &str = "sys/plugins/catalog";
const PINS: &str = "sys/plugins/pins";
const RELOADS: &str = "sys/plugins/reload";

pub(crate) const REGISTER: Command = Command {
    words: "plugin register",
    takes: "FILE|-|-command=NAME|-oci-image=NAME | TYPE NAME",
    about: "add a component to the catalog of plugins\n\n\
            The server checks, compiles and stores the component. Acts outside of the mount\n\
            need a grant of the mount (`bulkhead secrets tune --grant`); -grant sets the maximum\n\
            of these grants. Registering the same component again with other -grant lines\n\
            replaces the maximum.\n\
            The plugin has the name of the file, without .wasm, or -name;\n\
            shelf_1.2.3.wasm is version 1.2.3 of shelf.\n\n\
            -command registers a file of the server's plugin directory (setting \
            plugin_directory),\n\
            and -oci-image an image layout of this directory; both need -sha256.",
    options: &[&[TYPE, NAME, VERSION, SHA256, SIGNATURE, COMMAND, OCI_IMAGE, GRANT]],
    wrapping: AnswerWrapping::Sent,
    run: register,
};

pub(crate) const LIST: Command = Command {
    words: "plugin list",
    takes: "[secret|auth|database]",
    about: "list the plugins of the server, all or of a type",
    options: &[&[DETAILED]],
    wrapping: AnswerWrapping::Sent,
    run: plugin_list::run,
};

pub(crate) const INFO: Command = Command {
    words: "plugin info",
    takes: "[TYPE] NAME",
    about: "show a plugin of the server; TYPE is secret, auth or database",
    options: &[&[TYPE, SHOWN_VERSION]],
    wrapping: AnswerWrapping::Sent,
    run: info,
};

pub(crate) const DEREGISTER: Command = Command {
    words: "plugin deregister",
    takes: "[TYPE] NAME",
    about: "remove a registered plugin without mounts",
    options: &[&[TYPE, VERSION, FORCE]],
    wrapping: AnswerWrapping::Sent,
    run: deregister,
};

pub(crate) const PIN: Command = Command {
    words: "plugin pin",
    takes: "NAME VERSION",
    about: "pin a version of a plugin for every mount without an override\n\n\
            New mounts get the version at once, the others when they are reloaded \
            (`bulkhead plugin reload`).",
    options: &[&[TYPE]],
    wrapping: AnswerWrapping::Sent,
    run: pin,
};

pub(crate) const UNPIN: Command = Command {
    words: "plugin unpin",
    takes: "NAME",
    about: "remove the pin of a plugin",
    options: &[&[TYPE]],
    wrapping: AnswerWrapping::Sent,
    run: unpin,
};

pub(crate) const RELOAD: Command = Command {
    words: "plugin reload",
    takes: "",
    about: "let mounts serve the version chosen by pins and settings now\n\n\
            Give -plugin for all mounts of a plugin, or -mounts. No request is refused meanwhile, \
            and if the\n\
            new version fails, the mount stays with the old version.",
    options: &[&[TYPE, PLUGIN, MOUNTS, SCOPE]],
    wrapping: AnswerWrapping::Sent,
    run: reload,
};

const PLUGIN: CommandOption =
    CommandOption::text("plugin", "NAME", "the plugin of the mounts to reload");
const MOUNTS: CommandOption = CommandOption::names(
    "mounts",
    "PATH",
    "mounts to reload, auth methods with their auth/; several with commas, may be repeated",
)
.with_field("mounts");
const SCOPE: CommandOption =
    CommandOption::text("scope", "global", "without effect: the service has a single node");
const SHOWN_VERSION: CommandOption =
    CommandOption::text("version", "V", "the version to show; the newest without this option");
const TYPE: CommandOption = CommandOption::text(
    "type",
    "secret|auth|database",
    "type of the plugin; secret without this option",
);
const NAME: CommandOption = CommandOption::text("name", "NAME", "the plugin's name");
const VERSION: CommandOption = CommandOption::text("version", "V", "the version of the plugin");
const FORCE: CommandOption = CommandOption::switch(
    "force",
    "remove a plugin with live leases; the leases cannot end without the plugin",
);
const GRANT: CommandOption = CommandOption::list(
    "grant",
    "LINE",
    "the maximum grants of mounts, such as database:*; may be repeated",
);
const COMMAND: CommandOption =
    CommandOption::text("command", "NAME", "the file in the server's plugin directory");
const OCI_IMAGE: CommandOption =
    CommandOption::text("oci-image", "NAME", "the image layout in the server's plugin directory");
const SIGNATURE: CommandOption =
    CommandOption::text("signature", "BASE64", "the signature shown by `bulkhead plugin sign`");
const SHA256: CommandOption =
    CommandOption::text("sha256", "HEX", "the expected SHA-256 digest of the component");

fn register(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    accept_type_and_name(session);
    let file = session.at_most_one_word()?;
    let named = ["command", "oci-image"].into_iter().find_map(|name| session.options.value(name));
    let named = named.map(str::to_owned);
    let name = match (session.options.value("name"), &file, &named) {
        (_, None, None) => return Err(session.usage_problem()),
        (_, Some(_), Some(_)) => {
            return Err(CommandProblem::usage(
                "give a single thing to register: a file, or -command=NAME or -oci-image=NAME from \
                 the server's plugin directory"
                    .to_owned(),
            ));
        }
        (Some(name), ..) => name.to_owned(),
        (None, Some(source), None) if source == "-" => {
            return Err(CommandProblem::usage("give the plugin's name with -name".to_owned()));
        }
        (None, Some(source), None) | (None, None, Some(source)) => {
            let named = PluginFileName::read(source);
            accept_version(session, source, named.version)?;
            named.plugin
        }
    };
    let call = ServerRequest::new(Method::PUT, path(session, &name)?);
    let call = match file {
        Some(file) => {
            let query = sent_fields(session).collect();
            ServerRequest { query, ..call }.with_component(session.bytes(&file)?)
        }
        None => call.with_fields(named_fields(session)),
    };
    let answer = session.ask(&format!("registering plugin {name}"), &call)?;
    let version = session.options.value("version").map(|version| format!(" {version}"));
    let version = version.unwrap_or_default();
    let done = format!("registered the {} plugin {name}{version}", kind(session));
    session.show_or(&answer, &done)
}

/// Accepts the arguments `TYPE NAME`, as Vault's command takes them. A file of the plugin directory
/// has then the name of the plugin, unless an option names the file.
fn accept_type_and_name(session: &mut Session<'_, '_>) {
    let [kind, name] = session.options.words.as_slice() else { return };
    if !TYPES.contains(&kind.as_str()) {
        return;
    }
    let (kind, name) = (kind.clone(), name.clone());
    session.options.words.clear();
    session.options.set("type", kind);
    if ["command", "oci-image"].iter().all(|option| session.options.value(option).is_none()) {
        session.options.set("command", name.clone());
    }
    session.options.set("name", name);
}

/// Uses the version in a file's name, unless an option gives a version.
///
/// # Errors
/// An option with another version than the file's name.
fn accept_version(
    session: &mut Session<'_, '_>,
    file: &str,
    version: Option<String>,
) -> Result<(), CommandProblem> {
    let Some(version) = version else { return Ok(()) };
    match session.options.value("version").map(|typed| typed.trim_start_matches('v')) {
        None => session.options.set("version", version),
        Some(typed) if typed == version => {}
        Some(typed) => {
            return Err(CommandProblem::usage(format!(
                "{file} is named by version {version}, and -version is {typed}; correct one of the \
                 two, or give the plugin's name with -name"
            )));
        }
    }
    Ok(())
}

/// Returns the fields of a registration that are set, a pair for each value.
fn sent_fields(session: &Session<'_, '_>) -> impl Iterator<Item = (String, String)> {
    let single = ["version", "sha256", "signature", "command", "oci-image"].into_iter().filter_map(
        |option| Some((option.replace('-', "_"), session.options.value(option)?.to_owned())),
    );
    let grants = session.options.values("grant").map(|line| ("grants".to_owned(), line.to_owned()));
    single.chain(grants)
}

/// Returns the fields of a registration without a component in its body.
fn named_fields(session: &Session<'_, '_>) -> Value {
    let mut fields = Map::new();
    let mut grants: Vec<Value> = Vec::new();
    for (name, value) in sent_fields(session) {
        match name.as_str() {
            "grants" => grants.push(value.into()),
            _ => _ = fields.insert(name, value.into()),
        }
    }
    if !grants.is_empty() {
        fields.insert("grants".to_owned(), grants.into());
    }
    Value::Object(fields)
}

fn info(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let name = name_of_type(session)?;
    let version =
        session.options.value("version").map(|version| ("version".to_owned(), version.to_owned()));
    let query = version.into_iter().collect();
    let call = ServerRequest { query, ..ServerRequest::new(Method::GET, path(session, &name)?) };
    let answer = session.ask(&format!("reading plugin {name}"), &call)?;
    session.show(&answer)
}

fn deregister(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let name = name_of_type(session)?;
    let version =
        session.options.value("version").map(|version| ("version".to_owned(), version.to_owned()));
    let force = session.options.switch("force").then(|| ("force".to_owned(), "true".to_owned()));
    let call = ServerRequest {
        query: version.into_iter().chain(force).collect(),
        ..ServerRequest::new(Method::DELETE, path(session, &name)?)
    };
    let answer = session.ask(&format!("deregistering plugin {name}"), &call)?;
    let done = format!("deregistered the {} plugin {name}", kind(session));
    session.show_or(&answer, &done)
}

fn pin(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [name, version] = session.words()?;
    let fields = json!({ "version": version });
    let call = ServerRequest::new(Method::POST, pin_path(session, &name)?).with_fields(fields);
    let answer = session.ask(&format!("pinning plugin {name}"), &call)?;
    session.show_or(
        &answer,
        &format!("pinned version {version} of the {} plugin {name}", kind(session)),
    )
}

fn unpin(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [name] = session.words()?;
    let call = ServerRequest::new(Method::DELETE, pin_path(session, &name)?);
    let answer = session.ask(&format!("removing the pin of plugin {name}"), &call)?;
    session.show_or(&answer, &format!("the {} plugin {name} has no pin", kind(session)))
}

fn reload(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let plugin = session.options.value("plugin").map(str::to_owned);
    let mounts = session.options.fields(&[MOUNTS]);
    let (call, reloaded) = match (plugin, mounts.is_empty()) {
        (Some(name), true) => {
            let path =
                join_path(&join_path(RELOADS, kind(session), "the type")?, &name, "the plugin")?;
            (ServerRequest::new(Method::POST, path), format!("the mounts of {name}"))
        }
        (None, false) => {
            let path = format!("{RELOADS}/backend");
            let call = ServerRequest::new(Method::POST, path).with_fields(Value::Object(mounts));
            (call, "the mounts".to_owned())
        }
        _ => {
            return Err(CommandProblem::usage(
                "give the plugin or the mounts to reload: -plugin=NAME, or -mounts=PATH,PATH"
                    .to_owned(),
            ));
        }
    };
    let answer = session.ask(&format!("reloading {reloaded}"), &call)?;
    session.show_or(&answer, &format!("reloaded {reloaded}"))
}

/// Returns the name of the arguments `NAME` or `TYPE NAME`. The type is an option from then on.
fn name_of_type(session: &mut Session<'_, '_>) -> Result<String, CommandProblem> {
    match session.options.words.as_slice() {
        [name] => Ok(name.clone()),
        [kind, name] if TYPES.contains(&kind.as_str()) => {
            let (kind, name) = (kind.clone(), name.clone());
            session.options.set("type", kind);
            Ok(name)
        }
        _ => Err(session.usage_problem()),
    }
}

fn pin_path(session: &Session<'_, '_>, name: &str) -> Result<String, CommandProblem> {
    join_path(&join_path(PINS, kind(session), "the type")?, name, "the plugin")
}

fn kind<'a>(session: &'a Session<'_, '_>) -> &'a str {
    session.options.value("type").unwrap_or("secret")
}

fn path(session: &Session<'_, '_>, name: &str) -> Result<String, CommandProblem> {
    join_path(&join_path(CATALOG, kind(session), "the type")?, name, "the plugin")
}
