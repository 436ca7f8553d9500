//! Tests of the parser: accepted and refused texts, and no panic or unbounded growth on any text.

use super::{HclBody, HclItem, HclValue, MAX_NODES, MAX_TEXT, SyntaxError, parse};

fn read(text: &str) -> HclBody {
    parse(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn refusal(text: &str) -> SyntaxError {
    parse(text).expect_err(text)
}

fn text(value: &str) -> HclValue {
    HclValue::Text(value.to_owned())
}

/// Returns the value of the only item.
fn value(source: &str) -> HclValue {
    let mut items = read(source).items;
    assert_eq!(items.len(), 1, "{source}");
    items.remove(0).value
}

/// Returns the tree without line numbers, which differ between the two syntaxes.
fn without_lines(body: HclBody) -> HclBody {
    let items = body.items.into_iter().map(|item| HclItem {
        line: 0,
        value: node_without_lines(item.value),
        element_lines: Vec::new(),
        ..item
    });
    HclBody { items: items.collect() }
}

fn node_without_lines(node: HclValue) -> HclValue {
    match node {
        HclValue::Block(body) => HclValue::Block(without_lines(body)),
        HclValue::List(list) => HclValue::List(list.into_iter().map(node_without_lines).collect()),
        other => other,
    }
}

const POLICY: &str = r#"
# comment
path "secret/data/*" { // another
    capabilities = ["read", "list",] /* and
    a long one */
    "allowed_parameters" = {
        "name" = []
        ttl = ["1h", 30]
    }
}
path "sys/+/x" { capabilities = ["deny"] } path "y" {
    policy = "read", comment = "${not a template}" }
"#;

#[test]
fn a_policy_in_hcl1_becomes_its_tree() {
    let body = read(POLICY);
    let heads: Vec<_> =
        body.items.iter().map(|i| (i.key.as_str(), i.labels.join(","), i.line)).collect();
    assert_eq!(
        heads,
        [
            ("path", "secret/data/*".to_owned(), 3),
            ("path", "sys/+/x".to_owned(), 11),
            ("path", "y".to_owned(), 11)
        ]
    );
    let HclValue::Block(first) = &body.items[0].value else { panic!("not a block") };
    assert_eq!(first.items[0].value, HclValue::List(vec![text("read"), text("list")]));
    assert_eq!((first.items[1].key.as_str(), first.items[1].line), ("allowed_parameters", 6));
    let HclValue::Block(last) = &body.items[2].value else { panic!("not a block") };
    assert_eq!(last.items[1].value, text("${not a template}"));
}

#[test]
fn json_gives_the_same_tree_as_hcl() {
    let json = r#" {"path": {
        "secret/data/*": {"capabilities": ["read", "list"],
            "allowed_parameters": {"name": [], "ttl": ["1h", 30]}},
        "sys/+/x": {"capabilities": ["deny"]},
        "y": {"policy": "read", "comment": "${not a template}"}
    }}"#;
    assert_eq!(without_lines(read(json)), without_lines(read(POLICY)));
}

#[test]
fn json_lists_of_objects_are_repeated_items() {
    let json =
        r#"{"length": 20, "rule": [{"charset": {"min-chars": 1}}, {"charset": {"min-chars": 2}}]}"#;
    let hcl = "length = 20\nrule \"charset\" { min-chars = 1 }\nrule \"charset\" { min-chars = 2 }";
    assert_eq!(without_lines(read(json)), without_lines(read(hcl)));
}

#[test]
fn plain_json_objects_stay_blocks_without_labels() {
    let body = read(r#"{"agent": {"policy": "read"}, "empty": {}, "mixed": {"a": {}, "b": 1}}"#);
    assert!(
        body.items.iter().all(|i| i.labels.is_empty() && matches!(i.value, HclValue::Block(_)))
    );
    assert_eq!(body.items.len(), 3);
}

#[test]
fn json_keys_given_twice_are_both_kept() {
    let body = read(
        "{\"path\": {\"a\": {\"capabilities\": [\"deny\"]},\n\
         \"a\": {\"capabilities\": [\"read\"]}}}",
    );
    let labels: Vec<_> = body.items.iter().map(|i| (i.labels.join(","), i.line)).collect();
    assert_eq!(labels, [("a".to_owned(), 1), ("a".to_owned(), 2)]);
}

#[test]
fn blocks_with_or_without_equals_sign_are_equal() {
    assert_eq!(value("a = { b = 1 }"), value("a { b = 1 }"));
    assert_eq!(value("a = { b = 1, \"c\" = 2, }"), value("a { b = 1 c = 2 }"));
}

#[test]
fn text_is_unescaped_and_interpolation_is_plain_text() {
    assert_eq!(
        value(r#"a = "q\" b\\ n\n t\t r\r \u00e9 \U0001F600""#),
        text("q\" b\\ n\n t\t r\r é 😀")
    );
    assert_eq!(value(r#"a = "${x} %{y} {{z}}""#), text("${x} %{y} {{z}}"));
}

#[test]
fn heredocs_keep_lines_and_lose_only_common_margin() {
    assert_eq!(value("a = <<EOF\n x\n\"y\" # no comment\nEOF\n"), text(" x\n\"y\" # no comment\n"));
    assert_eq!(value("a = <<-EOF\n    x\n      y\n    EOF"), text("x\n  y\n"));
    assert_eq!(value("a = <<-EOF\n  x\n      y\n    EOF\n"), text("  x\n      y\n"));
    assert_eq!(value("a = [<<E\nx\nE\n, \"y\"]"), HclValue::List(vec![text("x\n"), text("y")]));
    assert_eq!(value("a = <<EOF\r\nx\r\nEOF\r\n"), text("x\r\n"));
}

#[test]
fn numbers_and_flags_are_read_as_written() {
    let number = |n: &str| HclValue::Number(n.parse().unwrap());
    assert_eq!(value("a = 20"), number("20"));
    assert_eq!(value("a = -1.5e3"), number("-1500.0"));
    assert_eq!(value("a = 18446744073709551615"), number("18446744073709551615"));
    assert_eq!(
        value("a = [true, false]"),
        HclValue::List(vec![HclValue::Bool(true), HclValue::Bool(false)])
    );
    assert_eq!(value("{\"a\": [20, -3, 1.5]}"), value("a = [20, -3, 1.5]"));
}

#[test]
fn an_empty_text_has_no_items() {
    for source in ["", "  \n\t", "# only a comment", "/* x */", "{}", "\u{feff}# mark"] {
        assert_eq!(read(source).items, [], "{source:?}");
    }
}

#[test]
fn a_refusal_names_the_place_and_the_remedy() {
    for (source, line, column, part) in [
        ("path \"a\" {\n  x = read\n}", 2, 7, "`read` is not a value; put text in double quotes"),
        ("a = 1\n}", 2, 1, "closes nothing"),
        ("path \"a\" {\n", 1, 10, "block opened here is not closed"),
        ("a = [1", 1, 5, "list opened here is not closed"),
        ("a = [1 2]", 1, 8, "separated by commas"),
        ("a = [,]", 1, 6, "cannot begin a value"),
        ("a = \"x\ny\"", 1, 5, "not closed on the same line"),
        ("a = \"x", 1, 5, "not closed on the same line"),
        (r#"a = "\q""#, 1, 7, "one of these is read"),
        (r#"a = "\ud800""#, 1, 7, "one of these is read"),
        (r#"a = "\u12""#, 1, 7, "one of these is read"),
        ("a = <<EOF\nx\n", 1, 5, "not closed by a line"),
        ("a = << x\n", 1, 5, "begins with `<<MARK`"),
        ("a = <EOF\nEOF", 1, 5, "begins with `<<MARK`"),
        ("/* a", 1, 1, "comment opened here"),
        ("a", 1, 2, "`a` has no value"),
        ("a =", 1, 4, "a value is expected"),
        ("a \"b\" = {}", 1, 7, "write `{` instead of `=`"),
        ("a = 012", 1, 5, "`012` is not a number"),
        ("a = 1e999", 1, 5, "is not a number"),
        ("= 1", 1, 1, "`=` cannot begin a key"),
        ("a = \u{0}", 1, 5, "cannot begin a value"),
    ] {
        let error = refusal(source);
        assert!(error.message.contains(part), "{source:?} gave {error}");
        assert_eq!((error.line, error.column), (line, column), "{source:?} gave {error}");
    }
}

#[test]
fn refusal_shows_only_start_of_long_word() {
    let long = "w".repeat(100_000);
    for source in
        [long.clone(), format!("a = {long}"), format!("a = 1{long}"), format!("\"{long}\" b = 1")]
    {
        let error = refusal(&source);
        assert!(error.message.contains("www…`") && error.message.len() < 200, "{error}");
    }
}

#[test]
fn a_refusal_of_json_names_the_line_once() {
    for (source, part) in [
        ("{\n\"a\": nul}", "this is not JSON"),
        ("{\n\"a\": null}", "null has no meaning"),
        ("{\n\"a\": 1", "is incomplete"),
        ("{\"a\": 1}\n{", "this is not JSON"),
        ("{\n\"a\": 1e999}", "this is not JSON"),
        ("{\n\"a\": \"\\ud800\"}", "this is not JSON"),
        ("{\n\"a\": 012}", "this is not JSON"),
        ("{\n// no comments\n}", "this is not JSON"),
    ] {
        let error = refusal(source);
        assert!(error.message.contains(part), "{source:?} gave {error}");
        assert_eq!(error.line, 2, "{source:?} gave {error}");
        assert!(error.column >= 1 && !error.message.contains(" at line"), "{error}");
    }
}

#[test]
fn depth_is_bounded_in_both_syntaxes() {
    let hcl = |depth: usize| format!("a = {}{}", "[".repeat(depth), "]".repeat(depth));
    let blocks = |depth: usize| format!("{}{}", "a {".repeat(depth), "}".repeat(depth));
    let json = |depth: usize| format!("{{\"a\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
    for write in [hcl, blocks, json] {
        assert!(parse(&write(32)).is_ok());
        assert!(refusal(&write(33)).message.contains("more than 32 deep"));
        assert!(refusal(&write(100_000)).message.contains("more than 32 deep"));
    }
    assert!(refusal(&"[".repeat(100_000)).message.contains("cannot begin a key"));
}

#[test]
fn node_count_is_bounded_in_both_syntaxes() {
    let list = |count: usize| format!("a = [{}]", "1,".repeat(count));
    assert!(parse(&list(MAX_NODES - 2)).is_ok());
    let labels = format!("a {} {{}}", "b ".repeat(MAX_NODES));
    let items = "a {}".repeat(MAX_NODES + 1);
    let json = format!("{{\"a\": [{}1]}}", "1,".repeat(MAX_NODES));
    for bomb in [list(MAX_NODES), labels, items, json] {
        assert!(refusal(&bomb).message.contains("more than 100000 keys and values"));
    }
}

#[test]
fn the_size_of_the_text_is_bounded() {
    assert!(parse(&" ".repeat(MAX_TEXT)).is_ok());
    assert!(refusal(&" ".repeat(MAX_TEXT + 1)).message.contains("1048577 bytes"));
}

#[test]
fn long_json_key_is_not_multiplied_by_objects() {
    let bomb = format!("{{\"{}\": [{}{{}}]}}", "k".repeat(500_000), "{},".repeat(90_000));
    assert_eq!(read(&bomb).items.len(), 1);
}

/// A pseudo-random generator with the same numbers in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }
}

#[test]
fn no_sequence_of_fragments_makes_the_parser_panic() {
    const FRAGMENTS: &[&str] = &[
        "path", " ", "\"", "\"x\"", "{", "}", "[", "]", "=", ",", "\n", "#", "//", "/*", "*/",
        "<<", "<<-", "EOF", "\\", "\\u", "12", "-", "1e9", "true", "é", "\u{0}", "\r", ":", "null",
        "{\"a\":", "${", "\u{feff}", "😀",
    ];
    let mut dice = Dice(0x5eed);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let length = dice.below(14);
        let source: String = (0..length).map(|_| FRAGMENTS[dice.below(FRAGMENTS.len())]).collect();
        match parse(&source) {
            Ok(_) => accepted += 1,
            Err(error) => assert!(
                error.line >= 1 && error.column >= 1 && !error.message.is_empty(),
                "{source:?}"
            ),
        }
    }
    assert!(accepted > 100, "the fragments should also give texts that read; {accepted} did");
}

#[test]
fn every_policy_prefix_is_read_or_refused() {
    for (end, _) in POLICY.char_indices() {
        if let Err(error) = parse(&POLICY[..end]) {
            assert!(error.line <= 12, "{error}");
        }
    }
}

/// Writes a random tree and its text. Every list is short, so the tree stays below all limits.
fn random_block(dice: &mut Dice, depth: usize) -> (String, Vec<(String, HclValue)>) {
    let mut source = String::new();
    let mut items = Vec::new();
    for number in 0..dice.below(4) {
        let key = format!("k{number}");
        let (written, node) = random_value(dice, depth);
        source.push_str(["", "\n", " # c\n", "/* c */"][dice.below(4)]);
        source.push_str(&format!("{key} = {written}{}", [" ", ",", "\n", ",\n"][dice.below(4)]));
        items.push((key, node));
    }
    (source, items)
}

fn random_value(dice: &mut Dice, depth: usize) -> (String, HclValue) {
    match dice.below(if depth < 4 { 5 } else { 3 }) {
        0 => ("\"a\\\"b\\u0041\"".to_owned(), text("a\"bA")),
        1 => ("-7".to_owned(), HclValue::Number((-7).into())),
        2 => ("true".to_owned(), HclValue::Bool(true)),
        3 => {
            let (written, nodes): (Vec<_>, Vec<_>) =
                (0..dice.below(3)).map(|_| random_value(dice, depth + 1)).unzip();
            (format!("[{}]", written.join(" , ")), HclValue::List(nodes))
        }
        _ => {
            let (written, items) = random_block(dice, depth + 1);
            (format!("{{{written}}}"), HclValue::Block(block_of(items)))
        }
    }
}

fn block_of(items: Vec<(String, HclValue)>) -> HclBody {
    let item = |(key, value)| HclItem {
        key,
        labels: Vec::new(),
        value,
        line: 0,
        element_lines: Vec::new(),
    };
    HclBody { items: items.into_iter().map(item).collect() }
}

#[test]
fn a_random_document_is_read_as_written() {
    let mut dice = Dice(0xb01d);
    for _ in 0..2_000 {
        let (source, items) = random_block(&mut dice, 0);
        assert_eq!(without_lines(read(&source)), block_of(items), "{source}");
    }
}
