//! Listening sockets and the accept loop.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use super::admission::Admission;
use super::conn::{self, ConnOptions};
use crate::config::{BrokerConfig, Endpoint};
use crate::listener_info::ListenerInfo;
use crate::request::ConnCx;

/// How long accepting rests when the process has no descriptor left.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// A bound socket with its name.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    /// What the rest of the broker knows of it.
    pub info: Arc<ListenerInfo>,
}

/// The kernel buffers of a connection.
#[derive(Clone, Copy, Debug)]
pub struct SocketBuffers {
    send_bytes: Option<usize>,
    receive_bytes: Option<usize>,
}

impl SocketBuffers {
    /// As configured.
    pub fn of(config: &BrokerConfig) -> SocketBuffers {
        SocketBuffers { send_bytes: config.send_buffer_bytes, receive_bytes: config.receive_buffer_bytes }
    }
}

impl Listener {
    /// Binds and listens. An empty host is every interface, IPv6 included where the machine has it.
    pub fn bind(endpoint: &Endpoint, advertised: Option<&Endpoint>, backlog: i32) -> io::Result<Listener> {
        let mut failed = io::Error::new(io::ErrorKind::AddrNotAvailable, "the host has no address");
        for address in addresses(endpoint)? {
            match listen(address, backlog) {
                Ok(socket) => {
                    let info = ListenerInfo {
                        name: endpoint.name.clone(),
                        bound: socket.local_addr()?,
                        advertised: advertised.map(|told| (told.host.clone(), told.port)),
                        host: endpoint.host.clone(),
                    };
                    return Ok(Listener { socket, info: Arc::new(info) });
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Accepts until the broker stops; connections run in `tasks`.
    pub async fn run(
        self,
        options: ConnOptions,
        buffers: SocketBuffers,
        admission: Arc<Admission>,
        ids: Arc<AtomicU64>,
        tasks: TaskTracker,
    ) {
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = options.drain.cancelled() => return,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(listener = self.info.name, %error, "accept failed");
                    tokio::time::sleep(ACCEPT_REST).await;
                    continue;
                }
            };
            let Some(place) = admission.admit(peer.ip().to_canonical()) else {
                tracing::debug!(%peer, "connection limit reached");
                continue;
            };
            let Ok(cx) = self.prepare(&stream, peer, buffers, &ids) else { continue };
            let options = options.clone();
            tasks.spawn(async move {
                let (id, peer) = (cx.id, cx.peer);
                let ended = conn::serve(stream, cx, options).await;
                tracing::debug!(conn = id, %peer, %ended, "connection ended");
                drop(place);
            });
        }
    }

    fn prepare(
        &self,
        stream: &TcpStream,
        peer: SocketAddr,
        buffers: SocketBuffers,
        ids: &AtomicU64,
    ) -> io::Result<Arc<ConnCx>> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(stream);
        if let Some(bytes) = buffers.send_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = buffers.receive_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        let local = stream.local_addr()?;
        let id = ids.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(ConnCx { id, peer, local, listener: Arc::clone(&self.info) }))
    }
}

fn addresses(endpoint: &Endpoint) -> io::Result<Vec<SocketAddr>> {
    if endpoint.host.is_empty() {
        return Ok(vec![([0u16; 8], endpoint.port).into(), ([0u8; 4], endpoint.port).into()]);
    }
    Ok((endpoint.host.as_str(), endpoint.port).to_socket_addrs()?.collect())
}

fn listen(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    TcpListener::from_std(socket.into())
}
