//! Reads Rust just well enough to name every path a file uses, and the line it stands on.
//!
//! Comments, strings and characters are skipped, and so is everything under `#[cfg(test)]`. Accepted: a `super`
//! inside an inline module is read as if it stood in the file's own module.

/// A path as it is written, groups spelled out: `use a::{b, c::d};` has `a::b` and `a::c::d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    pub segments: Vec<String>,
    pub line: usize,
}

/// What a file uses outside its tests.
#[derive(Debug, Default)]
pub struct Uses {
    pub paths: Vec<Path>,
    /// Modules declared under `#[cfg(test)]` whose text stands in another file.
    pub test_modules: Vec<String>,
}

#[derive(Debug, Clone)]
struct Token {
    text: String,
    line: usize,
}

/// Every path of `source` outside its tests.
pub fn uses(source: &str) -> Uses {
    let mut found = Uses::default();
    let tokens = without_tests(&tokens(source), &mut found.test_modules);
    let text = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
    let mut i = 0;
    while i < tokens.len() {
        let imported = i > 0 && text(i - 1) == "use";
        let leading = text(i) == "::" && (i == 0 || !is_name(text(i - 1)) || imported);
        if leading {
            i += 1; // `::std::env` names the crate itself
        }
        if is_name(text(i)) && (imported || text(i + 1) == "::") {
            i = tree(&tokens, i, &mut Vec::new(), &mut found.paths).max(i + 1);
        } else {
            i += 1;
        }
    }
    found
}

/// Reads `a::{b, c::*}` at `i` below `prefix`; returns the index behind it.
fn tree(tokens: &[Token], mut i: usize, prefix: &mut Vec<String>, out: &mut Vec<Path>) -> usize {
    let depth = prefix.len();
    let mut line = tokens.get(i).map_or(0, |token| token.line);
    while let Some(token) = tokens.get(i) {
        line = token.line;
        if token.text == "{" {
            i += 1;
            while tokens.get(i).is_some_and(|token| token.text != "}") {
                i = if is_name(&tokens[i].text) || tokens[i].text == "*" || tokens[i].text == "{" {
                    tree(tokens, i, prefix, out)
                } else {
                    i + 1
                };
            }
            prefix.truncate(depth);
            return i + 1;
        }
        prefix.push(token.text.clone());
        i += 1;
        let more = tokens.get(i).is_some_and(|token| token.text == "::");
        let next = tokens.get(i + 1).map_or("", |token| token.text.as_str());
        if !more || !(is_name(next) || next == "*" || next == "{") {
            break;
        }
        i += 1;
    }
    out.push(Path { segments: prefix.clone(), line });
    prefix.truncate(depth);
    // The new name of `a::b as c` is no path.
    if tokens.get(i).is_some_and(|token| token.text == "as") && tokens.get(i + 1).is_some() { i + 2 } else { i }
}

/// Takes out what stands under `#[cfg(test)]`, and everything below `#![cfg(test)]`.
fn without_tests(tokens: &[Token], modules: &mut Vec<String>) -> Vec<Token> {
    let begins = |i: usize, words: &[&str]| {
        tokens.len() >= i + words.len() && tokens[i..].iter().zip(words).all(|(token, word)| token.text == *word)
    };
    let mut kept = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        if begins(i, &["#", "!", "[", "cfg", "(", "test", ")", "]"]) {
            break;
        }
        if !begins(i, &["#", "[", "cfg", "(", "test", ")", "]"]) {
            kept.push(tokens[i].clone());
            i += 1;
            continue;
        }
        while begins(i, &["#", "["]) {
            i = group_end(tokens, i + 1);
        }
        let item = i;
        while i < tokens.len() {
            match tokens[i].text.as_str() {
                "{" => {
                    i = group_end(tokens, i);
                    break;
                }
                ";" => {
                    let words: Vec<&str> = tokens[item..i].iter().map(|token| token.text.as_str()).collect();
                    if let [.., "mod", name] = words.as_slice() {
                        modules.push((*name).to_owned());
                    }
                    i += 1;
                    break;
                }
                "(" | "[" => i = group_end(tokens, i),
                _ => i += 1,
            }
        }
    }
    kept
}

/// The index behind the group that opens at `open`.
fn group_end(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_') && !matches!(text, "use" | "as" | "mut" | "dyn" | "impl")
}

/// Names, `::` and single characters; numbers count as names.
fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let (mut i, mut line) = (0, 1);
    while i < chars.len() {
        let begin = i;
        let first_line = line;
        match at(i) {
            '/' if at(i + 1) == '/' => i = find(&chars, i, '\n'),
            '/' if at(i + 1) == '*' => i = comment_end(&chars, i),
            '"' => i = string_end(&chars, i),
            '\'' => i = quote_end(&chars, i),
            ':' if at(i + 1) == ':' => {
                tokens.push(Token { text: "::".to_owned(), line });
                i += 2;
            }
            c if c.is_alphanumeric() || c == '_' => {
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
                let word: String = chars[begin..i].iter().collect();
                match (word.as_str(), at(i)) {
                    ("r" | "br" | "cr", '"' | '#') if raw_string_begins(&chars, i) => i = raw_string_end(&chars, i),
                    ("b" | "c", '"') => i = string_end(&chars, i),
                    ("b", '\'') => i = quote_end(&chars, i),
                    ("r", '#') => i += 1, // `r#type` is the name `type`
                    _ => tokens.push(Token { text: word, line }),
                }
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(Token { text: c.to_string(), line });
                }
                i += 1;
            }
        }
        line = first_line + chars[begin..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    tokens
}

fn find(chars: &[char], from: usize, wanted: char) -> usize {
    chars.iter().skip(from).position(|c| *c == wanted).map_or(chars.len(), |n| from + n)
}

fn comment_end(chars: &[char], begin: usize) -> usize {
    let mut depth = 0_usize;
    let mut i = begin;
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], open: usize) -> usize {
    let mut i = open + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

fn raw_string_begins(chars: &[char], from: usize) -> bool {
    chars[from..].iter().find(|c| **c != '#') == Some(&'"')
}

fn raw_string_end(chars: &[char], from: usize) -> usize {
    let hashes = chars[from..].iter().take_while(|c| **c == '#').count();
    let mut i = from + hashes + 1;
    while i < chars.len() {
        i = find(chars, i, '"') + 1;
        if chars.iter().skip(i).take(hashes).filter(|c| **c == '#').count() == hashes {
            return i + hashes;
        }
    }
    chars.len()
}

/// Behind a character such as `'a'`, or behind the mark of a lifetime.
fn quote_end(chars: &[char], open: usize) -> usize {
    match (chars.get(open + 1), chars.get(open + 2)) {
        (Some('\\'), _) => find(chars, open + 3, '\'') + 1,
        (_, Some('\'')) => open + 3,
        _ => open + 1,
    }
}

#[test]
fn groups_are_spelled_out_and_lines_kept() {
    let source = "use a::{b, c::{self, d as e},\n  f::*};\nfn x() { y::<T>(g::h()); }";
    let got: Vec<String> =
        uses(source).paths.iter().map(|path| format!("{} {}", path.line, path.segments.join("::"))).collect();
    assert_eq!(got, ["1 a::b", "1 a::c::self", "1 a::c::d", "2 a::f::*", "3 y", "3 g::h"]);
}

#[test]
fn text_and_tests_are_no_code() {
    let source = r##"
        //! a::b
        /* a::b /* a::b */ a::b */
        const C: (&str, &str, char, u8) = ("a::b \" a::b", r#"a::b " a::b"#, '"', b'"');
        fn life<'a>(x: &'a str) -> &'a str { x }
        #[cfg(test)]
        #[allow(dead_code)]
        fn only(x: [u8; 3]) { a::b() }
        #[cfg(test)]
        use a::b;
        #[cfg(test)]
        mod far;
        #[cfg(test)]
        mod tests { fn x() { a::b() } }
        fn last() { c::d() }
    "##;
    let found = uses(source);
    let got: Vec<String> = found.paths.iter().map(|path| path.segments.join("::")).collect();
    assert_eq!(got, ["c::d"]);
    assert_eq!(found.test_modules, ["far"]);
}
