//! `curl`, which carries one object to or from a server.
//!
//! Guarantees: a URL, which whoever has it may use, is told on standard input and stands in no list of processes; the
//! process ends with the thread that started it; no file in which the user has set curl up counts. A file is sent with
//! its MD5, and a server that got other bytes refuses it. Deliberately absent: trying again.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use md5::{Digest, Md5};
use tickscope_tick::{base64, printable};

/// Without a byte for so long, it is given up.
const SILENT_SECONDS: &str = "30";
const CONNECT_SECONDS: &str = "20";

/// A request to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way<'a> {
    /// Put the file at this place, of this MD5 and so many bytes.
    Put(&'a Path, &'a str, u64),
    /// Hand the object out.
    Get,
    /// Tell of the object.
    Head,
    /// Forget the object.
    Delete,
}

impl Way<'_> {
    pub fn method(self) -> &'static str {
        match self {
            Self::Put(..) => "PUT",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Delete => "DELETE",
        }
    }

    /// The verb of a message, before an address.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Put(..) => "write",
            Self::Get | Self::Head => "read",
            Self::Delete => "remove",
        }
    }
}

/// How a request went.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Carried {
    /// Well; the body of the answer, or of [`Way::Head`] its headers.
    Done(Vec<u8>),
    /// There is no such object.
    None,
    /// It may go well later.
    Failed(String),
    /// It will not.
    Refused(String),
}

/// Refuses a machine without curl, or with one that does not work.
pub(crate) fn expect_curl() -> Result<(), String> {
    expect_working("curl")
}

fn expect_working(program: &str) -> Result<(), String> {
    let mut command = Command::new(program);
    let output =
        command.args(["--disable", "--version"]).stdin(Stdio::null()).output().map_err(|e| cannot_start(&e))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "[storage] expected a curl that works, found: {}. Install it there again, or leave [storage] out",
            printable(&complaint(&output))
        )),
    }
}

fn cannot_start(error: &std::io::Error) -> String {
    format!("[storage] needs curl, which cannot be started: {error}; install it there, or leave [storage] out")
}

/// MD5 of a file, as the header `Content-MD5` has it; `also` gets its bytes.
pub(crate) fn md5_of(file: &mut File, mut also: impl FnMut(&[u8])) -> std::io::Result<String> {
    let (mut digest, mut piece) = (Md5::new(), vec![0; 1 << 18]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(base64(&digest.finalize())),
            length => {
                digest.update(&piece[..length]);
                also(&piece[..length]);
            }
        }
    }
}

/// Carries an object. `Err`: there is no curl.
pub(crate) fn carry(url: &str, way: Way<'_>) -> Result<Carried, String> {
    let mut command = Command::new("curl");
    command.args([
        "--disable",
        "--config",
        "-",
        "--globoff",
        "--silent",
        "--show-error",
        "--write-out",
        "\n%{http_code}",
    ]);
    command.args(["--connect-timeout", CONNECT_SECONDS, "--speed-limit", "1", "--speed-time", SILENT_SECONDS]);
    match way {
        Way::Put(place, md5, _) => command
            .args(["--header", "Expect:", "--header", &format!("Content-MD5: {md5}"), "--upload-file"])
            .arg(place),
        Way::Get => &mut command,
        Way::Head => command.arg("--head"),
        Way::Delete => command.args(["--request", "DELETE"]),
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: a plain system call. What is under way when this process is killed ends with it.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    };
    let mut child = command.spawn().map_err(|e| cannot_start(&e))?;
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(format!("url = \"{url}\"\n").as_bytes()); // one that ended says why
    }
    let output = match child.wait_with_output() {
        Ok(output) => output,
        Err(e) => return Ok(Carried::Failed(format!("curl: {e}"))),
    };
    if !output.status.success() {
        return Ok(Carried::Failed(complaint(&output)));
    }
    Ok(answered(output.stdout))
}

/// Puts a file (its place, MD5 and bytes) by the first URL, and asks by the second whether the object is there whole:
/// an answer alone may be another's, as a proxy's. `Err`: there is no curl.
pub(crate) fn put(urls: &[String; 2], place: &Path, md5: &str, bytes: u64) -> Result<Carried, String> {
    let sent = carry(&urls[0], Way::Put(place, md5, bytes))?;
    if !matches!(sent, Carried::Done(_)) {
        return Ok(sent);
    }
    let has = |what: &str| format!("the server answered that it has it, and has {what} of {bytes} bytes");
    Ok(match carry(&urls[1], Way::Head)? {
        Carried::Done(head) if bytes_of(&head) == Some(bytes) => Carried::Done(Vec::new()),
        Carried::Done(head) => {
            Carried::Failed(has(&bytes_of(&head).map_or("an unknown number".into(), |of| of.to_string())))
        }
        Carried::None => Carried::Failed(has("none")),
        other => other,
    })
}

/// `Content-Length` of the last answer of several, as of a proxy and then the server.
fn bytes_of(head: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(head);
    let mut lengths = text.lines().filter_map(|line| line.split_once(':'));
    let length = lengths.rfind(|(name, _)| name.eq_ignore_ascii_case("content-length"))?.1;
    length.trim().parse().ok()
}

/// The words of a curl that failed, or how it ended.
fn complaint(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.is_empty() { format!("curl ended with {}", output.status) } else { said }
}

/// How it went, by what the server answered: a body, and below it the code.
fn answered(mut body: Vec<u8>) -> Carried {
    let line = body.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    let code = String::from_utf8_lossy(&body.split_off(line)).trim().to_owned();
    let text = String::from_utf8_lossy(&body);
    let element = |name: &str| Some(text.split_once(&format!("<{name}>"))?.1.split_once('<')?.0.to_owned());
    let word = element("Code");
    let why = || match (&word, element("Message")) {
        (Some(word), Some(message)) => format!("the server answered {code}, {word}: {message}"),
        (Some(word), None) => format!("the server answered {code}, {word}"),
        _ => format!("the server answered {code}"),
    };
    match (code.as_str(), word.as_deref()) {
        ("200" | "201" | "204", _) => Carried::Done(body),
        ("404", Some("NoSuchKey") | None) => Carried::None,
        // Bytes that were changed on the way, and clocks and limits that let the next attempt in.
        (_, Some("BadDigest" | "RequestTimeout" | "SlowDown")) => Carried::Failed(why()),
        (code, _) if code.starts_with('5') || matches!(code, "408" | "429" | "000") => Carried::Failed(why()),
        _ => Carried::Refused(why()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curl_that_starts_and_fails_is_none_that_works() {
        assert_eq!(expect_working("true"), Ok(()));
        let why = expect_working("false").unwrap_err();
        assert!(why.contains("expected a curl that works, found: curl ended with exit status: 1."), "{why}");
        let why = expect_working("ls").unwrap_err(); // it knows no such option
        assert!(why.contains("found: ls: ") && why.contains("--disable"), "{why}");
        assert!(expect_working("/none/curl").unwrap_err().contains("which cannot be started: No such file"));
    }

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        let of = |body: &str, code: u16| answered(format!("{body}\n{code}").into_bytes());
        let xml =
            |code: &str| format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>m</Message></Error>");
        assert_eq!(of("a\nb\n", 200), Carried::Done("a\nb\n".into()));
        assert_eq!(of("", 204), Carried::Done(Vec::new()));
        assert_eq!((of("", 404), of(&xml("NoSuchKey"), 404)), (Carried::None, Carried::None));
        let why = |code: u16, word: &str| format!("the server answered {code}, {word}: m");
        for (code, word) in [(503, "SlowDown"), (500, "InternalError"), (400, "BadDigest"), (400, "RequestTimeout")] {
            assert_eq!(of(&xml(word), code), Carried::Failed(why(code, word)));
        }
        for (code, word) in [(403, "SignatureDoesNotMatch"), (404, "NoSuchBucket"), (301, "PermanentRedirect")] {
            assert_eq!(of(&xml(word), code), Carried::Refused(why(code, word)));
        }
        assert_eq!(of("", 403), Carried::Refused("the server answered 403".into()));
        assert_eq!(of("", 429), Carried::Failed("the server answered 429".into()));
    }
}
