//! Completion scripts for bash, zsh and fish, generated from the table of commands.

use crate::command::Command;
use crate::commands;
use crate::option::CommandOption;
use std::collections::{BTreeMap, BTreeSet};

/// A script that a shell reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    /// GNU bash.
    Bash,
    /// The Z shell.
    Zsh,
    /// The friendly interactive shell.
    Fish,
}

impl Shell {
    /// All shells with their names.
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("bash", Self::Bash), ("zsh", Self::Zsh), ("fish", Self::Fish)];

    /// Returns the shell of this name.
    #[must_use]
    pub(crate) fn find_shell(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(shell_name, _)| *shell_name == name).map(|(_, shell)| shell)
    }

    /// Returns the completion script.
    #[must_use]
    pub(crate) fn script(self) -> String {
        match self {
            Self::Bash => format!("{BASH_HEAD}{}{BASH_FOOT}", render_cases("list=\"", "\"")),
            Self::Zsh => format!("{ZSH_HEAD}{}{ZSH_FOOT}", render_cases("list=(", ")")),
            Self::Fish => fish(),
        }
    }
}

const BASH_HEAD: &str = "\
# Completion of bulkhead in bash: source <(bulkhead completion bash)
_bulkhead() {
    local word=\"${COMP_WORDS[COMP_CWORD]}\" typed=\"\" list=\"\" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case \"${COMP_WORDS[i]}\" in -*) ;; *) typed=\"$typed ${COMP_WORDS[i]}\" ;; esac
    done
    case \"$typed\" in
";

const BASH_FOOT: &str = "    esac
    COMPREPLY=($(compgen -W \"$list\" -- \"$word\"))
    if [[ \"${COMPREPLY[0]}\" == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _bulkhead bulkhead
";

const ZSH_HEAD: &str = "\
#compdef bulkhead
# Completion of bulkhead in zsh: source <(bulkhead completion zsh)
_bulkhead() {
    local typed=\"\" word
    local -a list
    for word in \"${(@)words[2,CURRENT-1]}\"; do
        [[ \"$word\" == -* ]] || typed=\"$typed $word\"
    done
    case \"$typed\" in
";

const ZSH_FOOT: &str = "    esac
    compadd -S ' ' -- ${list:#*=}
    compadd -S '' -- ${(M)list:#*=}
}
compdef _bulkhead bulkhead
";

const FISH_HEAD: &str = "\
# Completion of bulkhead in fish: bulkhead completion fish | source
function __bulkhead_typed
    set -l typed (commandline -opc)
    string join ' ' -- (string match -v -- '-*' $typed[2..])
end
function __bulkhead_at
    set -l typed (__bulkhead_typed)
    test \"$typed\" = \"$argv[1]\"
end
function __bulkhead_in
    set -l typed (__bulkhead_typed)
    string match -q -- \"$argv[1] *\" \"$typed \"
end
";

/// Returns the words that follow the begun words, for each beginning of a command.
fn next_words() -> BTreeMap<String, BTreeSet<&'static str>> {
    let mut next = BTreeMap::<String, BTreeSet<&'static str>>::new();
    let own = commands::all().map(|command| command.words);
    for words in own.chain(commands::OTHERS.map(|(words, _)| words)) {
        let mut begun = String::new();
        for word in words.split(' ') {
            next.entry(begun.clone()).or_default().insert(word);
            begun.push(' ');
            begun.push_str(word);
        }
    }
    next.entry(" completion".to_owned()).or_default().extend(Shell::ALL.map(|(name, _)| name));
    next
}

/// Renders a shell's cases: the words behind a beginning, and the options of a command.
fn render_cases(before: &str, after: &str) -> String {
    let row = |pattern: &str, list: &[String]| {
        format!("    {pattern}) {before}{}{after} ;;\n", list.join(" "))
    };
    let beginnings = next_words().into_iter().map(|(begun, words)| {
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        row(&format!("\"{begun}\""), &words)
    });
    let options = commands::all().map(|command| {
        let options: Vec<String> = command.options().map(describe_option).collect();
        row(&format!("\" {}\"*", command.words), &options)
    });
    beginnings.chain(options).collect()
}

fn describe_option(opt: &CommandOption) -> String {
    let sign = if opt.takes.word().is_some() { "=" } else { "" };
    format!("-{}{sign}", opt.name)
}

fn fish() -> String {
    let mut lines = vec![FISH_HEAD.to_owned()];
    for (begun, words) in next_words() {
        let words: Vec<&str> = words.into_iter().collect();
        lines.push(format!(
            "complete -c bulkhead -f -n '__bulkhead_at \"{}\"' -a '{}'\n",
            begun.trim_start(),
            words.join(" ")
        ));
    }
    for command in commands::all() {
        lines.extend(command.options().map(|opt| fish_option(command, opt)));
    }
    lines.concat()
}

fn fish_option(command: &Command, opt: &CommandOption) -> String {
    let value = if opt.takes.word().is_some() { " -r" } else { "" };
    let about = opt.about.replace('\\', r"\\").replace('\'', r"\'");
    format!(
        "complete -c bulkhead -n '__bulkhead_in \"{}\"' -o {}{value} -d '{about}'\n",
        command.words, opt.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command as Program;

    /// Returns the completions of bash for the typed words; the last word is the one to complete.
    fn completed(typed: &[&str]) -> String {
        let words = typed.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let script = format!(
            "{}\nCOMP_WORDS=(bulkhead {words}); COMP_CWORD={}; _bulkhead 2>/dev/null\n\
             echo \"${{COMPREPLY[*]}}\"",
            Shell::Bash.script(),
            typed.len()
        );
        let done = Program::new("bash").args(["-c", &script]).output().unwrap();
        String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
    }

    #[test]
    fn bash_completes_commands_words_and_options() {
        assert_eq!(completed(&["rea"]), "read");
        assert_eq!(completed(&["kv", "metadata", "p"]), "patch put");
        assert_eq!(completed(&["kv", "get", "-ver"]), "-version=");
        assert_eq!(completed(&["kv", "get", "-mount=a", "-fie"]), "-field=");
        assert_eq!(completed(&["completion", ""]), "bash fish zsh");
        assert_eq!(completed(&["read", "secret/x", "-help"]), "-help");
    }

    #[test]
    fn every_command_is_in_every_script() {
        for (_, shell) in Shell::ALL {
            let script = shell.script();
            for command in commands::all() {
                assert!(script.contains(command.words), "{shell:?} lacks {}", command.words);
            }
        }
        assert_eq!(
            (Shell::find_shell("fish"), Shell::find_shell("tcsh")),
            (Some(Shell::Fish), None)
        );
    }
}
