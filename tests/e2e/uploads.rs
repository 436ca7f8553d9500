//! Uploaded third-party components: mounted, called, stored and removed.

use crate::world::{World, with};
use bulkhead_tests::operators::{Operators, open};
use bulkhead_tests::paths::{guest, plugin, target, with_text};
use bulkhead_tests::wait::until;
use bulkhead_tests::{Bulkhead, Client};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Catalog path of the probe.
const PROBE: &str = "sys/plugins/catalog/secret/probe";

/// The same component with an additional custom section, so with other bytes.
fn with_a_note(component: &[u8]) -> Vec<u8> {
    [component, &[0, 2, 1, b'x']].concat()
}

#[track_caller]
fn mounted(root: &Client, path: &str) {
    root.upload(PROBE, &guest("probe")).expect(204);
    root.write(&format!("sys/mounts/{path}"), &json!({ "type": "probe" })).expect(204);
}

#[test]
fn uploaded_component_survives_restart_and_unsealing() {
    let (mut server, operators) = open();
    let root = operators.root(&server);
    mounted(&root, "third");
    root.write("third/count/visits", &json!({})).expect(204);
    let listed = root.read("sys/mounts/third").expect(200);
    assert_eq!((listed.text("type"), listed.text("running_plugin_version")), ("probe", "1.0.0"));
    for visit in 2..4 {
        server.kill();
        server.start_again();
        operators.unseal(&server);
        let root = operators.root(&server);
        root.write("third/count/visits", &json!({})).expect(204);
        assert_eq!(root.read("third/note/visits").expect(200).body["data"]["note"], json!(visit));
        let printed = server.printed();
        assert!(!printed.contains("compiled-code"), "the component was compiled again: {printed}");
    }
    let info = operators.root(&server).read(PROBE).expect(200);
    assert_eq!(
        (info.text("name"), info.text("type"), info.body["data"]["builtin"].clone()),
        ("probe", "secret", json!(false))
    );
}

#[test]
fn a_registered_component_is_not_replaced() {
    let world = World::empty();
    let probe = guest("probe");
    world.root.upload(PROBE, &probe).expect(204);
    world.root.upload(PROBE, &probe).expect(204);
    world.root.upload(&format!("{PROBE}?version=v1.0.0"), &probe).expect(204);
    let refused = world.root.upload(PROBE, &with_a_note(&probe)).expect(400);
    assert!(refused.errors().contains("the bytes of a version never change"), "{refused:?}");
    world.root.delete(PROBE).expect(204);
    world.root.upload(PROBE, &with_a_note(&probe)).expect(204);
    assert_eq!(
        world.root.list("sys/plugins/catalog/secret").expect(200).body["data"]["keys"],
        json!(["cluster", "database", "directory", "kv", "probe", "scheduler"])
    );
}

#[test]
fn used_or_built_in_plugin_is_not_removed() {
    let world = World::empty();
    mounted(&world.root, "third");
    let refused = world.root.delete(PROBE).expect(400);
    assert!(refused.errors().contains("third/"), "{refused:?}");
    world.root.delete("sys/mounts/third").expect(204);
    world.root.delete(PROBE).expect(204);
    world.root.delete(PROBE).expect(204);
    world.root.read(PROBE).expect(404);
    let refused = world.root.write("sys/mounts/third", &json!({ "type": "probe" })).expect(400);
    assert!(refused.errors().contains("plugin not found in the catalog"), "{refused:?}");
    for builtin in ["secret/database", "database/postgresql-database-plugin"] {
        let refused = world.root.delete(&format!("sys/plugins/catalog/{builtin}")).expect(400);
        assert!(refused.errors().contains("built in"), "{refused:?}");
    }
}

#[test]
fn uploaded_component_reaches_nothing_without_grant() {
    let world = World::empty();
    mounted(&world.root, "third");
    world.root.write("third/count/x", &json!({})).expect(204);
    let other = world.root.read("third/outside/x");
    assert!(other.status >= 400 || other.body["data"]["note"] == Value::Null, "{other:?}");
    world.root.write("database/config/none", &json!({ "plugin_name": "probe" })).expect(400);
}

#[test]
fn a_mounts_grants_stay_below_its_plugins_ceiling() {
    let world = World::empty();
    let probe = guest("probe");
    let ceiling = |lines: &str| format!("{PROBE}?{lines}");
    world.root.upload(&ceiling("grants=limit:memory=96MiB&grants=http"), &probe).expect(200);
    assert_eq!(
        world.root.read(PROBE).expect(200).body["data"]["grants"],
        json!(["limit:memory=96MiB", "http"])
    );
    let large = json!({ "type": "probe", "grants": ["limit:memory=128MiB"] });
    let refused = world.root.write("sys/mounts/third", &large).expect(400);
    assert!(refused.errors().contains("limit:memory=128MiB is above"), "{refused:?}");
    assert!(refused.errors().contains("allows limit:memory=96MiB;"), "{refused:?}");
    world.root.write("sys/mounts/third", &json!({ "type": "probe" })).expect(204);
    let more = json!({ "add_grants": ["limit:memory=128MiB"] });
    world.root.write("sys/mounts/third/tune", &more).expect(400);
    world.root.upload(PROBE, &probe).expect(204);
    world.root.write("sys/mounts/third/tune", &more).expect(400);
    let answer = world.root.upload(&ceiling("grants=limit:memory=128MiB"), &probe).expect(200);
    assert!(
        answer.warnings().contains("asks for http, which its ceiling does not allow"),
        "{answer:?}"
    );
    world.root.write("sys/mounts/third/tune", &more).expect(204);
    world.root.write("third/count/x", &json!({})).expect(204);
    for (wrong, says) in
        [("databse", "database"), ("limit:memory=1MiB&grants=limit:memory=2MiB", "one limit")]
    {
        let refused = world.root.upload(&ceiling(&format!("grants={wrong}")), &probe).expect(400);
        assert!(refused.errors().contains(says), "{refused:?}");
    }
}

const THEIRS: &str = "thirdparty-database-plugin";

/// The PostgreSQL plugin under another author's name and alias.
fn brought_along() -> Vec<u8> {
    let named = with_text(plugin("database-postgresql"), "postgresql-database-plugin", THEIRS);
    // The first credential type directly follows the alias.
    with_text(named, "postgresqlpassword", "thirdpartypassword")
}

#[test]
fn uploaded_database_plugin_connects_within_ceiling_and_grants() {
    let world = World::empty();
    let theirs = THEIRS;
    let brought = brought_along();
    let place = format!("sys/plugins/catalog/database/{theirs}");
    let answer = world
        .root
        .upload(&format!("{place}?grants=sql:postgres://db.example"), &brought)
        .expect(200);
    assert!(
        answer.warnings().contains("asks for sql, which its ceiling does not allow in full"),
        "{answer:?}"
    );

    let port = world
        .postgres
        .url()
        .rsplit(':')
        .next()
        .and_then(|rest| rest.split('/').next())
        .unwrap_or("")
        .to_owned();
    let line = format!("sql:postgres://127.0.0.1:{port}");
    let settings = with(world.connection(), json!({ "plugin_name": theirs }));
    let refusal = || world.root.write("database/config/brought", &settings).expect(400).errors();
    let why = refusal();
    assert!(why.contains(&format!("bulkhead plugin register --grant '{line}'")), "{why}");
    world.root.upload(&format!("{place}?grants={line}"), &brought).expect(200);
    let why = refusal();
    assert!(why.contains(&format!("bulkhead secrets tune --grant '{line}' database/")), "{why}");
    world.root.write("sys/mounts/database/tune", &json!({ "add_grants": [line] })).expect(204);
    assert!(world.root.write("database/config/brought", &settings).status < 300);
}

#[test]
fn database_plugin_with_leases_needs_forced_removal() {
    let world = World::empty();
    let theirs = THEIRS;
    let brought = brought_along();
    let place = format!("sys/plugins/catalog/database/{theirs}");
    let line = format!("sql:postgres://127.0.0.1:{}", world.postgres.port);
    let upload = || world.root.upload(&format!("{place}?grants={line}"), &brought);
    assert!(upload().status < 300);
    let grants = json!({ "add_grants": [line, "address:127.0.0.0/8"] });
    world.root.write("sys/mounts/database/tune", &grants).expect(204);
    // The connection uses the alias; the lease depends on the plugin's own name.
    let settings = with(world.connection(), json!({ "plugin_name": "thirdparty" }));
    assert!(world.root.write("database/config/demo", &settings).status < 300);
    world.role("reader", json!({}));
    let credential = world.credential("reader");

    let refused = world.root.delete(&place).expect(400).errors();
    for part in ["connection \"demo\" of database/", "live leases: 1;", "force=true"] {
        assert!(refused.contains(part), "{refused}");
    }
    world.root.read(&place).expect(200);

    let warnings = world.root.delete(&format!("{place}?force=true")).expect(200).warnings();
    assert!(warnings.contains(&format!("database plugin {theirs} is still needed")), "{warnings}");
    assert!(warnings.contains("live leases: 1;"), "{warnings}");
    let lease = json!({ "lease_id": credential.lease });
    world.root.write("sys/leases/revoke", &lease).expect(502);
    let lookup = world.root.write("sys/leases/lookup", &lease).expect(200);
    assert_eq!(lookup.body["data"]["irrevocable"], false, "the lease waits for the plugin");

    assert!(upload().status < 300);
    world.revoke(&credential.lease);
    assert!(!world.postgres.has_user(&credential.username));
    world.root.delete(&place).expect(400);
    world.root.delete("database/config/demo").expect(204);
    world.root.delete(&place).expect(204);
}

/// The server's compiler process, if any. A zombie counts.
fn compiler_of(server: u32) -> Option<u32> {
    let processes = fs::read_dir("/proc").expect("the system tells of its processes");
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name in brackets may contain spaces; the state and the parent follow.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parent == Some(server)
    };
    pids.into_iter().find(is_child)
}

#[test]
fn killed_compiler_leaves_nothing_and_next_upload_succeeds() {
    let world = World::empty();
    let server = world.bulkhead.pid();
    let answer = thread::scope(|scope| {
        let uploading = scope.spawn(|| world.root.upload(PROBE, &guest("probe")));
        let (compiler, _) =
            until("the compiler starts", Duration::from_secs(30), || compiler_of(server));
        let killed = Command::new("kill").args(["-9", &compiler.to_string()]).status();
        assert!(killed.expect("kill is there").success());
        uploading.join().expect("an answer comes")
    });
    let errors = answer.expect(503).errors();
    assert!(errors.contains("SIGKILL") && errors.contains("try again"), "{errors}");
    assert_eq!(compiler_of(server), None, "no request waited for the compilation");
    world.root.read(PROBE).expect(404);
    world.root.upload(PROBE, &guest("probe")).expect(204);
    assert_eq!(compiler_of(server), None);
}

#[test]
fn audit_file_records_only_upload_length() {
    let world = World::empty();
    let probe = guest("probe");
    world.root.upload(PROBE, &probe).expect(204);
    let audited = fs::read_to_string(world.bulkhead.data().join("audit.log"))
        .expect("a dev server is audited");
    let lines: Vec<&str> = audited.lines().filter(|line| line.contains(PROBE)).collect();
    assert_eq!(lines.len(), 2, "a request and its answer");
    let length = format!("\"body_bytes\":{}", probe.len());
    assert!(lines.iter().all(|line| line.contains(&length) && line.len() < 4_096), "{lines:?}");
}

#[test]
fn the_command_line_registers_lists_shows_and_deregisters() {
    let world = World::empty();
    let file = target().join("guests/probe.wasm");
    let run = |arguments: &[&str]| {
        let output = world.bulkhead.command(arguments).output().expect("the program runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, why) = run(&[
        "plugin",
        "register",
        &file.display().to_string(),
        "-version=1.0.0",
        "-grant=database:*",
    ]);
    assert_eq!(code, Some(0), "{why}");
    assert_eq!(out, "registered the secret plugin probe 1.0.0\n");
    let (code, out, _) = run(&["plugin", "list"]);
    assert!(
        code == Some(0) && out.contains("postgresql-database-plugin") && out.contains("probe"),
        "{out}"
    );
    let (code, out, _) = run(&["plugin", "info", "probe"]);
    assert!(code == Some(0) && out.contains("1.0.0") && out.contains("database:*"), "{out}");
    let (code, _, why) =
        run(&["plugin", "register", &file.display().to_string(), "-version=2.0.0"]);
    assert!(code == Some(1) && why.contains("plugin version mismatch"), "{code:?} {why}");
    let (code, out, _) = run(&["plugin", "deregister", "probe"]);
    assert_eq!((code, out.as_str()), (Some(0), "deregistered the secret plugin probe\n"));
    assert_eq!(run(&["plugin", "info", "probe"]).0, Some(1));
}

#[test]
fn idle_mounts_cost_little_memory_without_delaying_start() {
    const MOUNTS: u64 = 1_000;
    let (mut server, operators) = open();
    operators.root(&server).upload(PROBE, &guest("probe")).expect(204);
    let (_, before) = opened_again(&mut server, &operators);
    let root = operators.root(&server);
    for mount in 0..MOUNTS {
        root.write(&format!("sys/mounts/idle{mount}"), &json!({ "type": "probe" })).expect(204);
    }
    // The memory of a start varies by a few MiB with the load of the machine.
    let starts: Vec<_> = (0..3).map(|_| opened_again(&mut server, &operators)).collect();
    let opening = starts.iter().map(|(opening, _)| *opening).min().expect("three starts");
    let after = starts.iter().map(|(_, memory)| *memory).min().expect("three starts");
    let each = after.saturating_sub(before) / MOUNTS;
    assert!(each <= 16 << 10, "{each} bytes for each idle mount");
    assert!(opening < Duration::from_secs(2), "the service opens in {opening:?}");
    assert!(!server.printed().contains("plugin-loaded"), "{}", server.printed());
    operators.root(&server).write("idle77/count/x", &json!({})).expect(204);
    assert!(server.printed().contains("plugin-loaded"), "{}", server.printed());
}

/// Restarts the server. Returns the duration of its unsealing and its memory afterwards.
fn opened_again(server: &mut Bulkhead, operators: &Operators) -> (Duration, u64) {
    server.kill();
    server.start_again();
    let began = Instant::now();
    operators.unseal(server);
    (began.elapsed(), server.memory())
}
