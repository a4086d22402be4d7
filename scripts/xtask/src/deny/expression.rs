//! Licence expressions (SPDX 2.3, annex D), and cargo's old `MIT/Apache-2.0`.

use std::collections::BTreeSet;

/// The allowed licences that satisfy the expression; none when they can not, or when it is no expression. Of several
/// choices, one that needs the fewest.
pub(super) fn needed(expression: &str, allowed: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let needed = either(&mut rest, allowed)?;
    if rest.is_empty() { needed } else { None }
}

/// The outer option is whether it could be read, the inner one whether it is allowed.
type Read = Option<Option<BTreeSet<String>>>;

fn either(rest: &mut &[&str], allowed: &BTreeSet<String>) -> Read {
    let mut best = both(rest, allowed)?;
    while take(rest, "OR") {
        let other = both(rest, allowed)?;
        best = match (best, other) {
            (Some(a), Some(b)) => Some(if b.len() < a.len() { b } else { a }),
            (a, b) => a.or(b),
        };
    }
    Some(best)
}

fn both(rest: &mut &[&str], allowed: &BTreeSet<String>) -> Read {
    let mut all = one(rest, allowed)?;
    while take(rest, "AND") {
        let other = one(rest, allowed)?;
        all = all.zip(other).map(|(a, b)| a.union(&b).cloned().collect());
    }
    Some(all)
}

fn one(rest: &mut &[&str], allowed: &BTreeSet<String>) -> Read {
    if take(rest, "(") {
        let inner = either(rest, allowed)?;
        return take(rest, ")").then_some(inner);
    }
    let mut licence = name(rest)?;
    if take(rest, "WITH") {
        licence = format!("{licence} WITH {}", name(rest)?);
    }
    Some(allowed.contains(&licence).then(|| BTreeSet::from([licence])))
}

fn name(rest: &mut &[&str]) -> Option<String> {
    let (first, after) = rest.split_first()?;
    if ["(", ")", "AND", "OR", "WITH"].contains(first) {
        return None;
    }
    *rest = after;
    Some((*first).to_owned())
}

fn take(rest: &mut &[&str], word: &str) -> bool {
    match rest.split_first() {
        Some((first, after)) if *first == word => {
            *rest = after;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, expected: Option<&[&str]>) {
        let allowed = ["MIT", "Zlib", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];
        let found = needed(expression, &allowed.map(str::to_owned).into());
        assert_eq!(
            found,
            expected.map(|it| it.iter().map(|name| (*name).to_owned()).collect()),
            "{expression}"
        );
    }

    #[test]
    fn choices_need_one_and_sums_need_all() {
        check("MIT", Some(&["MIT"]));
        check("Apache-2.0", None);
        check("Apache-2.0 OR MIT", Some(&["MIT"]));
        check("Apache-2.0/MIT", Some(&["MIT"]));
        check("MIT AND Apache-2.0", None);
        check("(Apache-2.0 OR MIT) AND Unicode-3.0", Some(&["MIT", "Unicode-3.0"]));
        check("MIT AND Unicode-3.0 OR Zlib", Some(&["Zlib"]));
    }

    #[test]
    fn an_exception_is_a_licence_of_its_own() {
        check("Apache-2.0 WITH LLVM-exception OR Apache-2.0", Some(&["Apache-2.0 WITH LLVM-exception"]));
        check("MIT WITH Classpath-exception-2.0", None);
    }

    #[test]
    fn what_is_no_expression_is_not_allowed() {
        for text in ["", "MIT OR", "MIT MIT", "(MIT", "MIT)", "OR MIT", "MIT WITH", "MIT AND OR MIT"] {
            check(text, None);
        }
    }
}
