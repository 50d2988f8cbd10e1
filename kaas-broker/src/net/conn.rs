//! One connection: frames in, replies out in the order of their requests.
//!
//! One task does it all. Kafka runs the requests of a connection one after the other; here a produce request may start while produce
//! requests before it wait for their sync, so that five in flight share one. Any other request waits until all before it are answered.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kaas_proto::{ApiKey, Rope};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

use super::budget::{Budget, Permit};
use super::frame::{Frame, FrameError, FrameReader};
use super::outbox::Outbox;
use crate::request::{Answer, BoxFuture, ConnCx, Preamble, RawRequest, Reply};
use crate::stack::Stack;

/// Requests of one connection that may wait for their acknowledgement at the same time.
const PIPELINE_MAX: usize = 64;
/// How long a frame that has begun may make no progress: until it is complete it holds memory that others wait for.
const STALL_MAX: Duration = Duration::from_secs(30);
/// The shortest time between two looks at whether the connection is idle.
const CHECK_MIN: Duration = Duration::from_millis(100);

/// What a connection is served with.
#[derive(Clone)]
pub struct ConnOptions {
    /// The request path.
    pub stack: Stack,
    /// The largest frame.
    pub frame_bytes_max: usize,
    /// Memory for requests.
    pub budget: Budget,
    /// How long the connection may be silent.
    pub idle_max: Option<Duration>,
    /// Cancelled when the broker stops.
    pub drain: CancellationToken,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Reading ended.
    #[error(transparent)]
    Read(#[from] FrameError),
    /// Sending failed.
    #[error("send: {0}")]
    Send(#[from] io::Error),
    /// The request path closed it.
    #[error("closed by the broker")]
    Refused,
    /// Nothing happened for too long.
    #[error("idle or stalled")]
    Idle,
    /// The broker is stopping.
    #[error("the broker is stopping")]
    Draining,
}

/// A request whose answer is not there yet.
struct Pending {
    answer: BoxFuture<Answer<Rope>>,
    permit: Arc<Permit>,
}

struct Connection {
    stream: TcpStream,
    cx: Arc<ConnCx>,
    options: ConnOptions,
    frames: FrameReader,
    pending: VecDeque<Pending>,
    /// Whether everything pending is a produce request.
    overlapping: bool,
    /// A frame that must wait until nothing is pending.
    held: Option<Frame>,
    outbox: Outbox,
    /// The connection ends once the replies before this point are sent.
    closing: bool,
    /// Why nothing more is read; the connection ends with it once everything pending is answered.
    read_ended: Option<FrameError>,
    last_progress: Instant,
}

/// Serves a connection until it ends.
pub async fn serve(stream: TcpStream, cx: Arc<ConnCx>, options: ConnOptions) -> Ended {
    let frames = FrameReader::new(options.frame_bytes_max, options.budget.clone());
    let connection = Connection {
        stream,
        cx,
        options,
        frames,
        pending: VecDeque::new(),
        overlapping: true,
        held: None,
        outbox: Outbox::default(),
        closing: false,
        read_ended: None,
        last_progress: Instant::now(),
    };
    connection.run().await
}

/// What the connection's wait ended with.
enum Event {
    Answered(Answer<Rope>),
    Arrived(Result<Frame, FrameError>),
    Sent(io::Result<()>),
    TimeUp,
    Drain,
}

impl Connection {
    async fn run(mut self) -> Ended {
        let mut timer = Box::pin(tokio::time::sleep(self.check_every()));
        loop {
            if self.closing && self.outbox.is_empty() {
                return Ended::Refused;
            }
            if self.pending.is_empty()
                && self.outbox.is_empty()
                && let Some(why) = self.read_ended.take()
            {
                return why.into();
            }
            let ready = if self.pending.is_empty() { self.held.take() } else { None };
            let result = match ready {
                Some(frame) => self.start(frame).await,
                None => match self.wait(&mut timer).await {
                    Event::Answered(answer) => self.answered(answer),
                    Event::Arrived(frame) => self.arrived(frame).await,
                    Event::Sent(result) => self.sent(result),
                    Event::TimeUp => self.time_up(&mut timer),
                    Event::Drain => Err(Ended::Draining),
                },
            };
            if let Err(ended) = result {
                return ended;
            }
        }
    }

    async fn wait(&mut self, timer: &mut Pin<Box<Sleep>>) -> Event {
        let Connection {
            stream,
            options,
            frames,
            pending,
            held,
            outbox,
            closing,
            overlapping,
            read_ended,
            ..
        } = self;
        let sending = !outbox.is_empty();
        let (mut from_client, to_client) = stream.split();
        // A stopping broker waits for acknowledgements, not for long polls, which may take any time.
        let quiet = (pending.is_empty() || !*overlapping) && !sending;
        let reading = held.is_none() && pending.len() < PIPELINE_MAX && !sending && read_ended.is_none();
        let answering = !*closing;
        let front = async {
            match pending.front_mut() {
                Some(pending) => (&mut pending.answer).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = front, if answering => Event::Answered(answer),
            result = outbox.send(to_client.as_ref()), if sending => Event::Sent(result),
            () = options.drain.cancelled(), if quiet => Event::Drain,
            frame = frames.next(&mut from_client), if reading => Event::Arrived(frame),
            () = timer.as_mut() => Event::TimeUp,
        }
    }

    /// The front's answer is there: it goes out before anything behind it.
    fn answered(&mut self, answer: Answer<Rope>) -> Result<(), Ended> {
        let pending = self.pending.pop_front().expect("only the front answers");
        if self.pending.is_empty() {
            self.overlapping = true;
        }
        self.queue(answer, pending.permit)?;
        // Answers that are ready together leave together; the last of them goes at once.
        if self.pending.is_empty() { Ok(self.outbox.try_send(&self.stream)?) } else { Ok(()) }
    }

    fn queue(&mut self, answer: Answer<Rope>, permit: Arc<Permit>) -> Result<(), Ended> {
        self.last_progress = Instant::now();
        match answer {
            Answer::Send(reply) => Ok(self.outbox.push(reply, permit)?),
            Answer::Silent => Ok(()),
            Answer::Close => {
                self.closing = true;
                Ok(())
            }
        }
    }

    async fn arrived(&mut self, frame: Result<Frame, FrameError>) -> Result<(), Ended> {
        let frame = match frame {
            Ok(frame) => frame,
            // What was appended is acknowledged, though the client sends no more. A long poll has nobody to wait for.
            Err(why) if !why.is_failure() && !self.pending.is_empty() && self.overlapping => {
                self.read_ended = Some(why);
                return Ok(());
            }
            Err(why) => return Err(why.into()),
        };
        self.last_progress = Instant::now();
        let overlaps = self.overlapping && is_produce(&frame);
        if self.pending.is_empty() || overlaps {
            return self.start(frame).await;
        }
        self.held = Some(frame);
        Ok(())
    }

    /// Runs the first stage of a request; its order is fixed when this returns.
    async fn start(&mut self, frame: Frame) -> Result<(), Ended> {
        let produce = is_produce(&frame);
        let Some(preamble) = Preamble::peek(&frame.bytes) else { return Err(Ended::Refused) };
        let request = RawRequest { conn: Arc::clone(&self.cx), preamble, frame: frame.bytes };
        let ready = self.options.stack.ready().await;
        let reply = match ready {
            Ok(stack) => stack.call(request).await,
            Err(error) => Err(error),
        };
        match reply {
            Ok(Reply::Now(answer)) if self.pending.is_empty() => {
                self.queue(answer, frame.permit)?;
                // Most replies fit into the socket's buffer: no need to go round the loop for them.
                Ok(self.outbox.try_send(&self.stream)?)
            }
            Ok(Reply::Now(answer)) => {
                self.push(Box::pin(std::future::ready(answer)), frame.permit, produce);
                Ok(())
            }
            Ok(Reply::Later(answer)) => {
                self.push(answer, frame.permit, produce);
                Ok(())
            }
            Err(error) => {
                tracing::debug!(conn = self.cx.id, peer = %self.cx.peer, %error, "request refused");
                self.push(Box::pin(std::future::ready(Answer::Close)), frame.permit, produce);
                Ok(())
            }
        }
    }

    fn push(&mut self, answer: BoxFuture<Answer<Rope>>, permit: Arc<Permit>, produce: bool) {
        self.overlapping &= produce;
        self.pending.push_back(Pending { answer, permit });
    }

    fn sent(&mut self, result: io::Result<()>) -> Result<(), Ended> {
        self.last_progress = Instant::now();
        Ok(result?)
    }

    /// When the connection ends if nothing happens; `None` is never. Requests that wait for data or a sync are not idleness.
    fn give_up_at(&self) -> Option<Instant> {
        let progress = self.last_progress.max(self.frames.last_progress());
        let idle_max = self.options.idle_max;
        if self.frames.within_frame() {
            return Some(progress + idle_max.unwrap_or(STALL_MAX).min(STALL_MAX));
        }
        // A consumer that is busy with its records does not read its next reply for as long as it likes: that is idleness, no stall.
        if !self.outbox.is_empty() || self.pending.is_empty() {
            return idle_max.map(|idle| progress + idle);
        }
        None
    }

    /// How often the connection looks whether it should end.
    fn check_every(&self) -> Duration {
        self.options.idle_max.unwrap_or(STALL_MAX).clamp(CHECK_MIN, STALL_MAX)
    }

    fn time_up(&self, timer: &mut Pin<Box<Sleep>>) -> Result<(), Ended> {
        let now = Instant::now();
        match self.give_up_at() {
            Some(at) if at <= now => Err(Ended::Idle),
            at => {
                let next = now + self.check_every();
                timer.as_mut().reset(at.map_or(next, |at| at.min(next)));
                Ok(())
            }
        }
    }
}

fn is_produce(frame: &Frame) -> bool {
    Preamble::peek(&frame.bytes).is_some_and(|preamble| preamble.api_key == ApiKey::Produce as i16)
}
