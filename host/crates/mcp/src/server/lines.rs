//! The lines that a client writes, none longer than allowed.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::scan::{MessageHead, Scan};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Reads lines.
pub(super) struct InputLines<R> {
    input: BufReader<R>,
    bytes_max: usize,
    /// The line so far, unless it is too long.
    line: Vec<u8>,
    scan: Scan,
    is_long: bool,
    has_ended: bool,
}

/// One line.
pub(super) struct InputLine {
    /// Its bytes; none if it is too long.
    pub(super) bytes: Option<Vec<u8>>,
    /// What stands on it, as far as that is known without reading it.
    pub(super) messages: Vec<MessageHead>,
    /// How many messages stand on it, also those that are not told apart.
    pub(super) count: usize,
    /// Values of arrays and objects on it, at most.
    pub(super) values: u64,
}

impl InputLine {
    /// A message of a batch, as if it stood on a line of its own.
    pub(super) fn of(bytes: &[u8]) -> InputLine {
        let mut scan = Scan::default();
        scan.feed(bytes);
        let values = scan.values();
        let (messages, count) = scan.end();
        InputLine { bytes: Some(bytes.to_vec()), messages, count, values }
    }
}

impl<R: AsyncRead + Unpin> InputLines<R> {
    /// Of a line of more than `bytes_max` nothing is kept.
    pub(super) fn new(input: R, bytes_max: usize) -> InputLines<R> {
        InputLines {
            input: BufReader::with_capacity(READ_BYTES, input),
            bytes_max,
            line: Vec::new(),
            scan: Scan::default(),
            is_long: false,
            has_ended: false,
        }
    }

    /// The next line, with what stands at the end without a line break as the last; none at the
    /// end.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<InputLine> {
        while !self.has_ended {
            let available = match self.input.fill_buf().await {
                Ok(available) => available,
                Err(error) => {
                    tracing::debug!("the client has gone: {error}");
                    &[]
                }
            };
            if available.is_empty() {
                self.has_ended = true;
                return (self.is_long || !self.line.is_empty()).then(|| self.take());
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            self.scan.feed(part);
            self.is_long |= self.line.len() + part.len() > self.bytes_max;
            if self.is_long {
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(part);
            }
            let read = part.len() + usize::from(end.is_some());
            self.input.consume(read);
            if end.is_some() {
                return Some(self.take());
            }
        }
        None
    }

    fn take(&mut self) -> InputLine {
        let bytes = std::mem::take(&mut self.line);
        let bytes = (!std::mem::take(&mut self.is_long)).then_some(bytes);
        let values = self.scan.values();
        let (messages, count) = self.scan.end();
        InputLine { bytes, messages, count, values }
    }
}
