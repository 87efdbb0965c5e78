//! The syntax of AGIOS's configuration file: that of libconfig, the library with which AGIOS reads it.
//!
//! Source: libconfig's manual, "Configuration Files" and "Configuration File Grammar".
//! `@include` is refused by name; everything else of the grammar is read. Text need not be UTF-8.

use std::fmt;

/// How deeply groups and lists may stand in each other; a file that goes deeper is refused.
const DEPTH_MAX: usize = 32;

/// One `name = value`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    /// Its name.
    pub(crate) name: String,
    /// The line of its name, from 1.
    pub(crate) line: usize,
    /// Its value.
    pub(crate) value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// `true` or `false`, in any case.
    Bool(bool),
    /// Decimal or `0x` hexadecimal, with or without `L`.
    Integer(i64),
    /// With a point or an exponent.
    Float(f64),
    /// Between quotes, escapes resolved; strings that follow each other are one.
    Text(Vec<u8>),
    /// Between braces.
    Group(Vec<Setting>),
    /// Between brackets (an array) or parentheses (a list).
    Sequence(Vec<Value>),
}

impl Value {
    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Bool(_) => "true or false",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a fraction",
            Self::Text(_) => "a text",
            Self::Group(_) => "a group",
            Self::Sequence(_) => "a list",
        }
    }
}

impl fmt::Display for Value {
    /// As it would be written; of groups and lists only what they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "\"{}\"", value.escape_ascii()),
            Self::Group(_) | Self::Sequence(_) => f.write_str(self.kind()),
        }
    }
}

/// Where a file stops following the grammar, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// The line, from 1.
    pub(crate) line: usize,
    /// What is wrong there.
    pub(crate) what: String,
}

/// Reads a whole file.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<Setting>, SyntaxError> {
    let mut parser = Parser { text, at: 0, line: 1, depth: 0 };
    parser.settings(None)
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
    depth: usize,
}

impl Parser<'_> {
    /// Settings up to `end`, or to the end of the text.
    fn settings(&mut self, end: Option<u8>) -> Result<Vec<Setting>, SyntaxError> {
        let mut settings: Vec<Setting> = Vec::new();
        loop {
            match self.peek()? {
                None if end.is_none() => return Ok(settings),
                None => return Err(self.error("the file ends inside a group; a } is missing")),
                Some(byte) if Some(byte) == end => {
                    self.at += 1;
                    return Ok(settings);
                }
                Some(b'@') => {
                    return Err(self.error(
                        "@include is not read; put the settings of that file into this one",
                    ));
                }
                Some(_) => {}
            }
            let line = self.line;
            let name = self.name()?;
            if let Some(earlier) = settings.iter().find(|setting| setting.name == name) {
                let first = earlier.line;
                return Err(self.error_at(
                    line,
                    format!("{name} is set twice, first on line {first}; remove one of the two"),
                ));
            }
            if !matches!(self.peek()?, Some(b'=' | b':')) {
                return Err(self.error(format!("{name} is followed by neither = nor :")));
            }
            self.at += 1;
            let value = self.value()?;
            settings.push(Setting { name, line, value });
            if matches!(self.peek()?, Some(b';' | b',')) {
                self.at += 1;
            }
        }
    }

    fn name(&mut self) -> Result<String, SyntaxError> {
        let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'*';
        let is_next = |byte: u8| byte.is_ascii_alphanumeric() || b"-_*".contains(&byte);
        let rest = &self.text[self.at..];
        if !rest.first().copied().is_some_and(is_first) {
            return Err(self.unexpected("a setting's name"));
        }
        let length = rest.iter().position(|byte| !is_next(*byte)).unwrap_or(rest.len());
        self.at += length;
        Ok(String::from_utf8_lossy(&rest[..length]).into_owned())
    }

    fn value(&mut self) -> Result<Value, SyntaxError> {
        let Some(first) = self.peek()? else {
            return Err(self.error("the file ends where a value should stand"));
        };
        match first {
            b'{' => self.nested(|parser| Ok(Value::Group(parser.settings(Some(b'}'))?))),
            b'[' => self.nested(|parser| Ok(Value::Sequence(parser.sequence(b']')?))),
            b'(' => self.nested(|parser| Ok(Value::Sequence(parser.sequence(b')')?))),
            b'"' => self.strings(),
            _ => self.word(),
        }
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Value, SyntaxError>,
    ) -> Result<Value, SyntaxError> {
        if self.depth == DEPTH_MAX {
            return Err(self.error(format!("more than {DEPTH_MAX} groups or lists in each other")));
        }
        self.at += 1;
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn sequence(&mut self, end: u8) -> Result<Vec<Value>, SyntaxError> {
        let mut values = Vec::new();
        loop {
            match self.peek()? {
                Some(byte) if byte == end => {
                    self.at += 1;
                    return Ok(values);
                }
                None => return Err(self.error("the file ends inside a list")),
                Some(_) => values.push(self.value()?),
            }
            match self.peek()? {
                Some(b',') => self.at += 1,
                Some(byte) if byte == end => {}
                _ => return Err(self.unexpected("a comma or the end of the list")),
            }
        }
    }

    /// One string, or several that follow each other.
    fn strings(&mut self) -> Result<Value, SyntaxError> {
        let mut text = Vec::new();
        while self.peek()? == Some(b'"') {
            self.at += 1;
            self.string(&mut text)?;
        }
        Ok(Value::Text(text))
    }

    fn string(&mut self, into: &mut Vec<u8>) -> Result<(), SyntaxError> {
        let first_line = self.line;
        loop {
            let Some(byte) = self.step() else {
                return Err(self.error_at(first_line, "a string has no closing quote"));
            };
            match byte {
                b'"' => return Ok(()),
                b'\\' => {
                    let escaped = match self.step() {
                        Some(b'n') => b'\n',
                        Some(b'r') => b'\r',
                        Some(b't') => b'\t',
                        Some(b'f') => 0x0c,
                        Some(b'a') => 0x07,
                        Some(b'b') => 0x08,
                        Some(b'v') => 0x0b,
                        Some(b'x') => self.hexadecimal_escape()?,
                        Some(other @ (b'\\' | b'"')) => other,
                        _ => {
                            return Err(self.error("unknown escape in a string; write \\\\ for \\"));
                        }
                    };
                    into.push(escaped);
                }
                _ => into.push(byte),
            }
        }
    }

    fn hexadecimal_escape(&mut self) -> Result<u8, SyntaxError> {
        let digits = self.text.get(self.at..self.at + 2).and_then(|d| std::str::from_utf8(d).ok());
        let byte = digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        self.at += 2;
        byte.ok_or_else(|| self.error("\\x is not followed by two hexadecimal digits"))
    }

    /// A boolean or a number.
    fn word(&mut self) -> Result<Value, SyntaxError> {
        let rest = &self.text[self.at..];
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte);
        let length = rest.iter().position(|byte| !is_part(*byte)).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.unexpected("a value"));
        }
        let word = String::from_utf8_lossy(&rest[..length]).into_owned();
        let value = scalar(&word).ok_or_else(|| {
            self.error(format!(
                "{word} is no value; texts stand between quotes, integers lie within 64 bits"
            ))
        })?;
        self.at += length;
        Ok(value)
    }

    /// The next byte of the string being read.
    fn step(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        self.line += usize::from(byte == b'\n');
        Some(byte)
    }

    /// The next byte after blanks and comments, without taking it.
    fn peek(&mut self) -> Result<Option<u8>, SyntaxError> {
        loop {
            let rest = &self.text[self.at..];
            match rest {
                [b'\n', ..] => {
                    self.line += 1;
                    self.at += 1;
                }
                [byte, ..] if byte.is_ascii_whitespace() || *byte == 0x0b => self.at += 1,
                [b'#', ..] | [b'/', b'/', ..] => {
                    let end = rest.iter().position(|byte| *byte == b'\n');
                    self.at += end.unwrap_or(rest.len());
                }
                [b'/', b'*', ..] => {
                    let Some(end) = rest[2..].windows(2).position(|pair| pair == b"*/") else {
                        return Err(self.error("a comment has no end; */ is missing"));
                    };
                    let comment = &rest[..end + 4];
                    self.line += comment.iter().filter(|byte| **byte == b'\n').count();
                    self.at += comment.len();
                }
                _ => return Ok(rest.first().copied()),
            }
        }
    }

    fn unexpected(&self, wanted: &str) -> SyntaxError {
        match self.text.get(self.at) {
            Some(byte) => {
                self.error(format!("found {} instead of {wanted}", [*byte].escape_ascii()))
            }
            None => self.error(format!("the file ends where {wanted} should stand")),
        }
    }

    fn error(&self, what: impl Into<String>) -> SyntaxError {
        self.error_at(self.line, what)
    }

    fn error_at(&self, line: usize, what: impl Into<String>) -> SyntaxError {
        SyntaxError { line, what: what.into() }
    }
}

fn scalar(word: &str) -> Option<Value> {
    if word.eq_ignore_ascii_case("true") {
        return Some(Value::Bool(true));
    }
    if word.eq_ignore_ascii_case("false") {
        return Some(Value::Bool(false));
    }
    let digits = word.strip_suffix("LL").or_else(|| word.strip_suffix('L')).unwrap_or(word);
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    if let Some(hexadecimal) = hexadecimal {
        let is_plain = hexadecimal.bytes().all(|digit| digit.is_ascii_hexdigit());
        // As libconfig: sixteen digits are the 64 bits, whatever the sign bit.
        let bits = u64::from_str_radix(hexadecimal, 16).ok().filter(|_| is_plain)?;
        return Some(Value::Integer(bits.cast_signed()));
    }
    let unsigned = digits.trim_start_matches(['+', '-']);
    if !unsigned.is_empty() && unsigned.bytes().all(|digit| digit.is_ascii_digit()) {
        return digits.parse().ok().map(Value::Integer);
    }
    let is_float = unsigned.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let float = word.parse::<f64>().ok().filter(|float| is_float && float.is_finite())?;
    Some(Value::Float(float))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Value {
        let mut settings = parse(format!("x = {text}").as_bytes()).expect(text);
        settings.remove(0).value
    }

    fn complaint(text: &str) -> (usize, String) {
        let error = parse(text.as_bytes()).expect_err(text);
        (error.line, error.what)
    }

    #[test]
    fn every_kind_of_value_is_read() {
        assert_eq!(value("TRUE;"), Value::Bool(true));
        assert_eq!(value("False"), Value::Bool(false));
        assert_eq!(value("-12"), Value::Integer(-12));
        assert_eq!(value("+7,"), Value::Integer(7));
        assert_eq!(value("9223372036854775807L"), Value::Integer(i64::MAX));
        assert_eq!(value("0x1FC3"), Value::Integer(0x1fc3));
        assert_eq!(value("1.5e3"), Value::Float(1500.0));
        assert_eq!(value("\"a\" \"b\""), Value::Text(b"ab".to_vec()));
        assert_eq!(value(r#""\x41\\\"\n""#), Value::Text(b"A\\\"\n".to_vec()));
        assert_eq!(value("[]"), Value::Sequence(vec![]));
        assert_eq!(
            value("(1, \"a\", (true))"),
            Value::Sequence(vec![
                Value::Integer(1),
                Value::Text(b"a".to_vec()),
                Value::Sequence(vec![Value::Bool(true)]),
            ])
        );
        assert_eq!(value("{}"), Value::Group(vec![]));
    }

    #[test]
    fn ends_of_settings_and_comments_may_be_left_out_or_stand_anywhere() {
        let text = "# one\na = 1 // two\nb : 2, /* three\nlines\n*/ c=3;d=4";
        let names: Vec<_> = parse(text.as_bytes())
            .unwrap()
            .into_iter()
            .map(|setting| (setting.name, setting.line))
            .collect();
        let expected = [("a", 2), ("b", 3), ("c", 5), ("d", 5)];
        assert_eq!(names, expected.map(|(name, line)| (name.to_owned(), line)));
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let cases = [
            ("a = 1;\nb = \"x", 2, "closing quote"),
            ("g: {\n a = 1\n", 3, "} is missing"),
            ("a = 1\n\na = 2", 3, "set twice, first on line 1"),
            ("a 1", 1, "neither = nor :"),
            ("a = SJF", 1, "between quotes"),
            ("a = 99999999999999999999", 1, "64 bits"),
            ("@include \"b\"", 1, "put the settings"),
            ("a = \"\\q\"", 1, "unknown escape"),
            ("a = [1 2]", 1, "a comma"),
            ("/* a", 1, "*/ is missing"),
            ("=", 1, "a setting's name"),
        ];
        for (text, line, part) in cases {
            let (found, what) = complaint(text);
            assert!(found == line && what.contains(part), "{text}: line {found}: {what}");
        }
        assert!(complaint(&"a = {".repeat(100)).1.contains("in each other"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&text);
        }

        #[test]
        fn arbitrary_tokens_never_panic(
            tokens in proptest::collection::vec(
                prop_oneof![
                    Just("a"), Just("="), Just(":"), Just("{"), Just("}"), Just("("), Just(")"),
                    Just("["), Just("]"), Just("\""), Just("\\x"), Just("1"), Just("-"), Just("0x"),
                    Just(";"), Just(","), Just("/*"), Just("*/"), Just("#"), Just("\n"), Just("1.e"),
                ],
                0..60,
            )
        ) {
            let _ = parse(tokens.concat().as_bytes());
        }

        #[test]
        fn integers_survive(number in any::<i64>()) {
            prop_assert_eq!(value(&number.to_string()), Value::Integer(number));
        }

        #[test]
        fn texts_survive(text in "[ -~]{0,40}") {
            let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(value(&quoted), Value::Text(text.into_bytes()));
        }
    }
}
