//! Facts of the wire on real links: each hop's state, MTU and VLAN, and addresses that somebody else has. What breaks is
//! told in the conditions of the side that sees it, or of both, and never in what discovery says.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use causeway_api::uplink_state::{LinkReason, UplinkState};
use causeway_rig::wait_object;
use causeway_tests::blue;
use causeway_tests::states::{DEADLINE, message, verdict};

use crate::facts::{Act, Subject};
use crate::world::World;

/// One fact of the wire.
pub(crate) struct Case {
    /// A sentence of behaviour.
    pub(crate) name: &'static str,
    subject: Subject,
    steps: &'static [Step],
}

/// A change, and what is said afterwards.
struct Step {
    act: Act,
    says: &'static [Said],
}

/// Type, `Status/Reason` and message of a condition.
type Said = (&'static str, &'static str, &'static str);

const HOST: &str = "HostLinkConsistent";
const OWN: &str = "LinkConsistent";

const HOST_FITS: Said = (HOST, "True/LinkConsistent", "host interface eth0-16: mtu=1500");
const CARD_FITS: Said = (OWN, "True/LinkConsistent", "host port rep0-16: mtu=1500");
const NODE_FITS: Said = (OWN, "True/LinkConsistent", "host interface ovsbr1: mtu=1500");

/// The cases.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "another_mtu_on_the_host_is_told_on_both_sides_and_heals_on_both",
        subject: Subject::Card,
        steps: &[
            Step {
                act: Act::Host("ip link set eth0-16 mtu 1400"),
                says: &[
                    (
                        HOST,
                        "False/MTUMismatch",
                        "host interface eth0-16: mtu=1400: the card's port has MTU 1500; set both to the same",
                    ),
                    (
                        OWN,
                        "False/MTUMismatch",
                        "host port rep0-16: mtu=1500: the host's interface has MTU 1400; set both to the same",
                    ),
                ],
            },
            Step { act: Act::Host("ip link set eth0-16 mtu 1500"), says: &[HOST_FITS, CARD_FITS] },
        ],
    },
    Case {
        // Asked for on the bridge, whose MTU Open vSwitch would make the smallest of its ports otherwise.
        name: "another_mtu_of_the_cards_port_is_told_on_both_sides_and_heals_on_both",
        subject: Subject::Card,
        steps: &[
            Step {
                act: Act::Card(
                    "ovs-vsctl --timeout=30 set Interface br-tenant mtu_request=1500; ip link set rep0-16 mtu 1400",
                ),
                says: &[
                    (
                        HOST,
                        "False/MTUMismatch",
                        "host interface eth0-16: mtu=1500: the card's port has MTU 1400; set both to the same",
                    ),
                    (
                        OWN,
                        "False/MTUMismatch",
                        "host port rep0-16: mtu=1400: bridge br-tenant has MTU 1500; set both to the same",
                    ),
                ],
            },
            Step { act: Act::Card("ip link set rep0-16 mtu 1500"), says: &[HOST_FITS, CARD_FITS] },
        ],
    },
    Case {
        name: "another_mtu_of_the_cards_bridge_or_wire_is_told_by_the_card_alone",
        subject: Subject::Card,
        steps: &[
            Step {
                act: Act::Card("ovs-vsctl --timeout=30 set Interface br-tenant mtu_request=1400"),
                says: &[
                    HOST_FITS,
                    (
                        OWN,
                        "False/MTUMismatch",
                        "host port rep0-16: mtu=1500: bridge br-tenant has MTU 1400; set both to the same",
                    ),
                ],
            },
            Step {
                act: Act::Card(
                    "ovs-vsctl --timeout=30 set Interface br-tenant mtu_request=1500; ip link set p0 mtu 1400",
                ),
                says: &[
                    HOST_FITS,
                    (
                        OWN,
                        "False/MTUMismatch",
                        "host port rep0-16: mtu=1500: physical uplink p0 has MTU 1400; set both to the same",
                    ),
                ],
            },
            Step {
                act: Act::Card(
                    "ip link set p0 mtu 1500; ovs-vsctl remove Interface br-tenant mtu_request 1500",
                ),
                says: &[HOST_FITS, CARD_FITS],
            },
        ],
    },
    Case {
        name: "another_mtu_of_a_regular_nodes_wire_is_told",
        subject: Subject::Regular,
        steps: &[
            Step {
                act: Act::Regular(
                    "ovs-vsctl --timeout=30 set Interface ovsbr1 mtu_request=1500; ip link set eth1 mtu 1400",
                ),
                says: &[(
                    OWN,
                    "False/MTUMismatch",
                    "host interface ovsbr1: mtu=1500: physical uplink eth1 has MTU 1400; set both to the same",
                )],
            },
            Step {
                act: Act::Regular(
                    "ip link set eth1 mtu 1500; ovs-vsctl remove Interface ovsbr1 mtu_request 1500",
                ),
                says: &[NODE_FITS],
            },
        ],
    },
    Case {
        name: "a_link_that_is_down_is_told_by_the_side_that_sees_it",
        subject: Subject::Card,
        steps: &[
            Step {
                act: Act::Card("ip link set br-tenant down"),
                says: &[
                    HOST_FITS,
                    (
                        OWN,
                        "False/LinkDown",
                        "host port rep0-16: mtu=1500: bridge br-tenant is down; set it up",
                    ),
                ],
            },
            Step {
                act: Act::Card("ip link set br-tenant up; ip link set rep0-16 down"),
                says: &[
                    (
                        HOST,
                        "False/LinkDown",
                        "host interface eth0-16: mtu=1500: host interface eth0-16 has no carrier; check its other end",
                    ),
                    (
                        OWN,
                        "False/LinkDown",
                        "host port rep0-16: mtu=1500: host port rep0-16 is down; set it up",
                    ),
                ],
            },
            Step { act: Act::Card("ip link set rep0-16 up"), says: &[HOST_FITS, CARD_FITS] },
        ],
    },
    Case {
        name: "a_vlan_that_the_wire_does_not_carry_is_told_until_tags_or_trunks_fit",
        subject: Subject::Card,
        steps: &[
            Step {
                act: Act::Card("ovs-vsctl set Port rep0-16 tag=100 -- set Port p0 tag=200"),
                says: &[
                    HOST_FITS,
                    (
                        OWN,
                        "False/VLANMismatch",
                        "host port rep0-16: mtu=1500: port rep0-16 is in VLAN 100, which physical uplink p0 (VLAN 200) \
                         does not carry",
                    ),
                ],
            },
            Step { act: Act::Card("ovs-vsctl set Port p0 tag=100"), says: &[CARD_FITS] },
            Step {
                act: Act::Card("ovs-vsctl clear Port p0 tag -- set Port p0 trunks=[200,300]"),
                says: &[(
                    OWN,
                    "False/VLANMismatch",
                    "host port rep0-16: mtu=1500: port rep0-16 is in VLAN 100, which physical uplink p0 (no VLAN, trunks \
                     [200, 300]) does not carry",
                )],
            },
            Step { act: Act::Card("ovs-vsctl add Port p0 trunks 100"), says: &[CARD_FITS] },
            Step {
                act: Act::Card("ovs-vsctl clear Port rep0-16 tag -- clear Port p0 trunks"),
                says: &[HOST_FITS, CARD_FITS],
            },
        ],
    },
    Case {
        name: "an_address_that_somebody_else_has_is_told_until_it_goes",
        subject: Subject::Card,
        steps: &[
            Step {
                // The card's end of the pair answers for the address, as any machine on the link would.
                act: Act::Card("ip addr add fd00:31::10/64 dev rep0-16 nodad"),
                says: &[HOST_FITS, CARD_FITS],
            },
            Step {
                act: Act::Host("ip addr add fd00:31::10/64 dev eth0-16"),
                says: &[
                    (
                        HOST,
                        "False/DuplicateAddress",
                        "host interface eth0-16: mtu=1500: address fd00:31::10/64 is also in use elsewhere on the link; \
                         remove one of the two",
                    ),
                    CARD_FITS,
                ],
            },
            Step { act: Act::Host("ip addr del fd00:31::10/64 dev eth0-16"), says: &[HOST_FITS, CARD_FITS] },
            Step { act: Act::Card("ip addr del fd00:31::10/64 dev rep0-16"), says: &[HOST_FITS, CARD_FITS] },
        ],
    },
    Case {
        name: "an_address_that_is_still_checked_is_told_until_it_is_settled",
        subject: Subject::Regular,
        steps: &[
            Step {
                // As many probes, one a second, as keep it tentative while anybody looks.
                act: Act::Regular(
                    "echo 600 > /proc/sys/net/ipv6/conf/ovsbr1/dad_transmits; ip addr add fd00:28::2/64 dev ovsbr1",
                ),
                says: &[(
                    OWN,
                    "False/AddressTentative",
                    "host interface ovsbr1: mtu=1500: address fd00:28::2/64 is still being checked for a duplicate",
                )],
            },
            Step {
                act: Act::Regular(
                    "echo 1 > /proc/sys/net/ipv6/conf/ovsbr1/dad_transmits; ip addr del fd00:28::2/64 dev ovsbr1\n\
                     ip addr add fd00:28::2/64 dev ovsbr1",
                ),
                says: &[NODE_FITS],
            },
            Step { act: Act::Regular("ip addr del fd00:28::2/64 dev ovsbr1"), says: &[NODE_FITS] },
        ],
    },
];

impl Case {
    /// Step by step; discovery says the same all the time.
    pub(crate) async fn run(&self, world: &World) -> anyhow::Result<()> {
        let (state, fits): (_, &[Said]) = match self.subject {
            Subject::Card | Subject::OnHost(_) => (blue::STATE_A, &[HOST_FITS, CARD_FITS]),
            Subject::Regular | Subject::OnRegular(_) => (blue::STATE_B, &[NODE_FITS]),
        };
        are_said(world, state, fits).await.context("before anything happens")?;
        for (number, step) in self.steps.iter().enumerate() {
            step.act.happen(world, self.subject).await?;
            let found = are_said(world, state, step.says).await.with_context(|| format!("step {number}"))?;
            let resolved = verdict(found.conditions(), "Resolved");
            ensure!(
                resolved == "True/Resolved",
                "step {number}: the wire changed what discovery says: {resolved}"
            );
        }
        are_said(world, state, fits).await.map(drop).context("after everything was put right")
    }
}

/// Waits until both states say that everything fits.
pub(crate) async fn fits(world: &World) -> anyhow::Result<()> {
    are_said(world, blue::STATE_A, &[HOST_FITS, CARD_FITS]).await?;
    are_said(world, blue::STATE_B, &[NODE_FITS]).await.map(drop)
}

async fn are_said(world: &World, state: &str, says: &[Said]) -> anyhow::Result<UplinkState> {
    let are_said = |state: &UplinkState| {
        says.iter().all(|(type_, want, text)| {
            verdict(state.conditions(), type_) == *want && message(state.conditions(), type_) == *text
        })
    };
    let what =
        || says.iter().map(|(type_, want, text)| format!("{type_}={want}: {text}")).collect::<Vec<_>>();
    let accept = |state: Option<&UplinkState>| state.is_some_and(are_said);
    let found = wait_object(world.states(), state, &what().join(" and "), DEADLINE, accept).await?;
    found.context("the state is gone")
}

/// Every reason that can be said of the wire stands in a case.
pub(crate) fn all_reasons_are_cases() -> anyhow::Result<()> {
    let said: BTreeSet<&str> = CASES
        .iter()
        .flat_map(|case| case.steps)
        .flat_map(|step| step.says)
        .filter_map(|(_, verdict, _)| verdict.split_once('/'))
        .map(|(_, reason)| reason)
        .collect();
    let all: BTreeSet<&str> = LinkReason::ALL.iter().map(|reason| reason.as_str()).collect();
    ensure!(said == all, "without a case: {:?}", all.symmetric_difference(&said).collect::<Vec<_>>());
    Ok(())
}
