//! Reader of the accounts in a statement: `CREATE USER`, `DROP USER` and `GRANT … TO`.
//!
//! This file prevents other texts, such as the subject of a certificate or a comment, from counting
//! as accounts, which would be dropped, or keep a lease for ever.

/// The accounts that a statement names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AccountList {
    /// Name, and host if one is given.
    pub(crate) accounts: Vec<(String, Option<String>)>,
    /// The server refuses the statement if an account exists.
    pub(crate) is_plain: bool,
    /// The statement creates or drops the accounts. A `GRANT` may create them on some servers.
    pub(crate) is_about_users: bool,
}

/// Words that end the list of accounts.
const ENDS: [&str; 7] =
    ["require", "with", "password", "account", "comment", "attribute", "default"];

/// Words before which a word of [`ENDS`] belongs to the account's way to log in.
const LOGIN_WORDS: [&str; 6] = ["identified", "by", "random", "using", "as", "via"];

/// A piece of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// A word without quotes, or a quoted text.
    Text {
        text: String,
        is_quoted: bool,
    },
    Sign(char),
}

/// Returns true if the statement begins with these words.
pub(crate) fn begins(text: &str, beginning: &str) -> bool {
    after(&pieces(text), beginning).is_some()
}

/// Returns the accounts that the statement creates or, for `GRANT`, may create.
pub(crate) fn created(text: &str) -> Option<AccountList> {
    let pieces = pieces(text);
    for (beginning, is_plain) in [
        ("create user if not exists", false),
        ("create or replace user", false),
        ("create user", true),
    ] {
        if let Some(rest) = after(&pieces, beginning) {
            return Some(AccountList { accounts: accounts(rest), is_plain, is_about_users: true });
        }
    }
    after(&pieces, "grant")?;
    let to = pieces.iter().rposition(|piece| is_word(piece, "to"))?;
    let accounts = accounts(pieces.get(to + 1..)?);
    Some(AccountList { accounts, is_plain: false, is_about_users: false })
}

/// Returns the accounts that the statement drops.
pub(crate) fn dropped(text: &str) -> Option<AccountList> {
    let pieces = pieces(text);
    let rest = after(&pieces, "drop user if exists").or_else(|| after(&pieces, "drop user"))?;
    Some(AccountList { accounts: accounts(rest), is_plain: true, is_about_users: true })
}

fn accounts(pieces: &[Piece]) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    let mut rest = pieces;
    while let Some((Piece::Text { text, .. }, after_name)) = rest.split_first() {
        let (host, after_account) = match after_name {
            [Piece::Sign('@'), Piece::Text { text, .. }, after @ ..] => (Some(text.clone()), after),
            after => (None, after),
        };
        found.push((text.clone(), host));
        match next_account(after_account) {
            Some(next) => rest = next,
            None => break,
        }
    }
    found
}

/// Returns the pieces behind the comma that ends an account; `None` if the list ends.
fn next_account(pieces: &[Piece]) -> Option<&[Piece]> {
    let mut before: Option<&Piece> = None;
    for (place, piece) in pieces.iter().enumerate() {
        if *piece == Piece::Sign(',') {
            return pieces.get(place + 1..);
        }
        let is_login =
            before.is_some_and(|before| LOGIN_WORDS.iter().any(|word| is_word(before, word)));
        if !is_login && ENDS.iter().any(|end| is_word(piece, end)) {
            return None;
        }
        before = Some(piece);
    }
    None
}

fn after<'p>(pieces: &'p [Piece], beginning: &str) -> Option<&'p [Piece]> {
    let mut rest = pieces;
    for word in beginning.split(' ') {
        let (first, tail) = rest.split_first()?;
        if !is_word(first, word) {
            return None;
        }
        rest = tail;
    }
    Some(rest)
}

fn is_word(piece: &Piece, word: &str) -> bool {
    matches!(piece, Piece::Text { text, is_quoted: false } if text.eq_ignore_ascii_case(word))
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_whitespace() {
            continue;
        }
        if matches!(letter, '\'' | '"' | '`') {
            pieces.push(Piece::Text { text: quoted(&mut letters, letter), is_quoted: true });
        } else if is_word_letter(letter) {
            let mut word = letter.to_string();
            while let Some(next) = letters.next_if(|next| is_word_letter(*next)) {
                word.push(next);
            }
            pieces.push(Piece::Text { text: word, is_quoted: false });
        } else {
            pieces.push(Piece::Sign(letter));
        }
    }
    pieces
}

/// Letters of a name without quotes; a host may have dots, dashes and `%`.
fn is_word_letter(letter: char) -> bool {
    letter.is_alphanumeric() || "_$.-%:".contains(letter)
}

/// Reads a quoted text up to its closing quote. A doubled quote stands for itself, and so does a
/// character behind a backslash, except in backticks.
fn quoted(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, quote: char) -> String {
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if quote != '`' => text.extend(letters.next()),
            letter if letter == quote && letters.next_if_eq(&quote).is_none() => break,
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: Option<AccountList>) -> Option<(Vec<String>, bool)> {
        list.map(|list| {
            let show = |(name, host): (String, Option<String>)| match host {
                Some(host) => format!("{name}@{host}"),
                None => name,
            };
            (list.accounts.into_iter().map(show).collect(), list.is_plain)
        })
    }

    #[test]
    fn statement_accounts_are_read_without_other_text() {
        for (text, accounts, is_plain) in [
            ("CREATE USER 'a'@'%' IDENTIFIED BY 'p,''@'", &["a@%"][..], true),
            ("create user `a` @ localhost, b@10.0.0.1", &["a@localhost", "b@10.0.0.1"], true),
            (
                "CREATE USER 'a' IDENTIFIED BY PASSWORD '*1', 'b' REQUIRE SUBJECT 'c', 'd'",
                &["a", "b"],
                true,
            ),
            (
                "CREATE USER a IDENTIFIED WITH x AS 'y', b IDENTIFIED VIA z USING PASSWORD('q'), c",
                &["a", "b", "c"],
                true,
            ),
            ("CREATE USER a IDENTIFIED BY RANDOM PASSWORD, b", &["a", "b"], true),
            ("CREATE USER a DEFAULT ROLE r1, r2", &["a"], true),
            ("CREATE USER a@'%' WITH MAX_USER_CONNECTIONS 2 COMMENT 'b, c'", &["a@%"], true),
            ("CREATE USER IF NOT EXISTS a", &["a"], false),
            ("CREATE OR REPLACE USER a", &["a"], false),
            ("GRANT ALL ON *.* TO a@h IDENTIFIED BY 'p'", &["a@h"], false),
            ("CREATE USER 'it''s'@'h'", &["it's@h"], true),
        ] {
            let accounts = accounts.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(names(created(text)), Some((accounts, is_plain)), "{text}");
        }
        for text in ["GRANT r", "ALTER USER a", "CREATE ROLE a", "CREATE USERS a", ""] {
            assert_eq!(names(created(text)), None, "{text}");
        }
        let two = (vec!["a@%".to_owned(), "b".to_owned()], true);
        assert_eq!(names(dropped("drop user if exists 'a'@'%', b")), Some(two));
        assert_eq!(names(dropped("DROP ROLE a")), None);
    }
}
