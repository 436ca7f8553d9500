//! `bulkhead operator generate-root` and `operator rekey`, as key holders type them.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::operators::{Operators, of_key_holders, seal_status, sealed};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

/// Runs `bulkhead operator` with these words and `input` on standard input. Returns exit code,
/// output and error output.
fn operator(server: &Bulkhead, token: &str, words: &[&str], input: &str) -> (i32, String, String) {
    let mut command = server.command(&[&["operator"], words].concat());
    command.env("BULKHEAD_TOKEN", token);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command can be started");
    let mut pipe = child.stdin.take().expect("the standard input is piped");
    // A command that needs no input may have ended.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    let done = child.wait_with_output().expect("the command ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
}

#[track_caller]
fn shown(server: &Bulkhead, token: &str, words: &[&str], input: &str) -> Value {
    let words = [words, &["-format=json"]].concat();
    let (code, out, err) = operator(server, token, &words, input);
    assert_eq!(code, 0, "{words:?}: {err}");
    serde_json::from_str(&out).expect("-format=json prints JSON")
}

fn generated(server: &Bulkhead, operators: &Operators, token: &str, more: &[&str]) -> String {
    let run = |words: &[&str], input: &str| {
        let answer = shown(server, token, &[words, more].concat(), input);
        if answer["data"].is_object() { answer["data"].clone() } else { answer }
    };
    let answer = run(&["generate-root", "-generate-otp"], "");
    let otp = answer["otp"].as_str().expect("an OTP");
    run(&["generate-root", "-init", &format!("-otp={otp}")], "");
    assert_eq!(run(&["generate-root", "-status"], "")["progress"], 0);
    for key in &operators.keys[1..3] {
        assert_eq!(run(&["generate-root"], key)["complete"], false);
    }
    let done = run(&["generate-root", "-"], &operators.keys[4]);
    let decode = format!("-decode={}", done["encoded_token"].as_str().expect("a token"));
    let (code, out, err) = operator(server, "", &["generate-root", &decode], otp);
    assert_eq!(code, 0, "{err}");
    out.trim_end().to_owned()
}

#[test]
fn three_holders_generate_a_root_token() {
    let (server, operators) = of_key_holders(5, 3);
    operators.unseal(&server);
    let token = generated(&server, &operators, "", &[]);
    server.client(Some(&token)).read("sys/mounts").expect(200);
    let (code, _, err) = operator(&server, "", &["generate-root"], &operators.keys[0]);
    assert!(code == 1 && err.contains("-init"), "{err}");
    shown(&server, "", &["generate-root", "-init"], "");
    let (code, _, err) = operator(&server, "", &["generate-root", "-nonce=zz"], &operators.keys[0]);
    assert!(code == 1 && err.contains("nonce") && !err.contains(&operators.keys[0]), "{err}");
    let (code, out, err) = operator(&server, "", &["generate-root", "-cancel"], "");
    assert!(code == 0 && out.contains("cancelled"), "{out}{err}");
}

#[test]
fn without_the_setting_a_token_is_needed() {
    let (server, operators) = sealed(5, 3);
    operators.unseal(&server);
    let (code, _, err) = operator(&server, &operators.token, &["generate-root", "-init"], "");
    assert!(code == 1 && err.contains("allow_key_holders = true"), "{err}");
    assert!(err.contains("Next: the same command with -with-token"), "{err}");
    let (code, _, err) = operator(&server, &operators.token, &["rekey", "-status"], "");
    assert!(code == 1 && err.contains("-with-token"), "{err}");
    let token = generated(&server, &operators, &operators.token, &["-with-token"]);
    server.client(Some(&token)).read("sys/mounts").expect(200);
}

#[test]
fn three_holders_make_new_keys_and_verify_them() {
    let (mut server, operators) = of_key_holders(5, 3);
    operators.unseal(&server);
    let words = ["rekey", "-init", "-key-shares=2", "-key-threshold=2", "-verify"];
    let (code, out, err) = operator(&server, "", &words, "");
    assert!(code == 0 && out.contains("0/3"), "{out}{err}");
    for key in &operators.keys[..2] {
        assert_eq!(shown(&server, "", &["rekey"], key)["nonce"].as_str().map(str::len), Some(36));
    }
    let mut answer = shown(&server, "", &["rekey"], &operators.keys[2]);
    answer["root_token"] = operators.token.clone().into();
    let new = Operators::of(&answer, 2);
    assert_eq!(shown(&server, "", &["rekey", "-verify", "-status"], "")["progress"], 0);
    let (code, out, err) = operator(&server, "", &["rekey", "-verify"], &new.keys[0]);
    assert!(code == 0 && out.contains("1/2"), "{out}{err}");
    assert_eq!(seal_status(&server)["n"], 5);
    let (code, out, err) = operator(&server, "", &["rekey", "-verify"], &new.keys[1]);
    assert!(code == 0 && out.contains("in use"), "{out}{err}");
    server.kill();
    server.start_again();
    new.unseal(&server);
}
