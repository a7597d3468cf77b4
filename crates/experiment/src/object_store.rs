//! A run's place in object storage that speaks S3: its address, and URLs that are good for one object each.
//!
//! Idea: whoever has the keys signs a URL (AWS Signature Version 4, in the query), and whoever has the bytes puts them
//! there. So the conductor alone has keys, nodes have a URL for each of their segments, and no segment passes through
//! the conductor. `curl` carries the bytes: its TLS, certificates and proxies are those of the machine. Assumes: an
//! object is there whole or not at all, as S3 has it. Guarantees: keys come from the environment and are in no run, no
//! argument and no message; what storage does not take or hand out is an error with its address, after a bounded number
//! of attempts. Deliberately absent: listing, objects in parts, and so files above [`OBJECT_MOST_BYTES`].

mod curl;
mod upload;

use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use tickscope_store::{Manifest, utc};
use tickscope_tick::{counted, printable};

use crate::Error;
use crate::interrupt;
use crate::notice;
pub(crate) use curl::{Carried, expect_curl, md5_of, put};
use curl::{Way, carry};

/// Bytes of one object that is put at once: what S3 takes.
pub(crate) const OBJECT_MOST_BYTES: u64 = 5 << 30;
/// How long a URL is good.
const SIGNED_SECONDS: u32 = 3600;
/// How often something is tried, and the first pause after a failure; each is twice the one before.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Where the files of a run go.
#[derive(Clone)]
pub struct RunPlace {
    /// The run's directory, which gets the files of a node elsewhere.
    pub root: PathBuf,
    /// The place that gets the segments of its programs; `None`: the directory does.
    pub(crate) store: Option<ObjectStore>,
}

/// The folder of one run.
#[derive(Clone)]
pub(crate) struct ObjectStore {
    /// Address of the run in storage, as a user writes it: `s3://BUCKET/FOLDER/RUN`.
    address: String,
    /// Scheme, and host with its port.
    origin: (String, String),
    /// Its path at that host, encoded.
    base: String,
    region: String,
    keys: Keys,
    /// How many attempts failed before one went well, and why the last of them did.
    failures: Arc<Mutex<(u64, String)>>,
}

/// Variables of the environment with the keys.
pub(crate) const KEYS: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// Keys that sign.
#[derive(Clone)]
struct Keys {
    id: String,
    secret: String,
    token: Option<String>,
}

impl ObjectStore {
    /// The place of an address `s3://BUCKET/FOLDER`, with what the environment says of keys and server.
    pub fn of(address: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let (bucket, folder) = parts(address).map_err(Error::input)?;
        let set = |names: &[&str]| names.iter().find_map(|name| variable(name)).filter(|value| !value.is_empty());
        let needed = |name: &str| {
            set(&[name]).ok_or_else(|| {
                Error::input(format!("[storage] expected a key in {name}, found none. Set it in the environment"))
            })
        };
        let keys = Keys { id: needed(KEYS[0])?, secret: needed(KEYS[1])?, token: set(&[KEYS[2]]) };
        let region = set(&["AWS_REGION", "AWS_DEFAULT_REGION"]).unwrap_or_else(|| "us-east-1".into());
        let endpoint = set(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
        let (scheme, host, path) = match &endpoint {
            Some(url) => server(url)?,
            // A certificate is for one name below the vendor's.
            None if bucket.contains('.') => ("https", format!("s3.{region}.amazonaws.com"), String::new()),
            None => ("https", format!("{bucket}.s3.{region}.amazonaws.com"), String::new()),
        };
        let bucket = if endpoint.is_some() || bucket.contains('.') { format!("/{bucket}") } else { String::new() };
        let base = format!("{path}{bucket}/{}", encoded(folder, "/"));
        Ok(Self {
            address: address.into(),
            origin: (scheme.into(), host),
            base,
            region,
            keys,
            failures: Arc::default(),
        })
    }

    /// Where a run goes, by its manifest; `None`: it stays where it is.
    pub fn of_run(manifest: &Manifest) -> Result<Option<Self>, Error> {
        manifest.storage.as_deref().map(Self::of_environment).transpose()
    }

    /// The place of an address, by the environment of this process.
    pub fn of_environment(address: &str) -> Result<Self, Error> {
        Self::of(address, &|name| std::env::var(name).ok())
    }

    /// Address of the run in storage, as a user writes it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// URLs by which whoever has them may put this file of the run, and ask whether it is there, for an hour.
    pub fn urls_to_put(&self, path: &str) -> [String; 2] {
        ["PUT", "HEAD"].map(|method| self.url(method, path, SystemTime::now(), SIGNED_SECONDS))
    }

    /// `method`: the one request that it is good for.
    fn url(&self, method: &str, path: &str, at: SystemTime, seconds: u32) -> String {
        let Self { origin: (scheme, host), base, region, keys, .. } = self;
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        let digits: String = utc(at).chars().filter(char::is_ascii_digit).collect();
        let (day, time) = digits.split_at(8);
        let scope = format!("{day}/{region}/s3/aws4_request");
        let credential = encoded(&format!("{}/{scope}", keys.id), "");
        let token = keys.token.as_ref().map(|token| format!("&X-Amz-Security-Token={}", encoded(token, "")));
        let query = format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={day}T{time}Z\
             &X-Amz-Expires={seconds}{}&X-Amz-SignedHeaders=host",
            token.unwrap_or_default()
        );
        let place = format!("{base}/{}", encoded(path, "/"));
        let request = format!("{method}\n{place}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD");
        let request = hexadecimal(&Sha256::digest(request.as_bytes()));
        let to_sign = format!("AWS4-HMAC-SHA256\n{day}T{time}Z\n{scope}\n{request}");
        let first = hmac(format!("AWS4{}", keys.secret).as_bytes(), day);
        let key = [region.as_str(), "s3", "aws4_request"].iter().fold(first, |key, part| hmac(&key, part));
        format!("{scheme}://{host}{place}?{query}&X-Amz-Signature={}", hexadecimal(&hmac(&key, &to_sign)))
    }

    /// Tells which attempts failed since this was said last, where later ones went well: a server that is about to fail
    /// for good mostly begins so.
    fn tell_failures(&self) {
        let (count, why) = mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner));
        if count > 0 {
            let (attempts, address) = (counted(count, "attempt"), &self.address);
            notice::say(format!(
                "{attempts} at {address} failed before others went well, the last: {}",
                printable(&why)
            ));
        }
    }

    /// Carries one object, and again where what failed may pass: the server's answer, but for one that it has no such
    /// object. `None`: that.
    fn request(&self, way: Way<'_>, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let (mut pause, mut tries, mut failure) = (FIRST_PAUSE, 1, String::new());
        loop {
            let carried = match way {
                Way::Put(place, md5, bytes) => put(&self.urls_to_put(path), place, md5, bytes),
                _ => carry(&self.url(way.method(), path, SystemTime::now(), SIGNED_SECONDS), way),
            };
            if tries > 1 && matches!(carried, Ok(Carried::Done(_))) {
                let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                *failures = (failures.0 + u64::from(tries - 1), mem::take(&mut failure));
            }
            let why = match carried {
                Ok(Carried::Done(body)) => return Ok(Some(body)),
                Ok(Carried::None) if !matches!(way, Way::Put(..)) => return Ok(None),
                Ok(Carried::None) => "the server answered 404".into(),
                Ok(Carried::Refused(why)) => why,
                Ok(Carried::Failed(why)) if tries < TRIES && !interrupt::insisted() => {
                    (pause, tries, failure) = (pause * 2, tries + 1, why);
                    std::thread::sleep(pause / 2);
                    continue;
                }
                Ok(Carried::Failed(why)) => format!("{why} ({tries} attempts)"),
                Err(why) => why,
            };
            let (verb, address) = (way.verb(), &self.address);
            return Err(Error::work(format!("cannot {verb} {address}/{}: {}", printable(path), printable(&why))));
        }
    }
}

/// Refuses what is no address.
pub(crate) fn expect_address(address: &str) -> Result<(), String> {
    parts(address).map(drop)
}

/// Bucket and folder of an address.
fn parts(address: &str) -> Result<(&str, &str), String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._=+@-".contains(letter);
    let folders = |path: &str| {
        path.split('/').all(|name| !name.is_empty() && !matches!(name, "." | "..") && name.chars().all(plain))
    };
    let found = address.strip_prefix("s3://").and_then(|rest| rest.split_once('/'));
    found.filter(|(bucket, folder)| bucket.chars().all(plain) && bucket.len() > 2 && folders(folder)).ok_or_else(|| {
        format!(
            "[storage] expected an address such as s3://BUCKET/RUNS, of letters, digits and . _ - = + @, found '{}'. \
             Correct runs, or the name of the run's directory",
            printable(address)
        )
    })
}

/// Scheme, host and path of a server's URL.
fn server(url: &str) -> Result<(&str, String, String), Error> {
    let plain = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-:[]/".contains(letter));
    let found = url.split_once("://").filter(|(scheme, rest)| matches!(*scheme, "http" | "https") && plain(rest));
    let host = found.map(|(scheme, rest)| (scheme, rest.trim_end_matches('/')));
    let Some((scheme, rest)) = host.filter(|(_, rest)| !rest.is_empty() && !rest.starts_with('/')) else {
        let found = printable(url);
        return Err(Error::input(format!(
            "expected AWS_ENDPOINT_URL to be a server such as https://s3.example.com:9000, found '{found}'. Correct it"
        )));
    };
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    Ok((scheme, host.into(), path.into()))
}

/// Encoded as RFC 3986 has it, but for `kept`.
fn encoded(text: &str, kept: &str) -> String {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.as_bytes().contains(&byte);
    text.bytes().map(|byte| if is_plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") }).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hmac(key: &[u8], text: &str) -> [u8; 32] {
    let keyed = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    keyed.chain_update(text).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of the vendor's documentation.
    fn example(name: &str) -> Option<String> {
        Some(match name {
            "AWS_ACCESS_KEY_ID" => "AKIAIOSFODNN7EXAMPLE".into(),
            "AWS_SECRET_ACCESS_KEY" => "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            _ => return None,
        })
    }

    fn with(name: &'static str, value: &'static str) -> impl Fn(&str) -> Option<String> {
        move |asked| if asked == name { Some(value.into()) } else { example(asked) }
    }

    #[test]
    fn a_url_is_the_one_of_the_vendors_documentation() {
        // "Authenticating Requests: Using Query Parameters": GET examplebucket/test.txt for a day.
        let mut store = ObjectStore::of("s3://examplebucket/x", &example).unwrap();
        store.origin.1 = "examplebucket.s3.amazonaws.com".into();
        store.base = String::new();
        let at = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        assert_eq!(
            store.url("GET", "test.txt", at, 86_400),
            "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=\
             AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires\
             =86400&X-Amz-SignedHeaders=host&X-Amz-Signature=\
             aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        );
    }

    #[test]
    fn a_run_lies_at_the_vendor_or_at_the_server_that_the_environment_names() {
        let place = |address: &str, variable: &dyn Fn(&str) -> Option<String>| {
            let url = ObjectStore::of(address, variable).unwrap().urls_to_put("stamps/node=a/x");
            url[0].split_once('?').unwrap().0.to_owned()
        };
        let end = "stamps/node%3Da/x";
        assert_eq!(
            place("s3://bucket/runs/a", &with("AWS_REGION", "eu-west-1")),
            format!("https://bucket.s3.eu-west-1.amazonaws.com/runs/a/{end}")
        );
        assert_eq!(
            place("s3://my.bucket/a", &example),
            format!("https://s3.us-east-1.amazonaws.com/my.bucket/a/{end}")
        );
        for (url, base) in
            [("http://127.0.0.1:9000", "http://127.0.0.1:9000"), ("https://host/gateway/", "https://host/gateway")]
        {
            assert_eq!(place("s3://bucket/a", &with("AWS_ENDPOINT_URL", url)), format!("{base}/bucket/a/{end}"));
        }
        let signed = ObjectStore::of("s3://bucket/a", &with("AWS_SESSION_TOKEN", "a/b=")).unwrap().urls_to_put("x");
        assert!(signed[0].contains("&X-Amz-Security-Token=a%2Fb%3D&X-Amz-SignedHeaders"), "{signed:?}");
        assert!(signed[0] != signed[1], "each is good for one request");
    }

    #[test]
    fn what_is_no_address_server_or_key_is_refused_with_its_name() {
        let refused = |address: &str, variable: &dyn Fn(&str) -> Option<String>| {
            ObjectStore::of(address, variable).err().expect("it is refused").to_string()
        };
        for wrong in ["", "runs", "s3://bucket", "s3://bucket/", "s3://b/a", "http://bucket/a", "s3://bucket/a/../b"] {
            assert!(refused(wrong, &example).contains("such as s3://BUCKET/RUNS"), "{wrong}");
        }
        for wrong in ["s3://bucket/a b", "s3://bucket/a?x=y", "s3://bucket/a\n", "s3://bucket//a", "s3://user:key@a/b"]
        {
            assert!(refused(wrong, &example).contains("such as s3://BUCKET/RUNS"), "{wrong}");
        }
        for wrong in ["host:9000", "ftp://host", "http://", "http:///a", "http://a b", "http://user:key@host"] {
            let why = refused("s3://bucket/a", &with("AWS_ENDPOINT_URL", wrong));
            assert!(why.contains("expected AWS_ENDPOINT_URL"), "{why}");
        }
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            assert!(refused("s3://bucket/a", &with(name, "")).contains(&format!("a key in {name}, found none")));
        }
    }
}
