//! What `phys_port_name` says.

/// A port of a switchdev card, told by its `phys_port_name`. The controller is absent in names that drivers of old
/// kernels give, and in names of functions on the switch's own host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortName {
    /// `p0`: the wire.
    Physical(u32),
    /// `pf0`, `c1pf0`: a physical function.
    Pf {
        /// Controller that has the function.
        controller: Option<u32>,
        /// Number of the physical function.
        pf: u32,
    },
    /// `pf0vf7`, `c1pf0vf7`: a virtual function.
    Vf {
        /// Controller that has the function.
        controller: Option<u32>,
        /// Number of the physical function.
        pf: u32,
        /// Number of the virtual function on it.
        vf: u32,
    },
    /// `pf0sf88`, `c1pf0sf88`: a subfunction.
    Sf {
        /// Controller that has the function.
        controller: Option<u32>,
        /// Number of the physical function.
        pf: u32,
        /// Number of the subfunction on it.
        sf: u32,
    },
}

impl PortName {
    /// Reads a `phys_port_name`; `None` for any other form, split ports (`p0s1`) among them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (controller, rest) = match text.strip_prefix('c') {
            Some(rest) => {
                let (controller, rest) = number(rest)?;
                (Some(controller), rest)
            }
            None => (None, text),
        };
        if let Some(rest) = rest.strip_prefix("pf") {
            let (pf, rest) = number(rest)?;
            if rest.is_empty() {
                return Some(Self::Pf { controller, pf });
            }
            let (kind, rest) = rest.split_at_checked(2)?;
            return match (kind, number(rest)?) {
                ("vf", (vf, "")) => Some(Self::Vf { controller, pf, vf }),
                ("sf", (sf, "")) => Some(Self::Sf { controller, pf, sf }),
                _ => None,
            };
        }
        match (controller, number(rest.strip_prefix('p')?)?) {
            (None, (port, "")) => Some(Self::Physical(port)),
            _ => None,
        }
    }
}

/// Leading decimal number and what follows it.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_form_is_told_from_the_others() {
        let c1 = Some(1);
        for (text, want) in [
            ("p0", Some(PortName::Physical(0))),
            ("p12", Some(PortName::Physical(12))),
            ("pf0", Some(PortName::Pf { controller: None, pf: 0 })),
            ("c1pf0", Some(PortName::Pf { controller: c1, pf: 0 })),
            ("pf0vf7", Some(PortName::Vf { controller: None, pf: 0, vf: 7 })),
            ("c1pf0vf7", Some(PortName::Vf { controller: c1, pf: 0, vf: 7 })),
            ("c2pf0vf0", Some(PortName::Vf { controller: Some(2), pf: 0, vf: 0 })),
            ("c1pf2vf0", Some(PortName::Vf { controller: c1, pf: 2, vf: 0 })),
            ("pf0sf88", Some(PortName::Sf { controller: None, pf: 0, sf: 88 })),
            ("c1pf0sf88", Some(PortName::Sf { controller: c1, pf: 0, sf: 88 })),
            ("c1p0", None),
            ("p0s1", None),
            ("pf0vf7x", None),
            ("pf0vf", None),
            ("pfvf7", None),
            ("cpf0", None),
            ("pf0xf7", None),
            ("p+1", None),
            ("p", None),
            ("", None),
            ("p99999999999", None),
            (" p0", None),
        ] {
            assert_eq!(PortName::parse(text), want, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[cpfvs0-9é]{0,12}") {
            if let Some(PortName::Physical(port)) = PortName::parse(&text) {
                prop_assert!(text.ends_with(&port.to_string()));
            }
        }
    }
}
