//! `curl`, which carries one object to or from a server.
//!
//! Guarantees: a URL, which whoever has it may use, is told on standard input and stands in no list of processes; the
//! process ends with the thread that started it; no file in which the user has set curl up counts. A file is sent with
//! its MD5, and a server that got other bytes refuses it. An answer without an end, or one byte at a time, is given up,
//! in memory that is bounded. Deliberately absent: trying again.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use md5::{Digest, Md5};
use tickscope_tick::{base64, printable};

/// Below so many bytes a second for so long, it is given up.
const SLOW_BYTES: u64 = 1024;
const SLOW_SECONDS: &str = if cfg!(test) { "1" } else { "30" };
/// Seconds that any request may take, next to its bytes at [`SLOW_BYTES`].
const MOST_SECONDS: u64 = 600;
/// Bytes of an object that is handed out, and of any other answer: what is longer is none of this.
const MOST_BYTES: [u64; 2] = [256 << 20, 1 << 20];
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
    command.args(["--connect-timeout", CONNECT_SECONDS]);
    command.args(["--speed-limit", &SLOW_BYTES.to_string(), "--speed-time", SLOW_SECONDS]);
    let sent = if let Way::Put(_, _, bytes) = way { bytes } else { 0 };
    command.args(["--max-time", &(MOST_SECONDS + sent / SLOW_BYTES).to_string()]);
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
    let most = MOST_BYTES[usize::from(!matches!(way, Way::Get))];
    Ok(ended(child, most).unwrap_or_else(|e| Carried::Failed(format!("curl: {e}"))))
}

/// How a curl ended, whose answer may have so many bytes.
fn ended(mut child: Child, most: u64) -> std::io::Result<Carried> {
    let mut answer = Vec::new();
    if let Some(out) = child.stdout.take() {
        out.take(most + 1).read_to_end(&mut answer)?;
    }
    let is_longer = answer.len() as u64 > most;
    if is_longer {
        child.kill()?;
    }
    let output = child.wait_with_output()?;
    Ok(match (is_longer, output.status.success()) {
        (true, _) => Carried::Refused(format!("the server's answer has more than {most} bytes")),
        (false, true) => answered(answer),
        (false, false) => Carried::Failed(complaint(&output)),
    })
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
    use std::net::TcpListener;
    use std::time::Duration;

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

    /// The URL of a server that answers one request by `head` and then by `piece` again and again, each after a wait of
    /// so many ms for what nobody sends.
    fn without_an_end(head: &'static str, piece: Vec<u8>, wait_ms: u64) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/x", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1 << 16];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(head.as_bytes());
            if wait_ms > 0 {
                stream.set_read_timeout(Some(Duration::from_millis(wait_ms))).unwrap();
            }
            for _ in 0..if wait_ms > 0 { 40 } else { usize::MAX } {
                let went = stream.write_all(&piece);
                let _ = if wait_ms > 0 { stream.read(&mut request) } else { Ok(0) };
                if went.is_err() {
                    return;
                }
            }
        });
        url
    }

    #[test]
    fn an_answer_without_an_end_is_refused_and_one_that_drips_is_given_up() {
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        let place = Path::new("/proc/self/cmdline");
        for way in [Way::Put(place, "x", 0), Way::Delete] {
            let found = carry(&without_an_end(head, vec![b'x'; 1 << 16], 0), way);
            assert_eq!(found, Ok(Carried::Refused("the server's answer has more than 1048576 bytes".into())));
        }
        let found = carry(&without_an_end(head, b"x".to_vec(), 100), Way::Get);
        assert!(matches!(&found, Ok(Carried::Failed(why)) if why.contains("too slow")), "{found:?}");
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
