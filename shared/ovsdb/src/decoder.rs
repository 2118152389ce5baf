//! Finds the end of each JSON object in a byte stream.
//!
//! JSON-RPC frames on an OVSDB connection follow each other without length or separator (RFC 7047 section 4), and
//! reads return arbitrary pieces. The decoder therefore tracks nesting and strings byte by byte, looks at every byte
//! once, and hands a frame to the JSON parser only when it is complete.

use bytes::{Buf, BytesMut};
use serde_json::Value;

/// Bytes that can never become a frame. The connection cannot be continued after any of these.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Something other than a JSON object begins where a frame should begin.
    #[error("peer sent no JSON-RPC: a frame begins with byte 0x{byte:02x}, not with '{{'")]
    NotAnObject {
        /// The offending byte.
        byte: u8,
    },
    /// A frame that is longer than the limit.
    #[error("frame exceeds the limit of {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Balanced brackets around something that is not JSON.
    #[error("malformed JSON in frame")]
    Syntax(#[source] serde_json::Error),
}

/// Frames above this size are few: the first contents of a database.
const LARGE: usize = 256 << 10;

/// Incremental splitter of a stream into JSON objects.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    /// Bytes of `buffer` already looked at.
    scanned: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    limit: usize,
}

impl Decoder {
    /// A decoder that refuses frames longer than `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, depth: 0, in_string: false, escaped: false, limit }
    }

    /// Where received bytes have to be appended.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Whether a frame has begun that is not complete.
    #[must_use]
    pub fn is_mid_frame(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The next complete frame, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`DecodeError`]; the stream is then out of step and has to be closed.
    pub fn next_frame(&mut self) -> Result<Option<Value>, DecodeError> {
        let Some(frame) = self.next_text()? else { return Ok(None) };
        serde_json::from_slice(&frame).map(Some).map_err(DecodeError::Syntax)
    }

    /// The text of the next complete frame, which need not be JSON; `None` if more bytes are needed.
    pub(crate) fn next_text(&mut self) -> Result<Option<BytesMut>, DecodeError> {
        if self.depth == 0 {
            let blank = self.buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.buffer.advance(blank);
            match self.buffer.first() {
                None => return Ok(None),
                Some(b'{') => {}
                Some(&byte) => return Err(DecodeError::NotAnObject { byte }),
            }
        }
        let end = self.scan();
        if end.unwrap_or(self.buffer.len()) > self.limit {
            return Err(DecodeError::TooLong { limit: self.limit });
        }
        let Some(end) = end else { return Ok(None) };
        self.scanned = 0;
        let frame = self.buffer.split_to(end);
        if end > LARGE {
            // The rest shares the memory of the frame, and would keep it for ever.
            self.buffer = BytesMut::from(&*self.buffer);
        }
        Ok(Some(frame))
    }

    /// Looks at the bytes not seen before; returns the length of the first frame once its end is there.
    fn scan(&mut self) -> Option<usize> {
        for &byte in self.buffer.iter().skip(self.scanned) {
            self.scanned += 1;
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1; // never below zero: a frame starts with '{' and ends when depth is zero again
                    if self.depth == 0 {
                        return Some(self.scanned);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
