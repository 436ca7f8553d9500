//! The process and the files of a sealed server: access rights and content.

use bulkhead_tests::leaks::assert_sealed;
use bulkhead_tests::operators::{Operators, give, open, sealed, uninitialised};
use bulkhead_tests::paths::{Folder, binary, files_below};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, storage};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn start_beside(server: &Bulkhead, mode: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("server").args(mode).arg("--data-dir").arg(server.data());
    command.env_clear().envs(storage::variable(server.data()));
    command.output().expect("the server can be started")
}

#[test]
fn sealed_or_open_data_refuse_second_process() {
    let server = uninitialised();
    let refused = |server: &Bulkhead| {
        for mode in [
            &["--listen-address", "127.0.0.1:0"][..],
            &["--dev", "--dev-listen-address", "127.0.0.1:0"],
        ] {
            let second = start_beside(server, mode);
            let why = String::from_utf8_lossy(&second.stderr);
            assert_eq!(second.status.code(), Some(1), "{why}");
            assert!(
                why.contains(&server.data().display().to_string()) && why.contains("in use"),
                "{why}"
            );
            assert!(!String::from_utf8_lossy(&second.stdout).contains("ready"));
        }
    };
    refused(&server);
    let operators = Operators::initialise(&server, 1, 1);
    refused(&server);
    operators.unseal(&server);
    refused(&server);
    operators.root(&server).read("sys/mounts").expect(200);
}

#[test]
fn dev_mode_does_not_open_operator_sealed_data() {
    let (mut server, operators) = open();
    server.kill();
    let dev = start_beside(&server, &["--dev", "--dev-listen-address", "127.0.0.1:0"]);
    let why = String::from_utf8_lossy(&dev.stderr);
    assert_eq!(dev.status.code(), Some(1), "{why}");
    assert!(!why.is_empty() && !String::from_utf8_lossy(&dev.stdout).contains("ready"), "{why}");
    server.start_again();
    operators.unseal(&server);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file exists").permissions().mode() & 0o777
}

#[test]
fn every_data_file_has_mode_0600() {
    let server = uninitialised();
    let files = |server: &Bulkhead| {
        for file in files_below(server.data()) {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    };
    files(&server);
    let operators = Operators::initialise(&server, 3, 2);
    files(&server);
    operators.unseal(&server);
    let rules = json!({ "policy": r#"path "a" { capabilities = ["read"] }"# });
    operators.root(&server).write("sys/policies/acl/any", &rules).expect(204);
    operators.root(&server).send("PUT", "sys/rotate", b"").expect(204);
    files(&server);
    operators.root(&server).send("PUT", "sys/seal", b"").expect(204);
    files(&server);
}

#[test]
fn a_created_data_folder_has_mode_0700() {
    let outer = Folder::new("modes");
    let data = outer.path().join("made/by/the/server");
    let mut server = Command::new(binary())
        .args(["server", "--listen-address", "127.0.0.1:0", "--data-dir"])
        .arg(&data)
        .env_clear()
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server can be started");
    until_true("the server holds its data", Duration::from_secs(30), || {
        data.is_dir() && !files_below(&data).is_empty()
    });
    for folder in ["made", "made/by", "made/by/the", "made/by/the/server"] {
        assert_eq!(mode(&outer.path().join(folder)), 0o700, "{folder}");
    }
    server.kill().expect("a running server can be killed");
    server.wait().expect("a killed server ends");
}

/// Runs the server as an ordinary user, also if the tests run as root.
///
/// The owner of the files below `/proc` shows whether the user can read the process's memory: root
/// owns the files of a protected process.
fn ordinary(outer: &Folder) -> Bulkhead {
    let data = Folder::at(outer.path().join("data"));
    if fs::metadata("/proc/self").expect("Linux shows this process").uid() != 0 {
        return Bulkhead::prepared(binary(), data).in_production();
    }
    let program = outer.path().join("bulkhead");
    let wrapper = outer.path().join("as-nobody");
    fs::copy(binary(), &program).expect("the binary can be copied");
    // The folder of the build may be closed to other users.
    let plugins = outer.path().join("plugins");
    let build = binary().parent().and_then(Path::parent).expect("target/debug").join("plugins");
    let copied = Command::new("cp").arg("-a").arg(&build).arg(&plugins).status();
    assert!(copied.expect("cp can be started").success(), "{} is copied", build.display());
    let opened = Command::new("chmod").args(["-R", "a+rX"]).arg(&plugins).status();
    assert!(opened.expect("chmod can be started").success());
    let line = format!(
        "#!/bin/sh\nexport BULKHEAD_BUILD_PLUGINS={}\n\
         exec setpriv --reuid=65534 --regid=65534 --clear-groups {} \"$@\"\n",
        plugins.display(),
        program.display()
    );
    fs::write(&wrapper, line).expect("a script can be written");
    for path in [&program, &wrapper, outer.path()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode can be set");
    }
    std::os::unix::fs::chown(data.path(), Some(65534), Some(65534))
        .expect("root may give a folder away");
    Bulkhead::prepared(wrapper, data).in_production()
}

#[test]
fn own_user_cannot_read_process_memory() {
    let outer = Folder::new("dump");
    let mut server = ordinary(&outer);
    server.start_again();
    Operators::initialise(&server, 1, 1).unseal(&server);
    let process = format!("/proc/{}", server.pid());
    let user = fs::metadata(server.data()).expect("the data folder").uid();
    assert_ne!(user, 0, "the server runs as an ordinary user");
    for file in ["environ", "mem", "maps"] {
        let owner = fs::metadata(format!("{process}/{file}")).expect("the process runs").uid();
        assert_eq!(owner, 0, "{process}/{file} belongs to the server's own user");
    }
    let limits = fs::read_to_string(format!("{process}/limits")).expect("limits can be read");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .expect("there is such a limit");
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{core}");
}

fn base64_of(answer: &Value) -> Vec<String> {
    let keys = answer["keys_base64"].as_array().expect("a list of keys").iter();
    keys.map(|key| key.as_str().expect("a key is text").to_owned()).collect()
}

fn raw(key: &str) -> Vec<u8> {
    let pairs = key
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("hexadecimal is ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

#[track_caller]
fn assert_nowhere(server: &Bulkhead, operators: &Operators, in_base64: &[String]) {
    let spelled = operators.keys.iter().flat_map(|key| [key.to_lowercase(), key.to_uppercase()]);
    let texts = spelled.chain(in_base64.iter().cloned()).chain([operators.token.clone()]);
    for text in texts {
        assert!(!server.printed().contains(&text), "the log shows a key or the root token");
        assert_sealed(server.data(), &text);
    }
    for file in files_below(server.data()) {
        let bytes = fs::read(&file).expect("a file of the data folder can be read");
        for key in &operators.keys {
            // The last byte is the share's number, which is not secret.
            let secret = &raw(key)[..32];
            let shown = bytes.windows(secret.len()).any(|run| run == secret);
            assert!(!shown, "{} holds the bytes of a key", file.display());
        }
    }
}

#[test]
fn files_and_log_lack_key_and_root_token() {
    for (shares, threshold) in [(1, 1), (5, 3)] {
        let mut server = uninitialised();
        let body = json!({ "secret_shares": shares, "secret_threshold": threshold });
        let given = server.client(None).write("sys/init", &body).expect(200);
        let (operators, in_base64) =
            (Operators::of(&given.body, threshold), base64_of(&given.body));
        assert_nowhere(&server, &operators, &in_base64);
        operators.unseal(&server);
        assert_nowhere(&server, &operators, &in_base64);
        operators.root(&server).send("PUT", "sys/rotate", b"").expect(204);
        operators.root(&server).read("auth/token/lookup-self").expect(200);
        assert_nowhere(&server, &operators, &in_base64);
        operators.root(&server).send("PUT", "sys/seal", b"").expect(204);
        give(&server, &operators.keys[0]).expect(200);
        assert!(server.stop(), "a server that is asked to stop says that all is well");
        assert_nowhere(&server, &operators, &in_base64);
        server.start_again();
        operators.unseal(&server);
    }
}

#[test]
fn a_stopped_sealed_server_exits_with_success() {
    let (mut server, operators) = sealed(3, 2);
    give(&server, &operators.keys[0]).expect(200);
    assert!(server.stop());
    assert!(uninitialised().stop());
}
