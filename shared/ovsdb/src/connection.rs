//! One connection to a server: frames in both directions, echo, inactivity probe.
//!
//! Reading and writing go on at the same time in [`Connection::next`], so that neither side can block the other. The
//! connection is over with the first error; whoever owns it makes a new one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until};

use crate::decoder::{DecodeError, Decoder};
use crate::options::Options;
use crate::remote::Remote;
use crate::rpc::{Message, RpcError};
use crate::statistics::Counters;
use crate::value::shorten_text;

mod error;
mod open;

pub use error::{CallError, ConnectionError};
use open::Stream;

/// Bytes waiting to be sent above which no further request is taken: more would only grow memory.
const BACKLOG_LIMIT: usize = 1 << 20;

/// Room made for each read; a power of two that holds most updates.
const READ_SIZE: usize = 16 << 10;

/// How long to wait for what a server may have said before it stopped listening; its bytes are there already.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Identity of our echo requests; other requests have numbers.
const PROBE_ID: &str = "probe";

/// What arrived.
#[derive(Debug)]
pub(crate) enum Incoming {
    Reply { id: u64, result: Result<Box<RawValue>, RpcError> },
    Notification { method: String, params: Box<RawValue> },
}

pub(crate) struct Connection {
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    decoder: Decoder,
    outgoing: BytesMut,
    /// Bytes were handed to the stream that it may hold back (TLS).
    unflushed: bool,
    /// Sending is over; what the server said before is still worth reading, as it may tell why.
    write_error: Option<std::io::Error>,
    /// Arrived while [`call`](Self::call) waited for its reply.
    early: VecDeque<Incoming>,
    next_id: u64,
    probe_interval: Duration,
    last_heard: Instant,
    probed: Option<Instant>,
    counters: Arc<Counters>,
}

impl Connection {
    /// Connects within the deadline of the options.
    pub(crate) async fn open(
        remote: &Remote,
        options: &Options,
        counters: Arc<Counters>,
    ) -> Result<Self, ConnectionError> {
        let after = options.connect_timeout;
        let stream = tokio::time::timeout(after, open::open(remote, options.tls.as_ref()))
            .await
            .map_err(|_| ConnectionError::ConnectTimeout { remote: remote.clone(), after })??;
        counters.connections.add(1);
        let (reader, writer) = tokio::io::split(stream);
        Ok(Self {
            reader,
            writer,
            decoder: Decoder::new(options.max_frame),
            outgoing: BytesMut::new(),
            unflushed: false,
            write_error: None,
            early: VecDeque::new(),
            next_id: 0,
            probe_interval: options.probe_interval,
            last_heard: Instant::now(),
            probed: None,
            counters,
        })
    }

    /// Whether another request may be queued.
    pub(crate) fn has_room(&self) -> bool {
        self.outgoing.len() < BACKLOG_LIMIT
    }

    /// Queues a request and returns its number; [`next`](Self::next) sends it.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        self.queue(&Message::Request { id: self.next_id.into(), method: method.to_owned(), params });
        self.next_id
    }

    /// Sends a request and waits for its reply; what arrives meanwhile is kept for [`next`](Self::next).
    pub(crate) async fn call(
        &mut self,
        method: &'static str,
        params: Value,
        deadline: Duration,
    ) -> Result<Value, CallError> {
        let reply = self.call_for_text(method, params, deadline).await?;
        serde_json::from_str(reply.get())
            .map_err(|error| ConnectionError::from(DecodeError::Syntax(error)).into())
    }

    /// As [`call`](Self::call), for a reply that may be large.
    pub(crate) async fn call_for_text(
        &mut self,
        method: &'static str,
        params: Value,
        deadline: Duration,
    ) -> Result<Box<RawValue>, CallError> {
        let wanted = self.request(method, params);
        let mut early = VecDeque::new();
        let reply = async {
            loop {
                match self.next().await? {
                    Incoming::Reply { id, result } if id == wanted => {
                        return result.map_err(|source| CallError::Refused { method, source });
                    }
                    other => early.push_back(other),
                }
            }
        };
        let reply = tokio::time::timeout(deadline, reply).await;
        self.early.append(&mut early);
        reply.unwrap_or(Err(CallError::Deadline { method, after: deadline }))
    }

    /// The next reply or notification. Echo requests are answered on the way, and queued messages are sent.
    ///
    /// # Cancellation
    /// May be dropped at any time without losing or repeating anything.
    pub(crate) async fn next(&mut self) -> Result<Incoming, ConnectionError> {
        loop {
            if let Some(incoming) = self.early.pop_front() {
                return Ok(incoming);
            }
            while let Some(frame) = self.decoder.next_text()? {
                if let Some(incoming) = self.accept(&frame)? {
                    return Ok(incoming);
                }
            }
            self.exchange().await?;
        }
    }

    /// One step of input, output or probing, whichever is possible first.
    async fn exchange(&mut self) -> Result<(), ConnectionError> {
        self.decoder.buffer().reserve(READ_SIZE);
        if self.write_error.is_some() {
            let rest = tokio::time::timeout(LAST_WORDS, self.reader.read_buf(self.decoder.buffer())).await;
            return match (rest, self.write_error.take()) {
                (Ok(Ok(length)), error) if length > 0 => {
                    self.write_error = error;
                    self.counters.bytes_in.add(length);
                    Ok(())
                }
                (_, Some(error)) => Err(ConnectionError::Broken(error)),
                (_, None) => Err(ConnectionError::Closed { mid_frame: self.decoder.is_mid_frame() }),
            };
        }
        let has_output = !self.outgoing.is_empty() || self.unflushed;
        let probe_at = self.probed.unwrap_or(self.last_heard) + self.probe_interval;
        tokio::select! {
            // The backlog is bounded, so output cannot starve input, while an endless input could starve output. The
            // probe comes last: a server must not look silent because this side was busy.
            biased;
            written = write_some(&mut self.writer, &self.outgoing), if has_output => match written {
                Ok(length) => {
                    self.unflushed = length > 0;
                    self.outgoing.advance(length);
                    self.counters.bytes_out.add(length);
                }
                Err(error) => self.write_error = Some(error),
            },
            read = self.reader.read_buf(self.decoder.buffer()) => {
                let length = read.map_err(ConnectionError::Broken)?;
                if length == 0 {
                    return Err(ConnectionError::Closed { mid_frame: self.decoder.is_mid_frame() });
                }
                self.counters.bytes_in.add(length);
                self.last_heard = Instant::now();
                self.probed = None;
            }
            () = sleep_until(probe_at), if !self.probe_interval.is_zero() => {
                if self.probed.is_some() {
                    return Err(ConnectionError::Unanswered { idle: self.last_heard.elapsed() });
                }
                self.counters.probes.add(1);
                self.probed = Some(Instant::now());
                self.queue(&Message::Request { id: PROBE_ID.into(), method: "echo".to_owned(), params: json!([]) });
            }
        }
        Ok(())
    }

    fn queue(&mut self, message: &Message) {
        self.outgoing.put_slice(message.to_json().to_string().as_bytes());
    }

    fn accept(&mut self, frame: &[u8]) -> Result<Option<Incoming>, ConnectionError> {
        let message = Message::read(frame).map_err(DecodeError::Syntax)?;
        let strange = || ConnectionError::NotJsonRpc { found: shorten_text(&String::from_utf8_lossy(frame)) };
        match message.ok_or_else(strange)? {
            Message::Request { id, method, params } => {
                let result = if method == "echo" {
                    self.counters.echoes_answered.add(1);
                    Ok(serde_json::from_str(params.get()).map_err(DecodeError::Syntax)?)
                } else {
                    Err(RpcError { error: "unknown method".to_owned(), details: method })
                };
                self.queue(&Message::Response { id, result });
                Ok(None)
            }
            Message::Notification { method, params } => {
                Ok(Some(Incoming::Notification { method, params: params.to_owned() }))
            }
            Message::Response { id, result } => {
                let result = result.map(ToOwned::to_owned);
                Ok(id.as_u64().map(|id| Incoming::Reply { id, result })) // others answer our probes
            }
        }
    }
}

/// Writes from the buffer, or flushes if there is nothing left to write; returns how many bytes were taken.
async fn write_some(writer: &mut WriteHalf<Box<dyn Stream>>, bytes: &[u8]) -> std::io::Result<usize> {
    if bytes.is_empty() {
        writer.flush().await.map(|()| 0)
    } else {
        match writer.write(bytes).await? {
            0 => Err(std::io::ErrorKind::WriteZero.into()),
            length => Ok(length),
        }
    }
}

#[cfg(test)]
mod tests;
