//! When an X.509 certificate is valid. Only as much of DER is read as leads there. Source: RFC 5280, section 4.1; X.690,
//! section 8.1.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::Validity;

/// Tags of what is read.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When the first certificate in a PEM text is valid; `None` if it cannot be read.
pub(super) fn validity(pem: &[u8]) -> Option<Validity> {
    of_der(CertificateDer::from_pem_slice(pem).ok()?.as_ref())
}

fn of_der(der: &[u8]) -> Option<Validity> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = any(rest)?.2;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        rest = any(rest)?.2;
    }
    let (validity, _) = element(rest, SEQUENCE)?;
    let (from_tag, from, rest) = any(validity)?;
    let (until_tag, until, _) = any(rest)?;
    Some(Validity { from: time(from_tag, from)?, until: time(until_tag, until)? })
}

/// Content of an element with this tag, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    any(bytes).filter(|found| found.0 == tag).map(|(_, content, rest)| (content, rest))
}

/// Tag and content of the first element, and what follows it.
fn any(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, bytes) = bytes.split_first()?;
    let (length, bytes) = match first {
        ..=0x7f => (usize::from(first), bytes),
        0x81..=0x84 => {
            let (digits, rest) = bytes.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        // A length that is not given is not DER; one of more than four bytes is no certificate.
        0x80 | 0x85.. => return None,
    };
    let (content, rest) = bytes.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i16 = year.parse().ok()?;
            // Source: RFC 5280, section 4.1.2.5.1.
            (if year >= 50 { 1900 + year } else { 2000 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let mut rest = rest;
    let mut numbers = [0_i8; 5];
    for number in &mut numbers {
        let (digits, more) = rest.split_at_checked(2)?;
        *number = digits.parse().ok()?;
        rest = more;
    }
    let [month, day, hour, minute, second] = numbers;
    let valid = rest.is_empty() && (1..=12).contains(&month) && (1..=31).contains(&day);
    let valid = valid && (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    if !valid || !(0..=9999).contains(&year) {
        return None;
    }
    let civil = jiff::civil::DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any as anything, prop_assert, proptest};

    use super::*;

    /// PEM of a certificate with these first and last years.
    fn certificate(from: i32, until: i32) -> String {
        let mut parameters = rcgen::CertificateParams::new(vec!["card".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(from, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(until, 1, 1);
        parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn a_certificate_tells_its_times() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        // From 2050 on, another form of time is used.
        for (from, until) in [(2026, 2027), (1999, 2049), (2026, 2050)] {
            let want = Validity {
                from: at(&format!("{from}-01-01T00:00:00Z")),
                until: at(&format!("{until}-01-01T00:00:00Z")),
            };
            assert_eq!(validity(certificate(from, until).as_bytes()), Some(want));
        }
        assert_eq!(validity(b"no certificate"), None);
    }

    #[test]
    fn both_forms_of_time_are_read() {
        let at = |text: &str| text.parse::<Timestamp>().ok();
        assert_eq!(time(UTC_TIME, b"491231235959Z"), at("2049-12-31T23:59:59Z"));
        assert_eq!(time(UTC_TIME, b"500101000000Z"), at("1950-01-01T00:00:00Z"));
        assert_eq!(time(GENERALIZED_TIME, b"20500101000000Z"), at("2050-01-01T00:00:00Z"));
        for bad in ["", "Z", "20501301000000Z", "2050010100000Z", "20500101000000", "20500230000000Z"] {
            assert_eq!(time(GENERALIZED_TIME, bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn damaged_certificates_are_read_or_refused_without_a_panic(
            cut in 0_usize..400,
            damage in proptest::collection::vec((0_usize..400, anything::<u8>()), 0..4),
        ) {
            static WHOLE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
                CertificateDer::from_pem_slice(certificate(2026, 2027).as_bytes()).unwrap().to_vec()
            });
            let mut der = WHOLE.clone();
            der.truncate(cut);
            for (place, byte) in damage {
                if let Some(target) = der.get_mut(place) {
                    *target = byte;
                }
            }
            let cut_off = der.len() < WHOLE.len();
            // The outermost length covers everything, unless it was what got damaged.
            let intact = der.get(..4) == WHOLE.get(..4);
            prop_assert!(!(cut_off && intact && of_der(&der).is_some()));
        }
    }
}
