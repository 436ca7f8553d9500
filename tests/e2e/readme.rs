//! The README's first three minutes, typed as printed: the commands that `make demo-postgres` prints, in a
//! shell, against a dev server. What the README says one sees is what the test expects.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::{repository, target};
use bulkhead_tests::wait::until;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// `make demo-postgres`, from the moment at which everything needed is installed.
struct Demo {
    process: Child,
    commands: String,
}

impl Demo {
    fn start() -> Self {
        let mut process = Command::new(repository().join("tests/servers/postgres.sh"))
            .arg("--demo")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("postgres.sh can be started");
        let mut output = process.stdout.take().expect("its output was asked for");
        let printed = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&printed);
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut chunk) {
                sink.lock().expect("the output").push_str(&String::from_utf8_lossy(&chunk[..length]));
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

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}

/// What stands in the README between two marks, without the fence.
fn block(name: &str) -> String {
    let readme = fs::read_to_string(repository().join("README.md")).expect("there is a README");
    let (_, after) = readme.split_once(&format!("<!-- {name}:begin -->\n")).expect("the block begins");
    let (inside, _) = after.split_once(&format!("<!-- {name}:end -->")).expect("the block ends");
    inside.lines().filter(|line| !line.starts_with("```")).collect::<Vec<_>>().join("\n")
}

/// Lines without spaces at their ends, and with the random part of a user's name, and rulers, cut.
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

#[test]
fn the_first_three_minutes_are_as_printed() {
    let demo = Demo::start();
    let bulkhead = Bulkhead::start();
    let release = target().join("release").display().to_string();
    let typed = demo.commands.replace("ROOT-TOKEN", ROOT).replace("$PWD/target/release", &release);
    let run = Command::new("bash")
        .args(["-eu", "-o", "pipefail", "-c", &typed])
        .current_dir(repository())
        .env("BULKHEAD_ADDR", bulkhead.url())
        .env("HOME", bulkhead.data())
        .output()
        .expect("bash can be started");
    let (output, error) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{typed}\n{output}\n{error}");
    let (seen, promised) = (steady(&output), steady(&block("output")));
    assert!(seen.ends_with(&promised), "promised: {promised:#?}\nseen: {seen:#?}");
}

#[test]
fn the_demo_prints_the_readmes_commands_and_no_others() {
    let demo = Demo::start();
    let port = demo.commands.split_once("127.0.0.1:").expect("a port").1;
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let expected = block("commands").replace("15432", &port);
    assert_eq!(steady(&demo.commands), steady(&expected));
}

#[test]
fn what_the_server_prints_to_try_works() {
    let bulkhead = Bulkhead::start();
    let printed = until("the server is ready", Duration::from_secs(10), || {
        let printed = bulkhead.printed();
        printed.contains("\nready\n").then_some(printed)
    });
    let (_, after) = printed.0.split_once("Try, in another terminal:\n").expect("commands to try");
    let typed: Vec<&str> = after.lines().take_while(|line| line.starts_with("  ")).collect();
    assert!(typed.len() >= 3, "{typed:?}");
    let typed = typed.into_iter().filter(|line| !line.contains("make ")).collect::<Vec<_>>().join("\n");
    let run = Command::new("bash").args(["-eu", "-c", &typed]).env("HOME", bulkhead.data()).output();
    let run = run.expect("bash can be started");
    assert!(run.status.success(), "{typed}\n{}", String::from_utf8_lossy(&run.stderr));
}
