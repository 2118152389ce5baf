//! Ports of devlink devices: what a switchdev card says about its representors.

mod decode;
mod model;
mod table;

pub(crate) use decode::{
    CONTROL_FAMILY, CTRL_CMD_NEWFAMILY, DEVLINK_CMD_PORT_DEL, DEVLINK_CMD_PORT_GET, DEVLINK_CMD_PORT_NEW,
    DevlinkFamily, decode, family, family_request,
};
pub use model::{DevlinkPort, DevlinkPortId, PortFlavour, PortFunction, PortNetdev};
pub use table::DevlinkPorts;
