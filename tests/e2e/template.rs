//! The plugin template, used by an author outside of the repository: copied, built with the crates
//! as published, and run with the commands of its README.

use crate::world::World;
use bulkhead_tests::paths::{Folder, repository, target};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Crates of a plugin's build, dependencies first.
const PUBLISHED: [&str; 4] =
    ["bulkhead-wire", "bulkhead-schedule", "bulkhead-crypto", "bulkhead-sdk"];

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().expect("the command can be started");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// The cargo of this build, which has fetched all dependencies.
fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).arg("--offline").env_remove("CARGO_TARGET_DIR");
    // the test suite sets `RUSTC_BOOTSTRAP` for the test programs alone
    cargo.env_remove("RUSTFLAGS").env_remove("RUSTC_BOOTSTRAP");
    cargo
}

/// Packs and unpacks the crates: a published crate contains only what cargo packs.
fn publish(folder: &Path) {
    let mut package = cargo(&["package", "--no-verify", "--allow-dirty", "--exclude-lockfile"]);
    package.args(PUBLISHED.iter().flat_map(|name| ["-p", name]));
    run(package.arg("--target-dir").arg(folder).current_dir(repository()));
    for name in PUBLISHED {
        let crate_file = folder.join(format!("package/{name}-0.1.0.crate"));
        run(Command::new("tar").arg("xzmf").arg(crate_file).arg("-C").arg(folder));
    }
}

/// Builds the copy in `author`, with this build's target folder, which has the dependencies
/// compiled.
fn build(author: &Path, published: &Path) -> Vec<u8> {
    let mut build = cargo(&["build", "--release", "--target", "wasm32-wasip2"]);
    for name in PUBLISHED {
        let path = published.join(format!("{name}-0.1.0"));
        build.arg("--config").arg(format!("patch.crates-io.{name}.path={path:?}"));
    }
    run(build.arg("--target-dir").arg(target()).current_dir(author));
    fs::read(target().join("wasm32-wasip2/release/shelf.wasm")).expect("the component")
}

/// The README's commands, in order.
fn commands(readme: &str) -> Vec<Vec<String>> {
    let typed = readme.lines().filter_map(|line| line.strip_prefix("bulkhead "));
    let words = |line: &str| {
        let quoted = line.split('"').enumerate().flat_map(|(place, part)| {
            let is_quoted = place % 2 == 1;
            let spaced = part.replace(' ', if is_quoted { "\u{a0}" } else { " " });
            spaced.chars().collect::<Vec<char>>()
        });
        let line: String = quoted.collect();
        line.split(' ').map(|word| word.replace('\u{a0}', " ")).collect()
    };
    typed.map(words).collect()
}

#[test]
fn author_builds_and_uses_template_as_readme_says() {
    let folder = Folder::new("template");
    let author = folder.path().join("author");
    run(Command::new("cp").arg("-r").arg(repository().join("plugins/template")).arg(&author));
    fs::copy(repository().join("Cargo.lock"), author.join("Cargo.lock")).expect("a lock file");
    let published = folder.path().join("published");
    publish(&published);
    let component = build(&author, &published);

    let built = author.join("target/wasm32-wasip2/release");
    fs::create_dir_all(&built).expect("a folder can be made");
    fs::write(built.join("shelf.wasm"), component).expect("a file can be written");
    let world = World::empty();
    let readme = fs::read_to_string(author.join("README.md")).expect("a README");
    let commands = commands(&readme);
    assert_eq!(commands.len(), 4, "{commands:?}");
    let mut printed = String::new();
    for words in commands {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        printed = run(world.bulkhead.command(&words).current_dir(&author));
    }
    assert!(printed.contains("two bottles"), "{printed}");
    let info = world.root.read("sys/plugins/catalog/secret/shelf").expect(200);
    assert_eq!(info.text("version"), "0.1.0");
}
