use bytes::BufMut;
use serde_json::json;

use super::*;

const STREAM: &str = concat!(
    r#"{"id":1,"result":[{"a":"}{\"]["}],"error":null}"#,
    " \n\t",
    r#"{"method":"echo","params":["\\","é\u0022"],"id":"echo"}"#,
    r#"{"x":{}}"#,
);

fn frames() -> Vec<Value> {
    vec![
        json!({"id": 1, "result": [{"a": "}{\"]["}], "error": null}),
        json!({"method": "echo", "params": ["\\", "é\""], "id": "echo"}),
        json!({"x": {}}),
    ]
}

fn decode(pieces: &[&[u8]]) -> Result<Vec<Value>, DecodeError> {
    let mut decoder = Decoder::new(1 << 20);
    let mut found = Vec::new();
    for piece in pieces {
        decoder.buffer().put_slice(piece);
        while let Some(frame) = decoder.next_frame()? {
            found.push(frame);
        }
    }
    assert!(!decoder.is_mid_frame(), "bytes were left over");
    Ok(found)
}

#[test]
fn frames_are_found_wherever_the_stream_is_cut() {
    let bytes = STREAM.as_bytes();
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(decode(&pieces).unwrap(), frames(), "cut at {first} and {second}");
        }
    }
}

#[test]
fn frames_are_found_when_bytes_arrive_one_by_one() {
    let pieces: Vec<&[u8]> = STREAM.as_bytes().chunks(1).collect();
    assert_eq!(decode(&pieces).unwrap(), frames());
}

#[test]
fn an_incomplete_frame_is_never_taken_for_a_whole_one() {
    let mut decoder = Decoder::new(100);
    decoder.buffer().put_slice(br#"{"a":[1,2"#);
    assert!(decoder.next_frame().unwrap().is_none());
    assert!(decoder.is_mid_frame());
}

#[test]
fn anything_but_an_object_is_refused_with_its_first_byte() {
    for (text, byte) in [("HTTP/1.1 400", b'H'), ("[1]", b'['), ("\u{16}\u{3}", 0x16), ("}", b'}')] {
        let error = decode(&[text.as_bytes()]).unwrap_err();
        assert!(matches!(error, DecodeError::NotAnObject { byte: found } if found == byte), "{error}");
    }
}

#[test]
fn balanced_nonsense_is_a_syntax_error() {
    assert!(matches!(decode(&[b"{nonsense}"]), Err(DecodeError::Syntax(_))));
    assert!(matches!(decode(&[b"{]"]), Err(DecodeError::Syntax(_))));
    assert!(matches!(decode(&[b"{\"a\":\"\xff\"}"]), Err(DecodeError::Syntax(_))));
}

#[test]
fn a_frame_over_the_limit_is_refused_before_it_is_complete() {
    let mut decoder = Decoder::new(16);
    decoder.buffer().put_slice(br#"{"a":"0123456789"#);
    assert!(decoder.next_frame().unwrap().is_none());
    decoder.buffer().put_slice(b"x");
    assert!(matches!(decoder.next_frame(), Err(DecodeError::TooLong { limit: 16 })));
}

#[test]
fn short_frames_that_together_exceed_the_limit_are_fine() {
    let mut decoder = Decoder::new(8);
    decoder.buffer().put_slice(br#"{"x":{}}{"x":{}}{"x":{}}"#);
    for _ in 0..3 {
        assert_eq!(decoder.next_frame().unwrap(), Some(json!({"x": {}})));
    }
    assert_eq!(decoder.next_frame().unwrap(), None);
}
