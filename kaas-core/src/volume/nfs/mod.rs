//! A network file system in memory: one server, several machines that mount it, and all that may go wrong between.
//!
//! It promises what NFS promises and nothing more. A file is looked at afresh when it is opened, and from then on shows
//! whatever its machine remembers. That a name is absent, and what a directory lists, is remembered until the machine
//! changes something in that directory. A write stays on its machine until a sync, or until the machine sends it, page
//! by page in any order, perhaps long after its process was stopped or killed. The server takes writes into memory and
//! makes them stable at a commit; after a restart it may have lost the others, which their writer notices by the
//! verifier and sends again. A write that fails is dropped, and one sync reports it. A reply may be lost: what was done
//! is then answered as if it had been done by somebody else. Names that no directory sync has covered are lost only
//! when everything loses power at once.
//!
//! Every request is announced to the mount's pace before it is sent: that is where others run. All chance comes from
//! one seed.

mod client;
mod mount;
mod server;
#[cfg(test)]
mod tests;

pub use mount::NfsMount;

use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use self::client::{Client, Extent, Sent};
use self::server::Server;
use super::tree::{DirNode, Node, Random, Tree};

const EIO: i32 = 5;

/// How often things go wrong: all but the last are chances in 10 000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NfsFaults {
    /// A request fails and is not performed.
    pub error: u32,
    /// A request fails with `ESTALE`.
    pub stale_handle: u32,
    /// A request is performed and answered as if it were not, or by another.
    pub lost_reply: u32,
    /// A remembered absence or listing is believed.
    pub stale_name: u32,
    /// A machine forgets clean pages, or asks for a file's attributes, while it reads.
    pub forget: u32,
    /// The server's times do not tell two contents of one length apart that follow each other closely.
    pub coarse_times: bool,
}

/// A machine that mounts the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine(usize);

/// The server and all machines. Clones are handles to the same ones.
#[derive(Clone)]
pub struct Nfs {
    state: Arc<Mutex<State>>,
}

struct State {
    server: Server,
    clients: Vec<Client>,
    /// Writes of crashed machines that are still on their way.
    late: Vec<(usize, Extent)>,
    faults: NfsFaults,
    injected: u64,
    random: Random,
}

impl fmt::Debug for Nfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nfs").finish_non_exhaustive()
    }
}

impl Nfs {
    /// An empty volume. Nothing goes wrong before [`set_faults`](Self::set_faults).
    pub fn new(seed: u64) -> Self {
        let tree = Tree { nodes: vec![Node::Dir(DirNode::default())], capacity: None };
        let state = State {
            server: Server::new(tree),
            clients: Vec::new(),
            late: Vec::new(),
            faults: NfsFaults::default(),
            injected: 0,
            random: Random(seed),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Decides what goes wrong from now on.
    pub fn set_faults(&self, faults: NfsFaults) {
        let mut state = self.state.lock();
        state.faults = faults;
        state.server.coarse_times = faults.coarse_times;
    }

    /// Requests that were made to fail, or whose replies were lost, and stale names that were believed.
    pub fn injected(&self) -> u64 {
        self.state.lock().injected
    }

    /// Another machine.
    pub fn machine(&self) -> Machine {
        let mut state = self.state.lock();
        state.clients.push(Client::default());
        Machine(state.clients.len() - 1)
    }

    /// The volume as one process on a machine sees it. `pace` is called before every request, with nothing locked.
    pub fn mount(&self, machine: Machine, pace: impl Fn(&super::Op) + Send + Sync + 'static) -> NfsMount {
        let boots = self.state.lock().clients[machine.0].boots;
        NfsMount::new(self.clone(), machine.0, boots, Arc::new(pace))
    }

    /// Something that happens by itself: a machine sends a dirty page or has a file committed, or a late write arrives.
    pub fn background(&self) {
        self.state.lock().background();
    }

    /// All that machines and the network still hold reaches the server.
    pub fn settle(&self) {
        let mut state = self.state.lock();
        while state.background() {}
    }

    /// The server's disk loses a bit of one of the files whose paths are `wanted`, if there is any.
    pub fn rot(&self, wanted: impl Fn(&str) -> bool) {
        let State { server, random, .. } = &mut *self.state.lock();
        server.rot(random, wanted);
    }

    /// The server restarts: its verifier changes, and it may have lost what was not committed.
    pub fn restart_server(&self) {
        let State { server, random, .. } = &mut *self.state.lock();
        server.restart(random);
    }

    /// A machine crashes, with everything that runs on it. Of what it had not sent some is lost, some has arrived, and
    /// some arrives later.
    pub fn crash(&self, machine: Machine) {
        let state = &mut *self.state.lock();
        let client = &mut state.clients[machine.0];
        client.boots += 1;
        client.dirs.clear();
        for (node, file) in std::mem::take(&mut client.files) {
            for extent in file.dirty.into_values() {
                match state.random.below(4) {
                    0 => state.late.push((node, extent)),
                    1 => _ = state.server.write(node, extent.position, &extent.bytes),
                    _ => {}
                }
            }
        }
    }

    /// Everything loses power at once: whatever was not made stable, names too, may be lost.
    pub fn power_cut(&self) {
        let State { server, clients, late, random, .. } = &mut *self.state.lock();
        for client in clients {
            *client = Client { boots: client.boots + 1, ..Client::default() };
        }
        late.clear();
        server.power_cut(random);
    }
}

impl State {
    /// Whether something happens that has this chance in 10 000.
    fn happens(&mut self, chance: u32) -> bool {
        let happens = chance > 0 && self.random.below(10_000) < chance as usize;
        self.injected += u64::from(happens);
        happens
    }

    /// False when there was nothing to do.
    fn background(&mut self) -> bool {
        if !self.late.is_empty() && self.random.below(4) == 0 {
            let (node, extent) = self.late.swap_remove(self.random.below(self.late.len()));
            if self.server.is_linked(node) {
                _ = self.server.write(node, extent.position, &extent.bytes);
            }
            return true;
        }
        let mut held: Vec<(usize, usize)> = Vec::new();
        for (client, cache) in self.clients.iter().enumerate() {
            let holds = |file: &&usize| {
                cache.files.get(*file).is_some_and(|file| !file.dirty.is_empty() || !file.sent.is_empty())
            };
            held.extend(cache.files.keys().filter(holds).map(|node| (client, *node)));
        }
        if held.is_empty() {
            return !self.late.is_empty();
        }
        let (client, node) = held[self.random.below(held.len())];
        let dirty: Vec<u64> = self.clients[client].files[&node].dirty.keys().copied().collect();
        if dirty.is_empty() {
            _ = self.commit(client, node);
        } else {
            let page = dirty[self.random.below(dirty.len())];
            self.send(client, node, page);
        }
        true
    }

    /// Sends a dirty page. If that fails, the next sync says so, and the page is never sent again.
    fn send(&mut self, client: usize, node: usize, page: u64) {
        let fails = self.happens(self.faults.error);
        let Some(extent) = self.clients[client].files.entry(node).or_default().dirty.remove(&page) else {
            return;
        };
        let outcome = match fails {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => self.write(client, node, &extent),
        };
        let forgets = self.random.coin();
        let file = self.clients[client].files.entry(node).or_default();
        match outcome {
            Ok(verifier) => file.sent.push(Sent { extent, verifier }),
            Err(_) => {
                file.errors += 1;
                // Until then the page may go on showing what was written.
                if forgets {
                    file.drop_pages();
                }
            }
        }
    }

    fn write(&mut self, client: usize, node: usize, extent: &Extent) -> io::Result<u64> {
        self.server.handle(client, node)?;
        let before = self.server.attributes(node)?;
        let verifier = self.server.write(node, extent.position, &extent.bytes)?;
        let after = self.server.attributes(node)?;
        self.clients[client].files.entry(node).or_default().wrote(before, after);
        Ok(verifier)
    }

    /// Has the server make stable what was sent. False when it has restarted since: some was sent again, and must be
    /// committed again. If that fails, the next sync says so.
    fn commit(&mut self, client: usize, node: usize) -> io::Result<bool> {
        let committed = self.server.handle(client, node).and_then(|()| self.server.commit(node));
        let file = self.clients[client].files.entry(node).or_default();
        let sent = std::mem::take(&mut file.sent);
        let verifier = committed.inspect_err(|_| file.errors += 1)?;
        if sent.iter().all(|sent| sent.verifier == verifier) {
            return Ok(true);
        }
        // All of it, so that what overlaps arrives in its order.
        for Sent { extent, .. } in sent {
            let again = self.write(client, node, &extent);
            let file = self.clients[client].files.entry(node).or_default();
            match again {
                Ok(verifier) => file.sent.push(Sent { extent, verifier }),
                Err(_) => file.errors += 1,
            }
        }
        Ok(false)
    }
}
