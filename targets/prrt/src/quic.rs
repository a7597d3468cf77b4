//! The same payloads over QUIC (crate quinn), a stream each: a lost packet holds up the payloads that it carried, and
//! no others.
//!
//! Guarantees: each datagram is a packet of its own for the kernel too (no segmentation offload), so what loses packets
//! loses one at a time. Deliberately absent: authentication. The receiver's certificate is made at its start, and the
//! sender takes any: between two ends of a measurement there is nothing to protect.

use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::MOST_PAYLOAD_BYTES;
use crate::rivals::{LOOK, UDP_HEADERS};

/// Name that the receiver's certificate is made for.
const NAME: &str = "prrt";
/// Streams that may be open at once: a payload waits for none before the path is full.
const MOST_STREAMS: u32 = 4096;
/// Longest wait until the other end hears of the connection's end.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection to a receiver.
pub struct QuicLink {
    runtime: Runtime,
    endpoint: Endpoint,
    connection: Connection,
}

impl QuicLink {
    /// Connects to a receiver that listens.
    pub fn connect(address: (&str, u16)) -> io::Result<Self> {
        let (host, port) = address;
        let failed = |e: &dyn std::fmt::Display| {
            io::Error::other(format!("cannot connect to {host}:{port}: {e}. Start the receiver with --over quic first"))
        };
        let runtime = runtime()?;
        let to = address.to_socket_addrs()?.next().ok_or_else(|| failed(&"the name has no address"))?;
        let (endpoint, connection) = runtime.block_on(async {
            let mut endpoint = Endpoint::client("0.0.0.0:0".parse().map_err(io::Error::other)?)?;
            endpoint.set_default_client_config(client()?);
            let connection = endpoint.connect(to, NAME).map_err(|e| failed(&e))?.await.map_err(|e| failed(&e))?;
            Ok::<_, io::Error>((endpoint, connection))
        })?;
        Ok(Self { runtime, endpoint, connection })
    }

    /// Gives a payload to the transport; waits where it has no room.
    pub fn send(&self, payload: &[u8]) -> io::Result<()> {
        self.runtime.block_on(async {
            let mut stream = self.connection.open_uni().await?;
            stream.write_all(payload).await?;
            stream.finish().map_err(io::Error::other)
        })
    }

    /// Bytes that were sent on the wire so far, headers of IPv4 and UDP included.
    pub fn wire_bytes(&self) -> u64 {
        let sent = self.connection.stats().udp_tx;
        sent.bytes + sent.datagrams * UDP_HEADERS
    }
}

impl Drop for QuicLink {
    fn drop(&mut self) {
        self.connection.close(0_u32.into(), b"");
        let _ = self.runtime.block_on(async { timeout(PATIENCE, self.endpoint.wait_idle()).await });
    }
}

/// Takes the payloads of one connection until it ends or `is_stopped`; `connected` is called once it is there.
pub fn receive_quic(
    socket: UdpSocket,
    is_stopped: impl Fn() -> bool,
    connected: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
    mut take: impl FnMut(Vec<u8>),
) -> io::Result<()> {
    let same_socket = socket.try_clone()?;
    runtime()?.block_on(async {
        let endpoint = Endpoint::new(EndpointConfig::default(), Some(server()?), socket, Arc::new(TokioRuntime))?;
        let connection = loop {
            match timeout(LOOK, endpoint.accept()).await {
                Ok(Some(incoming)) => break incoming.await?,
                Err(_) if !is_stopped() => {}
                _ => return Ok(()),
            }
        };
        connected(same_socket.as_fd())?;
        let (whole, mut payloads) = mpsc::unbounded_channel();
        while !is_stopped() {
            tokio::select! {
                stream = connection.accept_uni() => {
                    let Ok(mut stream) = stream else { break };
                    let whole = whole.clone();
                    tokio::spawn(async move {
                        if let Ok(payload) = stream.read_to_end(MOST_PAYLOAD_BYTES).await {
                            let _ = whole.send(payload); // nobody takes it once the receiver ends
                        }
                    });
                }
                Some(payload) = payloads.recv() => take(payload),
                () = sleep(LOOK) => {}
            }
        }
        drop(whole);
        while let Some(payload) = payloads.recv().await {
            take(payload);
        }
        Ok(())
    })
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.enable_segmentation_offload(false).max_concurrent_uni_streams(MOST_STREAMS.into());
    Arc::new(config)
}

fn client() -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyReceiver(provider)))
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).map_err(io::Error::other)?));
    config.transport_config(transport());
    Ok(config)
}

fn server() -> io::Result<ServerConfig> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .map_err(io::Error::other)?;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config).map_err(io::Error::other)?));
    config.transport_config(transport());
    Ok(config)
}

/// Takes any certificate whose key its holder has.
#[derive(Debug)]
struct AnyReceiver(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyReceiver {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has TLS 1.3 alone".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
