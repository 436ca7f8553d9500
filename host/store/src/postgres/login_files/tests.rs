//! Login files that change.

use super::*;

#[test]
fn first_matching_line_of_passfile_decides() {
    let text = "# db:5432:d:u:comment\nshort:line\nother:*:*:*:no\n\
                db:5432:d:u:p\\:1\\\\x:rest\n*:*:*:*:last\n";
    let found = |wanted| matching_password(text, wanted).map(|found| found.expose().to_owned());
    assert_eq!(found(["db", "5432", "d", "u"]).as_deref(), Some("p:1\\x"));
    assert_eq!(found(["db", "5433", "d", "u"]).as_deref(), Some("last"));
    assert_eq!(found(["other", "1", "2", "3"]).as_deref(), Some("no"));
    let colons = "\\:\\:1:5432:d:u:six";
    let found = matching_password(colons, ["::1", "5432", "d", "u"]).unwrap();
    assert_eq!(found.expose(), "six");
    assert!(matching_password(colons, ["::2", "5432", "d", "u"]).is_none());
    assert!(matching_password("db:5432:d:u:", ["db", "5432", "d", "u"]).is_none());
    assert!(matching_password("", ["db", "5432", "d", "u"]).is_none());
}
