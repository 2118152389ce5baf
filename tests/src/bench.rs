//! Measures on real parts. Each writes one file into `target/bench/` and says whether its goals hold.
//!
//! | Module | Measures | What |
//! |---|---|---|
//! | [`react`] | `react_*` | from a changed fact to the API server |
//! | [`kernel`] | `react_kernel_*` | from a change that only a whole kernel has to an agent's decision |
//! | [`uplink`] | `uplink_*`, `last_state_*` | from an Uplink or its last state to its condition, and what that costs |
//! | [`networks`] | `networks_*` | what tenant networks cost: one, many at once, on many nodes, in many namespaces, a restart |
//! | [`burst`] | `burst_*` | a thousand states that change at once |
//! | [`isolation`] | `isolation_*`, `memory_isolation_*` | from a pod's annotation to the node's nftables, and what that costs |
//! | [`rest`] | `idle_*`, `memory_*`, `restart_*`, `start_*` | what programs cost when nothing happens, and a start |
//! | [`topology`] | `topology_*` | networks in OVN's Northbound database |
//! | [`management`] | `management_*` | from a network to its management port, and a restart with many |
//! | [`footprint`] | `binary_*`, `memory_*` | sizes, and memory where there is much |
//!
//! [`measure`] is the form of a result, [`session`] one run. [`stage`] and [`crowd`] are what is measured on. [`hand`] and
//! [`switch`] change facts without a program in between; [`probe`], [`process`], [`audit`] and [`journal`] count.

pub mod audit;
pub mod burst;
pub mod crowd;
pub mod footprint;
pub mod hand;
pub mod isolation;
pub mod journal;
pub mod kernel;
pub mod management;
pub mod measure;
pub mod networks;
pub mod probe;
pub mod process;
pub mod react;
pub mod rest;
pub mod session;
pub mod stage;
pub mod switch;
pub mod topology;
pub mod uplink;
