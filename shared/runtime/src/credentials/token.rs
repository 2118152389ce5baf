//! What a JSON Web Token says about its time. Source: RFC 7519, sections 3 and 4.1.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::Validity;

/// Lifetime of a token that says only when it ends. Source: the default of TokenRequest.
const USUAL: SignedDuration = SignedDuration::from_hours(1);

/// Claims that count, in seconds since 1970 (with fractions, as the RFC allows).
#[derive(Deserialize)]
struct Claims {
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
}

/// When the token is valid; `None` for one of another form, or without an end.
pub(super) fn validity(token: &str) -> Option<Validity> {
    let mut parts = token.trim().split('.');
    let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    let until = timestamp(claims.exp)?;
    let from = claims.nbf.or(claims.iat).and_then(timestamp);
    let from = from.or_else(|| until.checked_sub(USUAL).ok())?;
    Some(Validity { from: from.min(until), until })
}

fn timestamp(seconds: f64) -> Option<Timestamp> {
    Timestamp::from_duration(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2lnbmF0dXJl", URL_SAFE_NO_PAD.encode(claims))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_service_account_token_tells_its_times() {
        let token = token(r#"{"aud":["k"],"exp":7200,"iat":3600,"nbf":3600,"sub":"s"}"#);
        assert_eq!(validity(&token), Some(Validity { from: at(3600), until: at(7200) }));
    }

    #[test]
    fn a_token_that_only_ends_is_taken_for_an_hour_and_fractions_are_understood() {
        assert_eq!(
            validity(&token(r#"{"exp":7200.5}"#)).unwrap().from,
            at(3600) + SignedDuration::from_millis(500)
        );
    }

    #[test]
    fn other_tokens_say_nothing() {
        for text in
            ["", "opaque", "a.b", "a.!.c", &token("{}"), &token(r#"{"exp":1e300}"#), &token(r#"{"exp":"x"}"#)]
        {
            assert_eq!(validity(text), None, "{text}");
        }
    }
}
