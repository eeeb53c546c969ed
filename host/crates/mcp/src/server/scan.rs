//! What can be known of a line without reading it as JSON: which requests stand on it, and how
//! much memory its values would take.
//!
//! A line may be no JSON, or too long to be kept, and whoever sent it still waits for an answer
//! by the id. So every byte is looked at as it comes, and nothing but the `id` and the `method` of
//! the messages is kept. What this file does not do: tell whether the rest is in order.

use rmcp::model::RequestId;

/// Bytes of one id, or of one method, as they are written; a request with a longer one is refused.
pub(super) const TOKEN_BYTES_MAX: usize = 512;
/// Messages on one line that are told apart; the others are counted.
pub(super) const MESSAGES_MAX: usize = 1_024;

/// One line, as far as it was seen.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The messages that have ended.
    messages: Vec<MessageHead>,
    /// All that have ended, also those that are not told apart.
    count: usize,
    /// Brackets that are open.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The key whose value comes, and what is between two marks, at the first level.
    key: Vec<u8>,
    token: Vec<u8>,
    /// Bytes of the token, also those that are not kept.
    token_bytes: usize,
    seen: MessageHead,
    /// Values of arrays and objects, at most.
    values: u64,
    /// Something stands outside of any message.
    has_rest: bool,
}

/// What is known of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MessageHead {
    /// Its id, if it is one.
    pub(super) id: Option<RequestId>,
    /// Whether there is one, in order or not.
    pub(super) has_id: bool,
    /// Its method, if it is a text.
    pub(super) method: Option<String>,
    /// Which of the two is too long to be kept, and its bytes.
    pub(super) too_long: Option<(Member, usize)>,
}

/// A member of a message that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Id,
    Method,
}

impl MessageHead {
    /// Somebody waits for an answer.
    pub(super) fn is_request(&self) -> bool {
        let has_long_method = matches!(self.too_long, Some((Member::Method, _)));
        self.has_id && (self.method.is_some() || has_long_method)
    }
}

impl Scan {
    /// Looks at further bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.see(*byte);
        }
    }

    /// Values of arrays and objects on the line, at most.
    pub(super) fn values(&self) -> u64 {
        self.values
    }

    /// The messages on the line, one that does not end included, and how many there are, also of
    /// those that are not told apart; and forgets all.
    pub(super) fn end(&mut self) -> (Vec<MessageHead>, usize) {
        if self.depth > 0 {
            self.end_member();
            self.end_message();
        } else if self.has_rest && self.messages.is_empty() {
            self.end_message();
        }
        let scan = std::mem::take(self);
        (scan.messages, scan.count)
    }

    fn see(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return self.keep(byte);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                // What is nested is no id.
                self.keep(byte);
                self.depth += 1;
            }
            b'}' | b']' if self.depth == 1 => {
                self.end_member();
                self.end_message();
                self.depth = 0;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' => {
                self.values += 1;
                if self.depth == 1 {
                    self.key = std::mem::take(&mut self.token);
                    self.token_bytes = 0;
                }
            }
            b',' => {
                self.values += 1;
                if self.depth == 1 {
                    self.end_member();
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        self.has_rest |= self.depth == 0;
        if self.depth == 1 {
            self.token_bytes += 1;
            if self.token.len() < TOKEN_BYTES_MAX {
                self.token.push(byte);
            }
        }
    }

    fn end_member(&mut self) {
        let member = member(&self.key);
        let is_long = self.token_bytes > TOKEN_BYTES_MAX;
        match member {
            Some(Member::Id) => {
                self.seen.has_id = true;
                self.seen.id = serde_json::from_slice(&self.token).ok().filter(|_| !is_long);
            }
            Some(Member::Method) => self.seen.method = serde_json::from_slice(&self.token).ok(),
            None => {}
        }
        if let Some(member) = member.filter(|_| is_long) {
            self.seen.too_long = Some((member, self.token_bytes));
        }
        self.key.clear();
        self.token.clear();
        self.token_bytes = 0;
    }

    fn end_message(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        self.count += 1;
        if self.messages.len() < MESSAGES_MAX {
            self.messages.push(seen);
        }
    }
}

/// What a key names, as JSON reads it: any of its characters may be escaped.
fn member(key: &[u8]) -> Option<Member> {
    let read: String;
    let name = match key.strip_prefix(b"\"")?.strip_suffix(b"\"")? {
        plain if !plain.contains(&b'\\') => plain,
        _ => {
            read = serde_json::from_slice(key).ok()?;
            read.as_bytes()
        }
    };
    match name {
        b"id" => Some(Member::Id),
        b"method" => Some(Member::Method),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let mut scan = Scan::default();
        // Byte by byte, as they may come.
        line.bytes().for_each(|byte| scan.feed(&[byte]));
        let said = |seen: MessageHead| {
            let id = seen.id.map_or("none".to_owned(), |id| id.into_json_value().to_string());
            format!("{id} {}", seen.method.unwrap_or_default())
        };
        let said: Vec<String> = scan.end().0.into_iter().map(said).collect();
        assert_eq!(said.join("; ").trim(), expected, "{line}");
    }

    #[test]
    fn ids_are_found_wherever_they_stand() {
        check(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, "7 ping");
        check(
            r#"{"method":"tools/call","params":{"id":1,"a":[{"id":2}]},"id":"x\"y"}"#,
            r#""x\"y" tools/call"#,
        );
        check(r#" { "id" : -3 , "method" : "a" } "#, "-3 a");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}{"id":2,"method":"b"} "#, "1 ping; 2 b");
        check(r#"{"text":"\"id\":5,{","id":6}"#, "6");
        check(r#"{"\u0069d":7,"m\u0065thod":"ping"}"#, "7 ping");
    }

    #[test]
    fn what_is_broken_is_seen_as_far_as_it_goes() {
        check(r#"{"jsonrpc": "2.0", "id": 1,"#, "1");
        check(r#"{"id":4,"method":"tools/call","params":{"a":["#, "4 tools/call");
        check(r#"{"id":12"#, "12");
        check(r#"{"id":{},"method":"ping"}"#, "none ping");
        check(r#"{"id":1.5}"#, "none");
        check(r#"{"id":null}"#, "none");
        check(r#"[{"id":1}]"#, "none");
        check("garbage", "none");
        check("}}]", "");
        check("  ", "");
        check(&format!(r#"{{"id":"{}"}}"#, "x".repeat(TOKEN_BYTES_MAX)), "none");
    }

    #[test]
    fn values_are_counted_but_not_in_strings() {
        let mut scan = Scan::default();
        scan.feed(br#"{"a":[1,2,3],"b":",,,,::"}"#);
        assert_eq!(scan.values(), 5);
        scan.end();
        assert_eq!(scan.values(), 0);
        let mut scan = Scan::default();
        scan.feed("{} ".repeat(1_000).as_bytes());
        let (messages, count) = scan.end();
        assert_eq!((messages.len(), count), (1_000, 1_000));
        scan.feed("{} ".repeat(2_000).as_bytes());
        let (messages, count) = scan.end();
        assert_eq!((messages.len(), count), (MESSAGES_MAX, 2_000));
    }
}
