//! Tests of connection URLs and of the keyword form.

use super::*;

fn place(url: &str) -> PostgresPlace {
    PostgresPlace::from_url(url).unwrap_or_else(|fault| panic!("{url}: {fault}"))
}

fn refusal(url: &str) -> String {
    PostgresPlace::from_url(url).err().unwrap_or_else(|| panic!("{url} is read")).to_string()
}

fn servers(place: &PostgresPlace) -> Vec<String> {
    place.servers.iter().map(ToString::to_string).collect()
}

#[test]
fn messages_and_debug_hide_the_password() {
    let shown = place("postgresql://u:hunter2@db.example:6000/vault");
    let text = shown.to_string();
    assert_eq!(text, "postgresql://db.example:6000/vault (schema public, tables bulkhead_*)");
    assert!(!format!("{shown:?}").contains("hunter2"));
    for url in [
        "nonsense hunter2",
        "mysql://u:hunter2@h/d?a=b",
        "postgresql://u:hunter2@h:hunter2/d",
        "postgresql://u:a?hunter2=1@h/d",
        "postgresql://u:a?hunter2@h/d",
        "postgresql://u@h/d?password=a&hunter2=b",
        "postgresql://u:hunter2%@h/d",
        "host=h password=a hunter2 user=u",
        "host=h password=a hunter2=1",
        "host=h user=u password='hunter2",
        "host=h user=u password=hunter2 password=hunter3",
    ] {
        let said = refusal(url);
        assert!(!said.contains("hunter"), "{said}");
    }
}

#[test]
fn parts_of_url_are_read() {
    let url = "postgres://a%40b:p%3A@[::1]:1,h,%2Frun%2Fpg:2/d?search_path=s\
               &target_session_attrs=read-write&connect_timeout=3";
    let place = place(url);
    assert_eq!((place.user.as_str(), place.schema.as_str()), ("a@b", "s"));
    assert!(matches!(&place.password, PasswordSource::Fixed(text) if text.expose() == "p:"));
    assert_eq!(servers(&place), ["[::1]:1", "h:5432", "/run/pg:2"]);
    assert_eq!(place.session_target, SessionTarget::ReadWrite);
    assert_eq!(place.connect_timeout, Duration::from_secs(3));
    assert_eq!(place.tls.mode, PostgresTlsMode::VerifyFull, "h is another machine");
}

#[test]
fn both_forms_describe_the_same_place() {
    let forms = [
        "postgresql://u:p%20%27w@/d?host=h1,h2&port=1,2&options=-csearch_path%3Ds",
        "postgresql://h1:1,h2:2/?user=u&password=p%20%27w&dbname=d&options=-c%20search_path%3Ds",
        "postgresql://u:p%20%27w@h1:1,h2:2/d?user=u&host=h1,h2&search_path=s",
        "host=h1,h2 port=1,2 user = u password='p \\'w' dbname=d options='-c search_path=s'",
        "  host='h1,h2'\tport=1,2 user=u password=p\\ \\'w dbname=d options=--search_path=s ",
    ];
    let parts = forms.map(|form| {
        let place = place(form);
        let PasswordSource::Fixed(password) = &place.password else { panic!("{form}") };
        assert_eq!(password.expose(), "p 'w");
        assert_eq!(place.session_target, SessionTarget::ReadWrite);
        (place.to_string(), place.user)
    });
    assert_eq!(parts[0].0, "postgresql://h1:1,h2:2/d (schema s, tables bulkhead_*)");
    assert!(parts.iter().all(|part| *part == parts[0]), "{parts:?}");
}

#[test]
fn omitted_parts_have_their_defaults() {
    let local = place("postgresql://u@");
    assert_eq!((servers(&local), local.database.as_str()), (vec!["localhost:5432".into()], "u"));
    assert_eq!(local.tls.mode, PostgresTlsMode::Prefer);
    assert_eq!(local.session_target, SessionTarget::Any);
    let socket = place("host=/run/pg user=u passfile=/etc/pass");
    assert!(socket.servers[0].is_socket());
    assert!(matches!(socket.password, PasswordSource::PassFile(path) if path.ends_with("pass")));
    assert_eq!(servers(&place("postgresql://u@[::1]/d")), ["[::1]:5432"]);
    assert_eq!(servers(&place("host=::1 user=u")), ["[::1]:5432"]);
    assert_eq!(servers(&place("postgresql://u@a,b:7/d")), ["a:5432", "b:7"]);
    assert_eq!(servers(&place("postgresql://u@a,b/d?port=7")), ["a:7", "b:7"]);
    let rooted = place("postgresql://u@127.0.0.1/d?sslrootcert=/ca.pem");
    assert_eq!(rooted.tls.mode, PostgresTlsMode::VerifyFull, "the file has an effect");
}

#[test]
fn unusable_parameters_are_refused_by_name() {
    for (parameters, words) in [
        ("sslmode=allow", "sslmode=allow"),
        ("sslmode=on", "sslmode is not"),
        ("ssl=true", "parameter ssl is not supported"),
        ("channel_binding=require", "channel_binding"),
        ("hostaddr=1.2.3.4", "hostaddr"),
        ("target_session_attrs=standby", "the store writes"),
        ("host=a,b&target_session_attrs=any", "standby"),
        ("connect_timeout=0", "connect_timeout"),
        ("connect_timeout=soon", "connect_timeout"),
        ("connect_timeout=301", "from 1 to 300"),
        ("options=-csearch_path=s%20-cx=y", "options"),
        ("options=-cstatement_timeout=1", "options"),
        ("options=-csearch_path=a&search_path=b", "search_path twice"),
        ("search_path=a,b", "single schema"),
        ("user=other", "user twice"),
        ("dbname=other", "dbname twice"),
        ("password=a&password=b", "password twice"),
        ("password=a&passfile=b", "passfile"),
        ("sslcert=a", "together"),
        ("sslrootcert=a&sslmode=prefer", "no effect"),
        ("sslcert=a&sslkey=b&sslmode=disable", "no effect"),
        ("sslrootcert=system&sslmode=require", "verify-full"),
        ("host=a,b&port=1,2,3", "numbers of hosts and ports"),
        ("port=0", "port"),
        ("sslmode", "no value"),
        ("user=%zz", "hexadecimal"),
        ("user=%ff", "UTF-8"),
    ] {
        let said = refusal(&format!("postgresql://u@/d?{parameters}"));
        assert!(said.contains(words), "{parameters}: {said}");
    }
    for (url, words) in [
        ("postgresql://h/d", "no user"),
        ("postgresql://u@h:x/d", "port"),
        ("postgresql://u@::1/d", "brackets"),
        ("postgresql://u@[::1/d", "]"),
        ("postgresql://u@[::1]x/d", "brackets"),
        ("postgresql://u@h/d?host=other", "host twice"),
        ("host=h user", "followed by ="),
        ("host=h user='u'x", "followed by a space"),
    ] {
        let said = refusal(url);
        assert!(said.contains(words), "{url}: {said}");
    }
}

/// Returns the setting with the name of its parameter.
fn setting(parameter: &'static str, value: &str) -> PostgresSetting {
    PostgresSetting { name: parameter, parameter, value: value.to_owned() }
}

#[test]
fn settings_beside_url_have_rules_of_url() {
    let local = "postgresql://u@127.0.0.1/d";
    let roots = [setting("sslrootcert", "/ca.pem")];
    let place = PostgresPlace::from_url_beside(local, &roots).unwrap();
    assert_eq!(place.tls.mode, PostgresTlsMode::VerifyFull, "the file has an effect");
    let schema = PostgresSetting { name: "schema", ..setting("search_path", "a b") };
    let place = PostgresPlace::from_url_beside(local, std::slice::from_ref(&schema)).unwrap();
    assert_eq!(place.schema, "a b");
    for (url, settings, words) in [
        ("postgresql://u@/d?sslmode=prefer", &roots[..], "no effect"),
        (local, &[roots[0].clone(), setting("sslmode", "disable")], "no effect"),
        (local, &[setting("sslmode", "allow")], "sslmode=allow"),
        ("postgresql://u@a,b/d", &[setting("target_session_attrs", "any")], "standby"),
        (local, &[setting("connect_timeout", "301")], "from 1 to 300"),
        (local, &[setting("sslrootcert", "system"), setting("sslmode", "require")], "verify-full"),
        ("host = h user = u sslrootcert = /b", &roots, "the connection URL has sslrootcert"),
        (
            "postgresql://u@/d?options=-csearch_path%3Dt",
            std::slice::from_ref(&schema),
            "and schema is given",
        ),
    ] {
        let refusal = PostgresPlace::from_url_beside(url, settings).unwrap_err().to_string();
        assert!(refusal.contains(words), "{url} {settings:?}: {refusal}");
    }
}
