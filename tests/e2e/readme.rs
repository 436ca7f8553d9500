//! The README's commands, run as printed: the demo of `make demo-postgres` in a shell with a dev
//! server, with a shorter lease, and the production start. The output must be the README's.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::documents::block_of;
use bulkhead_tests::paths::{Folder, profile, repository};
use bulkhead_tests::wait::until;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// `make demo-postgres`, with all requirements installed.
struct DemoPostgres {
    process: Child,
    commands: String,
}

impl DemoPostgres {
    fn start() -> Self {
        let mut process = Command::new(repository().join("tests/servers/postgres.sh"))
            .arg("--demo")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("postgres.sh can be started");
        let mut output = process.stdout.take().expect("the standard output is piped");
        let printed = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&printed);
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut chunk) {
                sink.lock()
                    .expect("the output")
                    .push_str(&String::from_utf8_lossy(&chunk[..length]));
            }
        });
        let (commands, _) = until("the demo prints its commands", Duration::from_secs(60), || {
            let printed = printed.lock().expect("the output");
            let (_, after) = printed.split_once("type:\n")?;
            let (commands, _) = after.split_once("\nServer log:")?;
            Some(commands.to_owned())
        });
        Self { process, commands }
    }
}

impl Drop for DemoPostgres {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}

/// The text between two marks of the README, without the fence.
fn block(name: &str) -> String {
    block_of("README.md", name)
}

/// Trims lines, and cuts rulers and the random part of a user's name.
fn steady(text: &str) -> Vec<String> {
    let steady = |line: &str| {
        let line = line.trim();
        if line.starts_with("v-root-reader-") {
            "v-root-reader-…".to_owned()
        } else if !line.is_empty() && line.chars().all(|c| c == '-') {
            "---".to_owned()
        } else {
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        }
    };
    text.lines().map(steady).filter(|line| !line.is_empty()).collect()
}

/// Types commands into a shell beside the server, and returns the output.
fn typed_output(typed: &str, bulkhead: &Bulkhead, environment: &[(&str, &str)]) -> String {
    let run = Command::new("bash")
        .args(["-eu", "-o", "pipefail", "-c", typed])
        .current_dir(repository())
        .env("BULKHEAD_ADDR", bulkhead.url())
        .env("HOME", bulkhead.data())
        .envs(environment.iter().copied())
        .output()
        .expect("bash can be started");
    let output = String::from_utf8_lossy(&run.stdout).into_owned();
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{typed}\n{output}\n{error}");
    output
}

/// Makes the lease of the commands shorter, and so the wait for its end.
fn sooner(typed: &str) -> String {
    let mut sooner = typed.to_owned();
    for (printed, shorter) in [("default_ttl=30s", "default_ttl=8s"), ("sleep 32", "sleep 10")] {
        assert_eq!(sooner.matches(printed).count(), 1, "{printed} in {typed}");
        sooner = sooner.replace(printed, shorter);
    }
    sooner
}

#[test]
fn the_first_three_minutes_are_as_printed() {
    let demo = DemoPostgres::start();
    let bulkhead = Bulkhead::start();
    let built = profile().display().to_string();
    let typed = demo.commands.replace("ROOT-TOKEN", ROOT).replace("$PWD/target/debug", &built);
    let typed = sooner(&typed);
    let output = typed_output(&typed, &bulkhead, &[]);
    let (seen, promised) = (steady(&output), steady(&block("output")));
    assert!(seen.ends_with(&promised), "promised: {promised:#?}\nseen: {seen:#?}");
}

#[test]
fn the_twelve_commands_of_secrets_and_logins_work() {
    let bulkhead = Bulkhead::start();
    let typed = block("logins");
    assert_eq!(typed.lines().count(), 12, "{typed}");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", profile().display());
    let output = typed_output(&typed, &bulkhead, &[("PATH", &path), ("BULKHEAD_TOKEN", ROOT)]);
    // The operator, the person and the machine each read the secret.
    assert_eq!(output.matches("k-71").count(), 3, "{output}");
}

#[test]
fn demo_prints_exactly_readme_commands() {
    let demo = DemoPostgres::start();
    let port = demo.commands.split_once("127.0.0.1:").expect("a port").1;
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let expected = block("commands").replace("15432", &port);
    assert_eq!(steady(&demo.commands), steady(&expected));
}

#[test]
fn the_commands_that_a_dev_server_prints_work() {
    let bulkhead = Bulkhead::start();
    let printed = until("the server is ready", Duration::from_secs(10), || {
        let printed = bulkhead.printed();
        printed.contains("\nready\n").then_some(printed)
    });
    let (_, after) = printed.0.split_once("Try, in another terminal:\n").expect("commands to try");
    let typed: Vec<&str> = after.lines().take_while(|line| line.starts_with("  ")).collect();
    assert!(typed.len() >= 3, "{typed:?}");
    let typed =
        typed.into_iter().filter(|line| !line.contains("make ")).collect::<Vec<_>>().join("\n");
    let run =
        Command::new("bash").args(["-eu", "-c", &typed]).env("HOME", bulkhead.data()).output();
    let run = run.expect("bash can be started");
    assert!(run.status.success(), "{typed}\n{}", String::from_utf8_lossy(&run.stderr));
}

/// The README's production server, started as printed in a temporary folder, but with another port.
struct ProductionServer {
    process: Child,
    folder: Folder,
    url: String,
}

/// A shell with the program under the README's name.
fn shell(line: &str, folder: &Folder) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command
        .args(["-eu", "-c", line])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", profile().display()))
        .env("HOME", folder.path());
    command
}

impl ProductionServer {
    fn start(line: &str) -> Self {
        let folder = Folder::new("readme");
        let mut server = shell(&format!("exec {line}"), &folder);
        let server = server
            .env("BULKHEAD_LISTEN_ADDRESS", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = server.spawn().expect("bash can be started");
        let output = BufReader::new(process.stdout.take().expect("the standard output is piped"));
        let lines: Vec<String> =
            output.lines().map_while(Result::ok).take_while(|line| line != "ready").collect();
        let url = lines.iter().find_map(|line| line.strip_prefix("listening on "));
        let url = url.unwrap_or_else(|| panic!("no address in {lines:?}")).to_owned();
        assert!(
            lines.iter().any(|line| line.contains("operator init")),
            "the next command is printed: {lines:?}"
        );
        Self { process, folder, url }
    }

    /// Types a line, with `input` on standard input, and returns the output.
    fn types(&self, line: &str, input: &str) -> String {
        let mut command = shell(line, &self.folder);
        let command =
            command.env("BULKHEAD_ADDR", &self.url).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("bash can be started");
        let mut pipe = child.stdin.take().expect("the standard input is piped");
        pipe.write_all(input.as_bytes()).expect("the shell reads its input");
        drop(pipe);
        let run = child.wait_with_output().expect("the shell ends");
        let output = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(run.status.success(), "{line}: {output}");
        output
    }
}

impl Drop for ProductionServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_production_start_is_as_printed() {
    let printed = block("production");
    let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
    let [server, init, unseal, login, mount] = lines[..] else {
        panic!("five commands: {lines:#?}")
    };
    let server = ProductionServer::start(server);
    let table = server.types(init, "");
    let value = |name: &str| {
        let row = table.lines().find_map(|line| line.strip_prefix(name));
        row.unwrap_or_else(|| panic!("no {name} in {table}")).trim().to_owned()
    };
    assert!(table.contains("3 of 5"), "{table}");
    for number in ["4", "1", "5"] {
        assert_eq!(server.types("bulkhead status -field=sealed || true", ""), "true");
        server.types(unseal, &format!("{}\n", value(&format!("Unseal Key {number}: "))));
    }
    assert_eq!(server.types("bulkhead status -field=sealed", ""), "false");
    let login = login.replace("ROOT-TOKEN", &value("Initial Root Token: "));
    server.types(&format!("{login}\n{mount}"), "");
    let enabled =
        server.types(&format!("{login}\nbulkhead read -field=type sys/mounts/database"), "");
    assert_eq!(enabled, "database");
    assert!(
        server.folder.path().join("bulkhead-data/bulkhead.db").is_file(),
        "the data are where the README says"
    );
}

#[test]
fn the_configuration_is_valid_as_printed() {
    let folder = Folder::new("readme");
    // The check also looks at the places and the address on this machine.
    let here = folder.path().display().to_string();
    let text = block_of("docs/configuration.md", "configuration")
        .replace("/var/lib/bulkhead", &format!("{here}/data"))
        .replace("/var/log/bulkhead", &here)
        .replace("127.0.0.1:8200", "127.0.0.1:0");
    fs::write(folder.path().join("bulkhead.hcl"), text).expect("a file can be written");
    let run = shell("bulkhead server --check --config bulkhead.hcl", &folder)
        .output()
        .expect("bash can be started");
    let (output, error) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{error}");
    assert!(output.contains(&format!("audits to main: {here}/audit.log")), "{output}");
}
