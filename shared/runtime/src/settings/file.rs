//! Reader of the settings file: `[section]`, `key = value`, comments, quoted values.
//!
//! The notation is that of git's configuration as upstream reads it (package gcfg): `;` and `#` begin comments,
//! also after a value; a value may have quoted parts with `\"`, `\\`, `\n`, `\t`; a backslash at the end of a line
//! continues it; a key without `=` is a switch that is on. Names are case-insensitive.

/// One `key = value` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) section: String,
    pub(super) key: String,
    pub(super) value: String,
}

/// Why a line cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SyntaxError {
    #[error("a section header is [name]")]
    Header,
    #[error("a key stands before the first [section]")]
    NoSection,
    #[error("a key has letters, digits and dashes only")]
    Key,
    #[error("a quoted value is not closed")]
    Quote,
    #[error("after a backslash only \\, \", n, t or the end of the line may stand")]
    Escape,
}

/// All entries of `text` in order, or the number of the first bad line and what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>, (usize, SyntaxError)> {
    let mut entries = Vec::new();
    let mut section = None::<String>;
    let mut lines = text.lines().enumerate().map(|(n, line)| (n + 1, line));
    while let Some((line, content)) = lines.next() {
        let content = content.trim();
        if content.is_empty() || content.starts_with([';', '#']) {
            continue;
        }
        if let Some(header) = content.strip_prefix('[') {
            section = Some(parse_header(header).ok_or((line, SyntaxError::Header))?);
            continue;
        }
        let section = section.clone().ok_or((line, SyntaxError::NoSection))?;
        let end = content.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(content.len());
        let (key, rest) = content.split_at(end);
        let rest = rest.trim_start();
        let value = match rest.strip_prefix('=') {
            _ if key.is_empty() => return Err((line, SyntaxError::Key)),
            Some(raw) => parse_value(raw, &mut lines).map_err(|error| (line, error))?,
            None if rest.is_empty() || rest.starts_with([';', '#']) => "true".to_owned(),
            None => return Err((line, SyntaxError::Key)),
        };
        entries.push(Entry { line, section, key: key.to_owned(), value });
    }
    Ok(entries)
}

fn parse_header(header: &str) -> Option<String> {
    let (name, rest) = header.split_once(']')?;
    let rest = rest.trim_start();
    let plain = !name.trim().is_empty() && name.trim().chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    (plain && (rest.is_empty() || rest.starts_with([';', '#']))).then(|| name.trim().to_owned())
}

/// The value that begins with `raw`, which may go on in the next lines.
fn parse_value<'a>(
    raw: &'a str,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<String, SyntaxError> {
    let mut value = String::new();
    // Length up to the last character that is not unquoted space at the end.
    let mut kept = 0;
    let mut quoted = false;
    let mut rest = raw.trim_start();
    loop {
        let mut chars = rest.chars();
        let mut continued = false;
        while let Some(c) = chars.next() {
            match c {
                '"' => {
                    quoted = !quoted;
                    kept = value.len();
                    continue;
                }
                ';' | '#' if !quoted => break,
                '\\' => match chars.next() {
                    Some(escaped @ ('\\' | '"')) => value.push(escaped),
                    Some('n') => value.push('\n'),
                    Some('t') => value.push('\t'),
                    Some(_) => return Err(SyntaxError::Escape),
                    None => {
                        continued = true;
                        break;
                    }
                },
                c => value.push(c),
            }
            if quoted || !c.is_whitespace() {
                kept = value.len();
            }
        }
        match lines_if(continued, lines) {
            Some(next) => rest = next,
            None if quoted => return Err(SyntaxError::Quote),
            None => break,
        }
    }
    value.truncate(kept);
    Ok(value)
}

fn lines_if<'a>(continued: bool, lines: &mut impl Iterator<Item = (usize, &'a str)>) -> Option<&'a str> {
    if continued { lines.next().map(|(_, line)| line) } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(text: &str) -> Vec<String> {
        let entries = parse(text).expect("the text is well formed");
        entries.iter().map(|e| format!("{}:{}.{}={}", e.line, e.section, e.key, e.value)).collect()
    }

    #[test]
    fn sections_keys_comments_quotes_and_continued_lines_are_read() {
        let text = "; c\n# c\n[Default]\nmtu=1400\n zone = a b  ; c\n\n[gateway] # c\nnodeport\n\
                    mode = \"sha\"red\nnext-hop=\" x;\\\"y\\\\ \"  \nlong = a \\\n  b\n";
        assert_eq!(
            values(text),
            [
                "4:Default.mtu=1400",
                "5:Default.zone=a b",
                "8:gateway.nodeport=true",
                "9:gateway.mode=shared",
                "10:gateway.next-hop= x;\"y\\ ",
                "11:gateway.long=a   b",
            ]
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line, error) in [
            ("mtu=1", 1, SyntaxError::NoSection),
            ("[default\nmtu=1", 1, SyntaxError::Header),
            ("[]\n", 1, SyntaxError::Header),
            ("[default] x", 1, SyntaxError::Header),
            ("[default]\n\nm tu=1", 3, SyntaxError::Key),
            ("[default]\n=1", 2, SyntaxError::Key),
            ("[default]\nzone=\"a", 2, SyntaxError::Quote),
            ("[default]\nzone=\\x", 2, SyntaxError::Escape),
        ] {
            assert_eq!(parse(text), Err((line, error)), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_value_survives_quoting(value in "[^\r\u{0}]*") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let entries = parse(&format!("[a]\nb = \"{quoted}\" ; c")).expect("quoted values are well formed");
            prop_assert_eq!(&entries[0].value, &value);
        }

        #[test]
        fn no_text_breaks_the_reader(text in "(?s).{0,200}") {
            if let Err((line, _)) = parse(&text) {
                prop_assert!(line >= 1 && line <= text.lines().count());
            }
        }
    }
}
