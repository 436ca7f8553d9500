//! Hidden input of secrets at the terminal.
//!
//! This file prevents an unseal key from staying on the screen, in the scroll-back, or in a
//! recording of the session.

use bulkhead_wire::secret::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::any::Any;
use std::io::{self, BufRead, Read, Write, stdin};

/// Maximum length of a line, in bytes: longer than any key or token.
const LINE_MAX: u64 = 8 * 1024;

/// A function that hides typed characters until the returned guard is dropped.
pub type HideInput<'a> = &'a dyn Fn() -> io::Result<Box<dyn Any>>;

/// Hides typed characters on standard input's terminal. Earlier input is discarded, because it was
/// typed for something else.
///
/// # Errors
/// Standard input is not a terminal, or its settings cannot be changed.
pub fn hide() -> io::Result<Box<dyn Any>> {
    let before = tcgetattr(stdin())?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(stdin(), OptionalActions::Flush, &silent)?;
    Ok(Box::new(HiddenInput { before }))
}

struct HiddenInput {
    before: Termios,
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // A terminal that refuses is gone and shows nothing.
        tcsetattr(stdin(), OptionalActions::Now, &self.before).unwrap_or_default();
    }
}

/// Prints `question` on `screen` and reads a line without showing it.
///
/// # Errors
/// A terminal that cannot hide input; a line that is too long or not UTF-8.
pub fn ask(
    question: &str,
    hide: HideInput<'_>,
    typed: &mut dyn BufRead,
    screen: &mut dyn Write,
) -> io::Result<Secret> {
    let hidden = hide()?;
    let line = write!(screen, "{question}: ")
        .and_then(|()| screen.flush())
        .and_then(|()| read_line_once(typed));
    drop(hidden);
    // The typed line break was hidden too.
    writeln!(screen)?;
    line
}

/// Prints `question` on `screen` and reads a line, which the terminal shows.
///
/// # Errors
/// A line that is too long or not UTF-8; a terminal that cannot be written or read.
pub fn ask_openly(
    question: &str,
    typed: &mut dyn BufRead,
    screen: &mut dyn Write,
) -> io::Result<String> {
    write!(screen, "{question}: ")?;
    screen.flush()?;
    read_line_once(typed).map(|line| line.expose().to_owned())
}

/// Reads no further than the end of the line, so that the rest stays for the next reader.
fn read_line_once(typed: &mut dyn BufRead) -> io::Result<Secret> {
    let mut line = String::new();
    typed.take(LINE_MAX).read_line(&mut line)?;
    if line.len() as u64 == LINE_MAX {
        return Err(io::Error::other(format!("the line is longer than {LINE_MAX} bytes")));
    }
    line.truncate(line.trim_end_matches('\n').len());
    Ok(Secret::new(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    struct RestoredEcho(Rc<Cell<bool>>);

    impl Drop for RestoredEcho {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    #[test]
    fn one_line_is_read_while_nothing_is_shown() {
        let shown = Rc::new(Cell::new(true));
        let hide = || {
            shown.set(false);
            Ok(Box::new(RestoredEcho(Rc::clone(&shown))) as Box<dyn Any>)
        };
        struct WatchedInput<'a>(&'a [u8], Rc<Cell<bool>>);
        impl Read for WatchedInput<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                assert!(!self.1.get(), "the terminal shows what is typed");
                self.0.read(buffer)
            }
        }
        let mut typed = io::BufReader::new(WatchedInput(b"c0ffee\nnext", Rc::clone(&shown)));
        let mut screen = Vec::new();
        let line = ask("Unseal key", &hide, &mut typed, &mut screen).unwrap();
        assert_eq!(line.expose(), "c0ffee");
        assert_eq!(
            (String::from_utf8(screen).unwrap().as_str(), typed.buffer()),
            ("Unseal key: \n", &b"next"[..])
        );
        assert!(shown.get(), "the terminal is as it was");
    }

    #[test]
    fn secret_prompt_is_refused_if_terminal_would_echo() {
        let mut screen = Vec::new();
        let refused =
            ask("Unseal key", &|| Err(io::Error::other("no")), &mut &b"c0ffee\n"[..], &mut screen);
        assert!(refused.is_err() && screen.is_empty());
    }

    #[test]
    fn endless_line_and_non_text_line_are_refused() {
        let hide = || Ok(Box::new(()) as Box<dyn Any>);
        let endless = vec![b'x'; 9000];
        assert!(ask("Key", &hide, &mut endless.as_slice(), &mut Vec::new()).is_err());
        assert!(ask("Key", &hide, &mut &b"\xff\xfe\n"[..], &mut Vec::new()).is_err());
        assert_eq!(
            ask("Key", &hide, &mut &b"no break"[..], &mut Vec::new()).unwrap().expose(),
            "no break"
        );
    }
}
