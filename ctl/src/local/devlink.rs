//! Modes of eswitches, by devlink generic netlink.
//!
//! Source of names and numbers: linux/devlink.h (uapi).

use futures::StreamExt;
use genetlink::{GenetlinkError, GenetlinkHandle, new_connection};
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
    NlasIterator, ParseableParametrized,
};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};

use super::plan::{Eswitch, Eswitches, Mode};

const CMD_GET: u8 = 1;
const CMD_ESWITCH_GET: u8 = 29;
const ATTR_BUS_NAME: u16 = 1;
const ATTR_DEV_NAME: u16 = 2;
const ATTR_ESWITCH_MODE: u16 = 25;
const MODE_LEGACY: u16 = 0;
const MODE_SWITCHDEV: u16 = 1;

/// "No such family", as `CTRL_CMD_GETFAMILY` answers.
const ENOENT: i32 = 2;

/// A devlink message; attributes are kept as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Devlink {
    command: u8,
    attributes: Vec<u8>,
}

impl GenlFamily for Devlink {
    fn family_name() -> &'static str {
        "devlink"
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for Devlink {
    fn buffer_len(&self) -> usize {
        self.attributes.len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        // The caller gives a buffer of `buffer_len`.
        for (to, from) in buffer.iter_mut().zip(&self.attributes) {
            *to = *from;
        }
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Devlink {
    fn parse_with_param(buffer: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        Ok(Self { command: header.cmd, attributes: buffer.to_vec() })
    }
}

/// A devlink device as a request and an answer name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    bus: Option<String>,
    device: Option<String>,
    mode: Option<u16>,
}

/// Reads the attributes of an answer; what is broken or unknown is passed over.
fn told(attributes: &[u8]) -> Told {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        bytes.get(..end).map(|text| String::from_utf8_lossy(text).into_owned())
    };
    let mut told = Told::default();
    for attribute in NlasIterator::new(attributes).map_while(Result::ok) {
        match attribute.kind() {
            ATTR_BUS_NAME => told.bus = text(attribute.value()),
            ATTR_DEV_NAME => told.device = text(attribute.value()),
            ATTR_ESWITCH_MODE => {
                told.mode = attribute.value().first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
            }
            _ => {}
        }
    }
    told
}

fn text_attribute(kind: u16, text: &str) -> DefaultNla {
    DefaultNla::new(kind, text.bytes().chain([0]).collect())
}

/// Every devlink device of this network namespace with its mode.
pub async fn eswitches() -> Eswitches {
    let (connection, mut handle, _messages) = match new_connection() {
        Ok(opened) => opened,
        Err(error) => return Eswitches::Failed(error.to_string()),
    };
    let running = tokio::spawn(connection);
    let found = all(&mut handle).await;
    running.abort();
    match found {
        Ok(devices) => Eswitches::Found(devices),
        Err(GenetlinkError::NetlinkError(error)) if error.raw_os_error() == Some(ENOENT) => {
            Eswitches::NoFamily
        }
        Err(error) => Eswitches::Failed(error.to_string()),
    }
}

async fn all(handle: &mut GenetlinkHandle) -> Result<Vec<Eswitch>, GenetlinkError> {
    let everything = Devlink { command: CMD_GET, attributes: Vec::new() };
    let mut devices = Vec::new();
    for answer in ask(handle, everything, NLM_F_REQUEST | NLM_F_DUMP).await? {
        let Told { bus: Some(bus), device: Some(device), .. } = answer else { continue };
        let mode = mode(handle, &bus, &device).await?;
        devices.push(Eswitch { device: format!("{bus}/{device}"), mode });
    }
    Ok(devices)
}

/// The mode of one device; none if it has no eswitch, which the kernel tells by an error.
async fn mode(handle: &mut GenetlinkHandle, bus: &str, device: &str) -> Result<Option<Mode>, GenetlinkError> {
    let names = [text_attribute(ATTR_BUS_NAME, bus), text_attribute(ATTR_DEV_NAME, device)];
    let mut attributes = vec![0; names.as_slice().buffer_len()];
    names.as_slice().emit(&mut attributes);
    let request = Devlink { command: CMD_ESWITCH_GET, attributes };
    let answers = match ask(handle, request, NLM_F_REQUEST | NLM_F_ACK).await {
        Ok(answers) => answers,
        Err(GenetlinkError::NetlinkError(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(answers.into_iter().find_map(|answer| answer.mode).map(|mode| match mode {
        MODE_LEGACY => Mode::Legacy,
        MODE_SWITCHDEV => Mode::Switchdev,
        other => Mode::Other(other),
    }))
}

async fn ask(
    handle: &mut GenetlinkHandle,
    request: Devlink,
    flags: u16,
) -> Result<Vec<Told>, GenetlinkError> {
    let mut message = NetlinkMessage::from(GenlMessage::from_payload(request));
    message.header.flags = flags;
    let mut answers = handle.request(message).await?;
    let mut all = Vec::new();
    while let Some(answer) = answers.next().await {
        match answer?.payload {
            NetlinkPayload::InnerMessage(message) => all.push(told(&message.payload.attributes)),
            NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_a_cut_one_says_less() {
        let attributes = [
            text_attribute(ATTR_BUS_NAME, "pci"),
            text_attribute(ATTR_DEV_NAME, "0000:03:00.0"),
            DefaultNla::new(77, vec![1, 2, 3]),
            DefaultNla::new(ATTR_ESWITCH_MODE, 1_u16.to_ne_bytes().to_vec()),
        ];
        let mut bytes = vec![0; attributes.as_slice().buffer_len()];
        attributes.as_slice().emit(&mut bytes);
        let whole =
            Told { bus: Some("pci".into()), device: Some("0000:03:00.0".into()), mode: Some(MODE_SWITCHDEV) };
        assert_eq!(told(&bytes), whole);
        assert_eq!(told(&bytes[..10]), Told { bus: Some("pci".into()), ..Told::default() });
        assert_eq!(told(&[]), Told::default());
    }
}
