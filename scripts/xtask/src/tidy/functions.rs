//! How long functions are.

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    /// Of the word `fn`, from 1.
    pub(super) line: usize,
    /// From the word `fn` to the closing brace, both included.
    pub(super) n_lines: usize,
}

/// Every function with a body in `code`, which has neither comments nor literals. Functions in functions count twice:
/// once on their own, once as part of what is around them.
pub(super) fn functions(code: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let Some((before, rest)) = code.split_at_checked(at) else { continue };
        if before.chars().next_back().is_some_and(is_name) {
            continue;
        }
        let declared = rest.get(2..).unwrap_or_default().trim_start();
        let name = declared.split(|character| !is_name(character)).next().unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        if let Some(body) = body(rest) {
            let line = before.matches('\n').count() + 1;
            found.push(Function { name, line, n_lines: body.matches('\n').count() + 1 });
        }
    }
    found
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// From `fn` to the brace that closes its body; none for a declaration that ends with `;`.
fn body(rest: &str) -> Option<&str> {
    let mut n_brackets = 0_i32;
    let mut n_braces = 0_i32;
    for (at, character) in rest.char_indices() {
        match character {
            '(' | '[' => n_brackets += 1,
            ')' | ']' => n_brackets -= 1,
            // Not the one in `[u8; 32]`.
            ';' if n_braces == 0 && n_brackets == 0 => return None,
            // Not the one in `[u8; { N }]`.
            '{' if n_braces > 0 || n_brackets == 0 => n_braces += 1,
            '}' if n_braces > 0 => {
                n_braces -= 1;
                if n_braces == 0 {
                    return rest.get(..=at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::source::code_only;
    use super::functions;

    /// Name, line and length of each function.
    fn check(source: &str, expected: &[(&str, usize, usize)]) {
        let code = code_only(source);
        let found: Vec<_> = functions(&code).into_iter().map(|it| (it.name, it.line, it.n_lines)).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn bodies_are_measured_from_fn_to_brace() {
        check("fn a() {}", &[("a", 1, 1)]);
        check("\npub(crate) async fn a(\n    x: u8,\n) -> u8\nwhere\n{\n    x\n}\n", &[("a", 2, 7)]);
    }

    #[test]
    fn braces_that_are_no_code_do_not_count() {
        check("fn a() {\n    // }\n    f(\"}\", '}');\n}\nfn b() {}", &[("a", 1, 4), ("b", 5, 1)]);
        check("fn a() {\n    let s = r#\"\n} \" {\n\"#;\n}", &[("a", 1, 5)]);
    }

    #[test]
    fn semicolons_and_braces_in_types_do_not_end_a_declaration() {
        check("fn a(x: [u8; 32]) -> [u8; { 1 + 1 }] {\n    x\n}", &[("a", 1, 3)]);
    }

    #[test]
    fn declarations_pointers_and_words_are_no_functions() {
        check("trait T { fn a(&self); fn b(&self) {\n} }", &[("b", 1, 2)]);
        check("type F = fn (u8) -> u8; let x: fn(u8); my_fn (1); let fn_x = { };", &[]);
    }

    #[test]
    fn a_function_in_a_function_counts_on_its_own_too() {
        check("fn a() {\n    fn b() {\n    }\n    x.map(|y| { y });\n}", &[("a", 1, 5), ("b", 2, 2)]);
    }

    #[test]
    fn an_unclosed_body_is_left_to_the_compiler() {
        check("fn a() {", &[]);
    }
}
