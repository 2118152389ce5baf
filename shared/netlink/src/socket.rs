//! The two kinds of netlink sockets: one that only listens, one that only asks.
//!
//! They are apart so that a flood of events can never push out an answer. Both belong to the network namespace of the
//! thread that opened them, for as long as they live.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
use rtnetlink::sys::{AsyncSocket, Socket, SocketAddr, TokioSocket};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracing::debug;

use crate::error::{DumpError, KernelError};
use crate::wire::{HEADER_LEN, Malformed, Message, NLM_F_DUMP_INTR, messages, u32_at};

/// Room for one datagram, in bytes. The kernel builds dumps of at most 32 KiB (`netlink_dump`) and events of a page
/// or two.
const DATAGRAM_LEN: usize = 64 * 1024;
/// How long one answer may take. The kernel answers while it is asked, so this is never reached on a healthy machine.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// How often a dump is asked for again at once when objects changed under it.
const DUMP_ATTEMPTS: u32 = 16;

const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSG_OVERRUN: u16 = 4;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
/// Port number of the kernel. Any process may send to a netlink socket; only the kernel is believed.
const KERNEL: u32 = 0;

/// What wakes a listener. The error counts: a full receive buffer can be reported when the queue is empty already, and
/// the kernel then drops every event, without another sign, until the error has been read. Waiting for readable alone
/// (as `TokioSocket` does) would wait for ever.
const INTEREST: Interest = Interest::READABLE.add(Interest::ERROR);

/// Whether the kernel threw messages away before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A datagram is in the buffer.
    Datagram,
    /// The receive buffer was full; events are lost (ENOBUFS).
    Lost,
}

/// A socket that listens to multicast groups.
pub(crate) struct EventSocket {
    socket: AsyncFd<Socket>,
    buffer: Vec<u8>,
}

impl EventSocket {
    /// Listens to `groups` (bit 0 is group 1) with a receive buffer of `receive_buffer` bytes.
    pub(crate) fn open(protocol: isize, groups: u32, receive_buffer: usize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.set_non_blocking(true)?;
        socket.bind(&SocketAddr::new(0, groups))?;
        if let Err(errno) = setsockopt(&socket, RcvBufForce, &receive_buffer) {
            // Without CAP_NET_ADMIN the system's limit applies. A small buffer costs a dump now and then, nothing else.
            debug!(error = %errno, "Receive buffer kept at the system's limit");
            socket.set_rx_buf_sz(i32::try_from(receive_buffer).unwrap_or(i32::MAX))?;
        }
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that could swap their descriptor; this one owns its only one"
        )]
        let socket = AsyncFd::with_interest(socket, INTEREST)?;
        Ok(Self { socket, buffer: Vec::with_capacity(DATAGRAM_LEN) })
    }

    /// Also listens to group number `group`. Joining twice is joining once.
    pub(crate) fn join(&mut self, group: u32) -> io::Result<()> {
        self.socket.get_mut().add_membership(group)
    }

    /// Waits for a datagram of the kernel and keeps it.
    ///
    /// # Cancellation
    /// Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> io::Result<Arrival> {
        loop {
            let mut guard = self.socket.ready(INTEREST).await?;
            if let Some(arrival) = try_receive(guard.get_inner(), &mut self.buffer) {
                return arrival;
            }
            guard.clear_ready();
        }
    }

    /// Takes a datagram if one is queued right now. Asks the kernel, not the runtime, whose knowledge may be old.
    pub(crate) fn try_next(&mut self) -> Option<io::Result<Arrival>> {
        try_receive(self.socket.get_ref(), &mut self.buffer)
    }

    /// The messages of the kept datagram.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
        messages(&self.buffer)
    }
}

/// A socket that asks and waits for the whole answer.
pub(crate) struct RequestSocket {
    socket: TokioSocket,
    buffer: Vec<u8>,
    sequence: u32,
}

/// What to ask.
pub(crate) struct Request<'a> {
    /// Message type of the request.
    pub(crate) kind: u16,
    /// Everything behind the netlink header.
    pub(crate) payload: &'a [u8],
    /// Whether all objects are asked for, or one.
    pub(crate) dump: bool,
}

impl RequestSocket {
    pub(crate) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = TokioSocket::new(protocol)?;
        socket.socket_mut().bind_auto()?;
        Ok(Self { socket, buffer: Vec::with_capacity(DATAGRAM_LEN), sequence: 0 })
    }

    /// Makes the kernel take the filters in route and address requests seriously. Kernels before 4.20 lack this and
    /// answer with everything.
    pub(crate) fn set_strict(&mut self) {
        if let Err(error) = self.socket.socket_mut().set_netlink_get_strict_chk(true) {
            debug!(%error, "Filtered dumps are not available");
        }
    }

    /// Asks, and collects what `decode` finds in the answer. Nothing short of the whole answer is returned.
    pub(crate) async fn ask<T>(
        &mut self,
        request: &Request<'_>,
        decode: impl Fn(&Message<'_>) -> Result<Option<T>, Malformed>,
    ) -> Result<Vec<T>, DumpError> {
        let mut attempt = 1;
        loop {
            let answer = tokio::time::timeout(ANSWER_DEADLINE, self.ask_once(request, &decode));
            match answer.await.unwrap_or(Err(DumpError::Deadline(ANSWER_DEADLINE))) {
                Err(DumpError::Interrupted) if attempt < DUMP_ATTEMPTS => attempt += 1,
                answer => return answer,
            }
        }
    }

    /// Asks for one change and waits for the kernel's word on it.
    ///
    /// A request that was sent is not sent again: whoever asks finds out what became of it.
    pub(crate) async fn tell(&mut self, kind: u16, flags: u16, payload: &[u8]) -> Result<(), DumpError> {
        let answer = tokio::time::timeout(ANSWER_DEADLINE, async {
            self.sequence = self.sequence.wrapping_add(1);
            let message = encode(kind, NLM_F_REQUEST | NLM_F_ACK | flags, payload, self.sequence);
            self.exchange(&message, &|_: &Message<'_>| Ok(None::<()>)).await
        });
        answer.await.unwrap_or(Err(DumpError::Deadline(ANSWER_DEADLINE))).map(drop)
    }

    async fn ask_once<T>(
        &mut self,
        request: &Request<'_>,
        decode: &impl Fn(&Message<'_>) -> Result<Option<T>, Malformed>,
    ) -> Result<Vec<T>, DumpError> {
        self.sequence = self.sequence.wrapping_add(1);
        let flags = NLM_F_REQUEST | if request.dump { NLM_F_DUMP } else { NLM_F_ACK };
        let message = encode(request.kind, flags, request.payload, self.sequence);
        self.exchange(&message, decode).await
    }

    async fn exchange<T>(
        &mut self,
        message: &[u8],
        decode: &impl Fn(&Message<'_>) -> Result<Option<T>, Malformed>,
    ) -> Result<Vec<T>, DumpError> {
        let kernel = SocketAddr::new(KERNEL, 0);
        let sent = poll_fn(|cx| self.socket.poll_send_to(cx, message, &kernel)).await;
        sent.map_err(DumpError::Socket)?;
        let mut answer =
            Answer { sequence: self.sequence, rows: Vec::new(), interrupted: false, malformed: None };
        loop {
            receive(&self.socket, &mut self.buffer).await.map_err(|error| match error.raw_os_error() {
                Some(errno) if errno == Errno::ENOBUFS as i32 => DumpError::Overrun,
                _ => DumpError::Socket(error),
            })?;
            if answer.take(&self.buffer, decode)? {
                return answer.finish();
            }
        }
    }
}

/// What has come of an answer so far.
struct Answer<T> {
    sequence: u32,
    rows: Vec<T>,
    interrupted: bool,
    malformed: Option<Malformed>,
}

impl<T> Answer<T> {
    /// Takes one datagram; true when it was the last.
    ///
    /// A bad row does not end the reading: what the kernel still has to say would be in the way of the next request.
    fn take(
        &mut self,
        datagram: &[u8],
        decode: impl Fn(&Message<'_>) -> Result<Option<T>, Malformed>,
    ) -> Result<bool, DumpError> {
        for message in messages(datagram) {
            let message = match message {
                Ok(message) => message,
                Err(malformed) => {
                    self.malformed = Some(malformed);
                    break;
                }
            };
            if message.sequence != self.sequence {
                continue; // The rest of an answer that nobody waited for.
            }
            self.interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
            match message.kind {
                NLMSG_NOOP => {}
                NLMSG_OVERRUN => return Err(DumpError::Overrun),
                NLMSG_DONE | NLMSG_ERROR => return status(message.payload).map(|()| true),
                _ => match decode(&message) {
                    Ok(row) => self.rows.extend(row),
                    Err(malformed) => self.malformed = Some(malformed),
                },
            }
        }
        Ok(false)
    }

    fn finish(self) -> Result<Vec<T>, DumpError> {
        match self.malformed {
            Some(malformed) => Err(malformed.into()),
            None if self.interrupted => Err(DumpError::Interrupted),
            None => Ok(self.rows),
        }
    }
}

/// The error number that ends an answer; zero is success, and so is none at all.
fn status(payload: &[u8]) -> Result<(), DumpError> {
    match u32_at(payload, 0).map_or(0, u32::cast_signed) {
        0 => Ok(()),
        code => Err(DumpError::Kernel(KernelError::from(Errno::from_raw(code.saturating_abs())))),
    }
}

fn encode(kind: u16, flags: u16, payload: &[u8], sequence: u32) -> Vec<u8> {
    let length = u32::try_from(HEADER_LEN + payload.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER_LEN + payload.len());
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(KERNEL.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

/// Takes the next datagram that the kernel sent, if there is one.
fn try_receive(socket: &Socket, buffer: &mut Vec<u8>) -> Option<io::Result<Arrival>> {
    loop {
        buffer.clear();
        match socket.recv_from(buffer, 0) {
            Ok((_, from)) if from.port_number() == KERNEL => return Some(Ok(Arrival::Datagram)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                return Some(Ok(Arrival::Lost));
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Receives the next datagram that the kernel sent.
async fn receive(socket: &TokioSocket, buffer: &mut Vec<u8>) -> io::Result<()> {
    loop {
        buffer.clear();
        let from = poll_fn(|cx| socket.poll_recv_from(cx, buffer)).await?;
        if from.port_number() == KERNEL {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::build::message;

    fn row(message: &Message<'_>) -> Result<Option<u8>, Malformed> {
        match message.payload {
            [0xff, ..] => Err(Malformed("bad row")),
            [row, ..] => Ok(Some(*row)),
            [] => Ok(None),
        }
    }

    fn read(datagrams: &[Vec<u8>]) -> Result<Vec<u8>, DumpError> {
        let mut answer = Answer { sequence: 7, rows: Vec::new(), interrupted: false, malformed: None };
        for datagram in datagrams {
            if answer.take(datagram, row)? {
                return answer.finish();
            }
        }
        panic!("the answer did not end")
    }

    fn done(code: i32) -> Vec<u8> {
        message(NLMSG_DONE, 2, 7, &code.to_ne_bytes())
    }

    #[test]
    fn an_answer_is_all_rows_up_to_its_end_and_none_of_another_request() {
        let foreign = message(16, 2, 6, &[9]);
        let rows = read(&[[message(16, 2, 7, &[1]), foreign].concat(), message(16, 2, 7, &[2]), done(0)]);
        assert_eq!(rows.unwrap(), [1, 2]);
    }

    #[test]
    fn an_interrupted_dump_has_no_result_even_if_it_ends_well() {
        let rows = read(&[message(16, 2 | NLM_F_DUMP_INTR, 7, &[1]), done(0)]);
        assert!(matches!(rows, Err(DumpError::Interrupted)));
        let at_end = message(NLMSG_DONE, 2 | NLM_F_DUMP_INTR, 7, &[0; 4]);
        assert!(matches!(read(&[message(16, 2, 7, &[1]), at_end]), Err(DumpError::Interrupted)));
    }

    #[test]
    fn a_bad_row_spoils_the_answer_but_is_read_to_its_end() {
        let rows = read(&[message(16, 2, 7, &[0xff]), message(16, 2, 7, &[1]), done(0)]);
        assert!(matches!(rows, Err(DumpError::Malformed(Malformed("bad row")))));
    }

    #[test]
    fn the_kernels_refusal_is_typed() {
        let refused = message(NLMSG_ERROR, 0, 7, &(-(Errno::ENODEV as i32)).to_ne_bytes());
        assert!(matches!(read(&[refused]), Err(DumpError::Kernel(KernelError::Absent))));
        assert!(matches!(read(&[done(-1)]), Err(DumpError::Kernel(KernelError::Denied))));
        assert_eq!(read(&[message(NLMSG_ERROR, 0, 7, &[0; 4])]).unwrap(), []);
    }
}
