//! HTTP/1.1 (RFC 9112), as far as a POST and its response need it.

use crate::frames::Wrapped;

/// The longest head of a response.
const MOST_HEAD_BYTES: usize = 64 << 10;

/// A request that posts a tuple.
pub(crate) fn request(address: &str, path: &str, tuple: &[u8]) -> Wrapped {
    let length = tuple.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/octet-stream\r\nContent-Length: \
         {length}\r\n\r\n"
    );
    Wrapped { head: head.into_bytes(), tail: Vec::new() }
}

/// The response that bytes begin with: how long it is, and whether it says that all went well (2xx); `None`: it is not
/// whole yet.
pub(crate) fn response(bytes: &[u8]) -> Result<Option<(usize, bool)>, String> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        let long = format!(
            "expected the head of a response within {MOST_HEAD_BYTES} bytes, found none. Check what listens there"
        );
        return if bytes.len() > MOST_HEAD_BYTES { Err(long) } else { Ok(None) };
    };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|code| code.parse().ok());
    let Some(status @ 100..=599_u16) = status else {
        return Err(format!(
            "expected the status of a response of HTTP/1.1, found '{first}'. Check what listens there"
        ));
    };
    let of = |wanted: &str| {
        let mut headers = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim().to_owned())
    };
    let bodiless = status < 200 || status == 204 || status == 304;
    let length = match (of("content-length").map(|text| text.parse::<usize>()), of("transfer-encoding")) {
        (_, Some(coding)) if !bodiless => {
            return Err(format!(
                "expected a response with Content-Length, found the transfer coding {coding}. Have the target answer \
                 at once"
            ));
        }
        _ if bodiless => 0,
        (Some(Ok(length)), _) => length,
        _ => return Err(
            "expected a response with Content-Length, found one without. Have the target say it, or answer with 204"
                .into(),
        ),
    };
    let whole = end.saturating_add(4).saturating_add(length);
    if bytes.len() < whole {
        return Ok(None);
    }
    // An interim response is none: the final one follows.
    if status < 200 {
        return Ok(response(&bytes[whole..])?.map(|(more, well)| (whole + more, well)));
    }
    Ok(Some((whole, (200..300).contains(&status))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_ends_where_its_length_says() {
        let ok = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 3\r\n\r\nabcHTTP/1.1 200";
        assert_eq!(response(ok), Ok(Some((41, true))));
        for cut in 0..41 {
            assert_eq!(response(&ok[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(response(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"), Ok(Some((38, false))));
        assert_eq!(response(b"HTTP/1.0 204 No\r\n\r\n"), Ok(Some((19, true))));
        assert_eq!(response(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n"), Ok(Some((25 + 19, true))));
    }

    #[test]
    fn what_cannot_be_told_apart_is_refused() {
        for (bytes, words) in [
            (&b"SMTP/1.1 200 OK\r\n\r\n"[..], "status"),
            (b"HTTP/1.1 999 OK\r\n\r\n", "status"),
            (b"HTTP/1.1 200 OK\r\n\r\n", "Content-Length"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "Content-Length"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "chunked"),
        ] {
            assert!(response(bytes).unwrap_err().contains(words));
        }
        assert!(response(&vec![b'x'; MOST_HEAD_BYTES + 1]).is_err());
        assert!(response(b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n") == Ok(None));
    }
}
