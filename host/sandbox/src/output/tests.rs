//! Tests of a component's output.

use super::*;

const SECRET: &str = "correct-horse-battery";

/// Returns the lines of a stream with these writes, in a call with [`SECRET`].
fn lines_of<'a>(writes: impl IntoIterator<Item = &'a [u8]>) -> OutputLines {
    let (output, secrets) = (CallOutput::default(), SecretSet::default());
    secrets.add(SECRET);
    let mut sink = output.sink(OutputKind::Stderr);
    for bytes in writes {
        assert_eq!(sink.check_write().unwrap(), WRITE_BYTES);
        sink.write(Bytes::copy_from_slice(bytes)).unwrap();
    }
    assert_eq!(output.lines(OutputKind::Stdout, &secrets), OutputLines::default());
    output.lines(OutputKind::Stderr, &secrets)
}

#[test]
fn panic_in_pieces_is_joined_to_lines() {
    let said: [&[u8]; 4] =
        [b"\nthread 'main' panicked", b" at src/lib.rs:1:2:\n", b"on", b" request"];
    let found = lines_of(said);
    assert_eq!(found.lines, ["thread 'main' panicked at src/lib.rs:1:2:", "on request"]);
    assert_eq!((found.dropped_bytes, found.dropped_lines), (0, 0));
}

#[test]
fn exceptions_of_other_languages_are_whole_lines() {
    for (said, lines) in [
        (
            "libc++abi: terminating due to uncaught exception of type std::out_of_range: vector\n",
            &["libc++abi: terminating due to uncaught exception of type std::out_of_range: vector"]
                [..],
        ),
        (
            "panic: runtime error: index out of range [3]\n\ngoroutine 1 [running]:\n\tmain.go:9\n",
            &[
                "panic: runtime error: index out of range [3]",
                "goroutine 1 [running]:",
                " main.go:9",
            ],
        ),
        (
            "Traceback (most recent call last):\n  File \"a.py\", line 3, in run\nKeyError: 'x'",
            &[
                "Traceback (most recent call last):",
                "  File \"a.py\", line 3, in run",
                "KeyError: 'x'",
            ],
        ),
    ] {
        assert_eq!(lines_of([said.as_bytes()]).lines, lines);
    }
}

#[test]
fn secrets_are_hidden_across_writes() {
    let found = lines_of([&b"the password is correct-ho"[..], b"rse-battery, and CORRECT-HORSE"]);
    assert_eq!(found.lines, ["the password is [secret], and [secret]"]);
}

/// Returns the text of the panic of `Result::unwrap`, as the panic hook prints the text.
fn panic_text<T: std::fmt::Debug>(failed: Result<(), T>) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| failed.unwrap()));
    let text = panic.unwrap_err().downcast::<String>().unwrap();
    format!("\nthread 'main' panicked at src/lib.rs:1:2:\n{text}\n")
}

/// Returns the length of the longest run of `numbers` in `shown`.
fn longest_run(shown: &str, numbers: &[String]) -> usize {
    let words: Vec<&str> = shown.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let is_shown = |length: usize| {
        numbers.windows(length).any(|run| words.windows(length).any(|window| window == run))
    };
    (1..numbers.len()).take_while(|length| is_shown(*length)).last().unwrap_or_default()
}

#[test]
fn bytes_in_panics_are_hidden() {
    let mut invalid = SECRET.as_bytes().to_vec();
    invalid.extend([0, 0xff]);
    let decimal: Vec<String> = SECRET.bytes().map(|byte| byte.to_string()).collect();
    let hexadecimal: Vec<String> = SECRET.bytes().map(|byte| format!("{byte:x}")).collect();
    let prefixed: Vec<String> = SECRET.bytes().map(|byte| format!("{byte:#x}")).collect();
    let bytes = SECRET.as_bytes();
    for (text, numbers) in [
        (panic_text(Err(bytes)), &decimal),
        (panic_text(Err(invalid.clone())), &decimal),
        (panic_text(std::ffi::CString::new(invalid.clone()).map(drop)), &decimal),
        (panic_text(String::from_utf8(invalid.clone()).map(drop)), &decimal),
        (format!("got {:#?}", Some(Some(invalid))), &decimal),
        (format!("got {bytes:x?} and {bytes:02X?}"), &hexadecimal),
        (format!("got {bytes:#x?} and {bytes:#04x?}"), &prefixed),
    ] {
        let shown = lines_of([text.as_bytes()]).lines.join("\n");
        assert!(shown.contains("[secret]"), "{text}: {shown}");
        assert!(longest_run(&shown.to_lowercase(), numbers) < 6, "{text}: {shown}");
    }
}

#[test]
fn secret_broken_by_line_end_is_hidden() {
    for broken in
        ["correct-ho\nrse-battery", "correct-ho\r\n    rse-battery", "correct- horse-battery"]
    {
        let shown = lines_of([format!("before {broken} after").as_bytes()]).lines;
        assert_eq!(shown, ["before [secret] after"], "{broken:?}");
    }
    let spared = "in correct order, a horse beside a battery";
    assert_eq!(lines_of([spared.as_bytes()]).lines, [spared]);
}

#[test]
fn secret_at_gap_leaves_no_piece() {
    for shift in 0..SECRET.len() {
        let before = vec![b'a'; limits::OUTPUT_BYTES - shift];
        let after = vec![b'b'; limits::OUTPUT_BYTES - shift];
        let middle = vec![b'c'; limits::OUTPUT_BYTES];
        let text = [&before[..], SECRET.as_bytes(), &middle, SECRET.as_bytes(), &after].concat();
        let found = lines_of(text.chunks(1_000));
        assert!(found.dropped_bytes > 0);
        let shown = found.lines.concat();
        let letters = shown.replace("[secret]", "");
        assert!(letters.chars().all(|c| "abc".contains(c)), "{shift}: {letters}");
    }
}

#[test]
fn endless_output_keeps_beginning_and_end() {
    let (output, secrets) = (CallOutput::default(), SecretSet::default());
    let mut sink = output.sink(OutputKind::Stderr);
    sink.write(Bytes::from_static(b"the beginning\n")).unwrap();
    let noise = Bytes::from("noise noise\n".repeat(4_096));
    let mut written = 0_u64;
    while written < 100 << 20 {
        sink.write(noise.clone()).unwrap();
        written += noise.len() as u64;
    }
    sink.write(Bytes::from_static(b"the end\n")).unwrap();
    let [_, text] = &*output.0.lock().unwrap();
    assert!(text.head.len() + text.tail.len() <= 2 * limits::OUTPUT_BYTES);
    assert!(text.tail.capacity() <= 4 * limits::OUTPUT_BYTES, "{}", text.tail.capacity());
    let found = text.lines(&secrets);
    assert_eq!(found.lines.first().map(String::as_str), Some("the beginning"));
    assert_eq!(found.lines.last().map(String::as_str), Some("the end"));
    assert!(found.lines.len() <= limits::OUTPUT_LINES, "{}", found.lines.len());
    assert!(found.dropped_lines > 0 && found.dropped_bytes > 99 << 20);
}

#[test]
fn invalid_utf8_and_controls_are_replaced() {
    let found = lines_of([&b"a\xff\xfeb\x1b[31mred\x07\tc\r\nlevel=error event=forged\n\n \n"[..]]);
    assert_eq!(
        found.lines,
        ["a\u{fffd}\u{fffd}b\u{fffd}[31mred\u{fffd} c", "level=error event=forged"]
    );
    let turned = lines_of(["\u{202e}gnp.exe\u{2066}\u{85}\u{feff}".as_bytes()]);
    assert_eq!(turned.lines, ["\u{fffd}gnp.exe\u{fffd}\u{fffd}\u{fffd}"]);
    let invisible = lines_of(["a\u{ad}\u{61c}\u{180e}\u{e0041}\u{e007f}z".as_bytes()]);
    assert_eq!(invisible.lines, [format!("a{}z", "\u{fffd}".repeat(5))]);
}

#[test]
fn long_lines_are_cut_at_character() {
    let found = lines_of(["ü".repeat(limits::OUTPUT_LINE_BYTES).as_bytes()]);
    assert_eq!(found.lines, ["ü".repeat(limits::OUTPUT_LINE_BYTES / 2)]);
    assert_eq!(plain_text(&"ü".repeat(9), 5), "üü");
}

#[test]
fn output_is_hidden_if_secrets_are_full() {
    let (output, secrets) = (CallOutput::default(), SecretSet::default());
    for number in 0..limits::SECRETS_BYTES {
        secrets.add(&format!("{number:032}"));
    }
    output.sink(OutputKind::Stdout).write(Bytes::from_static(b"anything\n")).unwrap();
    assert_eq!(output.lines(OutputKind::Stdout, &secrets).lines, ["[secret]"]);
}
