//! Text that comes from outside, cut to its limit and freed of control characters. Pure.

/// At most `limit` bytes of `text`, cut at a character, without control characters but line breaks and tabs.
///
/// The second value says whether something was cut off.
pub fn clean(text: &str, limit: usize) -> (String, bool) {
    let mut out = String::new();
    for c in text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')) {
        if out.len() + c.len_utf8() > limit {
            return (out, true);
        }
        out.push(c);
    }
    (out, false)
}

/// As [`clean`], of bytes that need not be UTF-8.
pub fn clean_bytes(bytes: &[u8], limit: usize) -> (String, bool) {
    clean(&String::from_utf8_lossy(bytes), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_a_character_and_says_so() {
        assert_eq!(clean("aé", 2), ("a".to_owned(), true));
        assert_eq!(clean("aé", 3), ("aé".to_owned(), false));
    }

    #[test]
    fn control_characters_go_line_breaks_stay() {
        assert_eq!(clean("a\u{1b}[31m\n\0b", 99).0, "a[31m\nb");
    }
}
