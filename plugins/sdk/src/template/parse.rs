//! Parses the text of a template into nodes.

use super::functions::TemplateFunction;
use super::{DEEPEST, IfBranch, Operand, Pipeline, TemplateFault, TemplateNode, TemplateValue};

/// Words of Go's template language that are refused.
const UNSUPPORTED: [&str; 8] =
    ["range", "with", "define", "template", "block", "break", "continue", "nil"];

/// Maximum length of a wrong word in an error, in characters.
const SHOWN: usize = 40;

/// Parses a whole template.
pub(super) fn parse(text: &str) -> Result<Vec<TemplateNode>, TemplateFault> {
    let mut parser = TemplateParser { items: items(text)?.into_iter() };
    let (nodes, ended) = parser.nodes(0)?;
    match ended {
        None => Ok(nodes),
        Some(end) => Err(TemplateFault::Unexpected(end.word().to_owned())),
    }
}

/// Literal text, or the tokens of an action.
enum TemplateItem {
    Text(String),
    Action(Vec<TemplateToken>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplateToken {
    Word(String),
    Field(String),
    Literal(TemplateValue),
    Bar,
    Open,
    Close,
}

/// Splits `text` at its actions and applies the trim markers.
fn items(text: &str) -> Result<Vec<TemplateItem>, TemplateFault> {
    let mut items = Vec::new();
    let mut rest = text;
    let mut trim_start = false;
    while let Some((before, after)) = rest.split_once("{{") {
        let marked = after
            .strip_prefix('-')
            .filter(|inside| inside.starts_with(|c: char| c.is_ascii_whitespace()));
        let before = if trim_start { before.trim_ascii_start() } else { before };
        items.push(TemplateItem::Text(
            if marked.is_some() { before.trim_ascii_end() } else { before }.to_owned(),
        ));
        let (action, tail) = action(marked.unwrap_or(after))?;
        items.extend(action.map(TemplateItem::Action));
        trim_start = tail.trimmed;
        rest = tail.rest;
    }
    items.push(TemplateItem::Text(
        if trim_start { rest.trim_ascii_start() } else { rest }.to_owned(),
    ));
    Ok(items)
}

/// Text after an action. If `trimmed` is set, leading white space is removed.
struct ActionTail<'a> {
    rest: &'a str,
    trimmed: bool,
}

/// Returns the tokens up to `}}`; `None` for a comment.
fn action(text: &str) -> Result<(Option<Vec<TemplateToken>>, ActionTail<'_>), TemplateFault> {
    if let Some(comment) = text.trim_ascii_start().strip_prefix("/*") {
        let (_, rest) = comment.split_once("*/").ok_or(TemplateFault::UnclosedAction)?;
        let (tokens, tail) = tokens(rest)?;
        return if tokens.is_empty() { Ok((None, tail)) } else { Err(unexpected("*/")) };
    }
    let (tokens, tail) = tokens(text)?;
    if tokens.is_empty() { Err(unexpected("}}")) } else { Ok((Some(tokens), tail)) }
}

fn tokens(text: &str) -> Result<(Vec<TemplateToken>, ActionTail<'_>), TemplateFault> {
    let mut rest = text;
    let mut tokens = Vec::new();
    loop {
        let spaced = rest.starts_with(|c: char| c.is_ascii_whitespace());
        rest = rest.trim_ascii_start();
        if let Some(rest) = rest.strip_prefix("}}") {
            return Ok((tokens, ActionTail { rest, trimmed: false }));
        }
        if let Some(rest) = rest.strip_prefix("-}}").filter(|_| spaced) {
            return Ok((tokens, ActionTail { rest, trimmed: true }));
        }
        let (token, after) = token(rest)?;
        tokens.push(token);
        rest = after;
    }
}

fn token(text: &str) -> Result<(TemplateToken, &str), TemplateFault> {
    let mut characters = text.chars();
    let first = characters.next().ok_or(TemplateFault::UnclosedAction)?;
    let after = characters.as_str();
    match first {
        '|' => Ok((TemplateToken::Bar, after)),
        '(' => Ok((TemplateToken::Open, after)),
        ')' => Ok((TemplateToken::Close, after)),
        '"' => read_quoted(after),
        '`' => {
            let (raw, after) = after.split_once('`').ok_or(TemplateFault::BadLiteral)?;
            Ok((TemplateToken::Literal(TemplateValue::Text(raw.as_bytes().to_vec())), after))
        }
        _ => word(text),
    }
}

/// Reads a literal in double quotes; `text` begins after the opening quote.
fn read_quoted(text: &str) -> Result<(TemplateToken, &str), TemplateFault> {
    let mut value = String::new();
    let mut characters = text.chars();
    loop {
        let character = match characters.next().ok_or(TemplateFault::BadLiteral)? {
            '"' => {
                return Ok((
                    TemplateToken::Literal(TemplateValue::Text(value.into_bytes())),
                    characters.as_str(),
                ));
            }
            '\n' => return Err(TemplateFault::BadLiteral),
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some(same @ ('"' | '\\')) => same,
                _ => return Err(TemplateFault::BadLiteral),
            },
            other => other,
        };
        value.push(character);
    }
}

fn word(text: &str) -> Result<(TemplateToken, &str), TemplateFault> {
    let ends =
        |c: char| c.is_ascii_whitespace() || matches!(c, '|' | '(' | ')' | '"' | '`' | '}' | '{');
    let (word, after) =
        text.split_at_checked(text.find(ends).unwrap_or(text.len())).unwrap_or((text, ""));
    let token = if word.starts_with('.') {
        TemplateToken::Field(word.to_owned())
    } else if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        TemplateToken::Literal(TemplateValue::Int(word.parse().map_err(|_| unexpected(word))?))
    } else if word == "true" || word == "false" {
        TemplateToken::Literal(TemplateValue::Bool(word == "true"))
    } else if word.starts_with('$') || word.starts_with(':') || UNSUPPORTED.contains(&word) {
        return Err(TemplateFault::Unsupported(shorten(word)));
    } else if word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        TemplateToken::Word(word.to_owned())
    } else {
        return Err(unexpected(
            text.get(..text.chars().next().map_or(0, char::len_utf8)).unwrap_or_default(),
        ));
    };
    Ok((token, after))
}

fn unexpected(written: &str) -> TemplateFault {
    TemplateFault::Unexpected(shorten(written))
}

fn shorten(written: &str) -> String {
    written.chars().take(SHOWN).collect()
}

/// Keyword that ended a list of nodes before the end of the template.
enum BlockEnd {
    End,
    Else,
    ElseIf(Pipeline),
}

impl BlockEnd {
    fn word(&self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Else => "else",
            Self::ElseIf(_) => "else if",
        }
    }
}

struct TemplateParser {
    items: std::vec::IntoIter<TemplateItem>,
}

impl TemplateParser {
    fn nodes(
        &mut self,
        depth: usize,
    ) -> Result<(Vec<TemplateNode>, Option<BlockEnd>), TemplateFault> {
        let mut nodes = Vec::new();
        while let Some(item) = self.items.next() {
            let tokens = match item {
                TemplateItem::Text(text) => {
                    nodes.push(TemplateNode::Text(text));
                    continue;
                }
                TemplateItem::Action(tokens) => tokens,
            };
            match keywords(&tokens) {
                (Some("if"), _) => nodes.push(self.branches(pipeline(tokens.get(1..))?, depth)?),
                (Some("end"), None) if tokens.len() == 1 => {
                    return Ok((nodes, Some(BlockEnd::End)));
                }
                (Some("else"), None) if tokens.len() == 1 => {
                    return Ok((nodes, Some(BlockEnd::Else)));
                }
                (Some("else"), Some("if")) => {
                    return Ok((nodes, Some(BlockEnd::ElseIf(pipeline(tokens.get(2..))?))));
                }
                (Some(word @ ("end" | "else")), _) => return Err(unexpected(word)),
                _ => nodes.push(TemplateNode::Show(pipeline(Some(&tokens))?)),
            }
        }
        Ok((nodes, None))
    }

    /// Parses the branches of an `if` up to its `end`; the first condition is already parsed.
    fn branches(
        &mut self,
        condition: Pipeline,
        depth: usize,
    ) -> Result<TemplateNode, TemplateFault> {
        if depth >= DEEPEST {
            return Err(TemplateFault::TooDeep);
        }
        let mut branches = Vec::new();
        let mut condition = Some(condition);
        loop {
            let is_else = condition.is_none();
            let (body, ended) = self.nodes(depth + 1)?;
            branches.push(IfBranch { condition: condition.take(), body });
            match ended.ok_or(TemplateFault::UnclosedIf)? {
                BlockEnd::End => return Ok(TemplateNode::If(branches)),
                extra if is_else => return Err(unexpected(extra.word())),
                BlockEnd::Else => {}
                BlockEnd::ElseIf(next) => condition = Some(next),
            }
        }
    }
}

/// Returns the first two tokens of an action, if they are words.
fn keywords(tokens: &[TemplateToken]) -> (Option<&str>, Option<&str>) {
    let mut words = tokens.iter().map(|token| match token {
        TemplateToken::Word(word) => Some(word.as_str()),
        _ => None,
    });
    (words.next().flatten(), words.next().flatten())
}

fn pipeline(tokens: Option<&[TemplateToken]>) -> Result<Pipeline, TemplateFault> {
    let (pipeline, closed) = commands(&mut tokens.unwrap_or_default().iter(), 0)?;
    if closed { Err(unexpected(")")) } else { Ok(pipeline) }
}

/// Parses commands up to `)` or the end of the action; the flag is true for `)`.
fn commands(
    tokens: &mut std::slice::Iter<'_, TemplateToken>,
    depth: usize,
) -> Result<(Pipeline, bool), TemplateFault> {
    if depth > DEEPEST {
        return Err(TemplateFault::TooDeep);
    }
    let mut commands = Vec::new();
    let mut command = Vec::new();
    let mut closed = false;
    while let Some(token) = tokens.next() {
        match token {
            TemplateToken::Bar if command.is_empty() => return Err(unexpected("|")),
            TemplateToken::Bar => commands.push(std::mem::take(&mut command)),
            TemplateToken::Close => {
                closed = true;
                break;
            }
            TemplateToken::Open => match self::commands(tokens, depth + 1)? {
                (group, true) => command.push(Operand::Group(group)),
                (_, false) => return Err(TemplateFault::UnclosedParenthesis),
            },
            TemplateToken::Field(field) => command.push(self::field(field)?),
            TemplateToken::Literal(value) => command.push(Operand::Literal(value.clone())),
            TemplateToken::Word(word) => command.push(function(word)?),
        }
    }
    if command.is_empty() {
        return Err(unexpected(if closed { ")" } else { "}}" }));
    }
    commands.push(command);
    Ok((Pipeline { commands }, closed))
}

fn field(written: &str) -> Result<Operand, TemplateFault> {
    match written {
        ".DisplayName" => Ok(Operand::DisplayName),
        ".RoleName" => Ok(Operand::RoleName),
        ".Username" => Ok(Operand::Username),
        other => Err(TemplateFault::UnknownField(shorten(other))),
    }
}

fn function(word: &str) -> Result<Operand, TemplateFault> {
    TemplateFunction::by_name(word)
        .map(Operand::Function)
        .ok_or_else(|| TemplateFault::UnknownFunction(shorten(word)))
}
