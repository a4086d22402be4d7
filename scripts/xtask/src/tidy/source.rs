//! Rust source without what is written in it: comments, strings and character literals become spaces, so that braces
//! and words can be looked for. Lines stay where they are.

/// The same text with the same lines; everything but code is blank.
pub(super) fn code_only(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut previous = ' ';
    while let Some(first) = rest.chars().next() {
        let n_blank = blank_len(rest, previous);
        let (taken, after) = rest.split_at(if n_blank == 0 { first.len_utf8() } else { n_blank });
        if n_blank == 0 {
            out.push(first);
        } else {
            out.extend(taken.chars().map(|it| if it == '\n' { '\n' } else { ' ' }));
        }
        previous = taken.chars().next_back().unwrap_or(' ');
        rest = after;
    }
    out
}

/// Bytes at the start of `rest` that are not code; 0 when it starts with code.
fn blank_len(rest: &str, previous: char) -> usize {
    let continues_a_name = previous.is_alphanumeric() || previous == '_';
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_len(rest);
    }
    if rest.starts_with('"') {
        return quoted_len(rest);
    }
    if rest.starts_with('\'') {
        return character_len(rest);
    }
    if continues_a_name { 0 } else { raw_string_len(rest).unwrap_or(0) }
}

/// Block comments nest.
fn block_comment_len(rest: &str) -> usize {
    let mut depth = 0_u32;
    let mut at = 0;
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += tail.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn quoted_len(rest: &str) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `'x'` and `'\n'` are literals; `'static` is a lifetime, which is code.
fn character_len(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            let end = characters.skip(1).find(|(_, character)| *character == '\'');
            end.map_or(rest.len(), |(at, _)| at + 1)
        }
        Some(_) => match characters.next() {
            Some((at, '\'')) => at + 1,
            _ => 0,
        },
        None => 0,
    }
}

/// `r"…"`, `r#"…"#`, with `b` or `c` before them.
fn raw_string_len(rest: &str) -> Option<usize> {
    let after_prefix = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
    let body = after_prefix.trim_start_matches('#');
    let n_hashes = after_prefix.len() - body.len();
    let inside = body.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(n_hashes));
    let inside_starts = rest.len() - inside.len();
    Some(inside.find(&close).map_or(rest.len(), |at| inside_starts + at + close.len()))
}

#[cfg(test)]
mod tests {
    use super::code_only;

    fn check(source: &str, expected: &str) {
        assert_eq!(code_only(source), expected, "{source}");
    }

    #[test]
    fn comments_and_literals_are_blank_and_lines_stay() {
        check("a // {\nb", "a     \nb");
        check("a /* { /* } */\n */ b", "a             \n    b");
        check(r#"f("{ \" }");"#, "f(        );");
        check("f('{', '\\'', '\\u{7f}');", "f(   ,     ,         );");
        check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
        check("r#\"{\"}\"#;", "        ;");
        check("br\"{\" x", "      x");
        check("let bar\"x\"", "let bar   ");
        check("r#match { }", "r#match { }");
    }

    #[test]
    fn text_that_never_ends_does_not_hang() {
        for source in ["\"", "'", "/*", "r#\"", "'\\", "\"\\"] {
            assert_eq!(code_only(source).len(), source.len(), "{source}");
        }
    }
}
