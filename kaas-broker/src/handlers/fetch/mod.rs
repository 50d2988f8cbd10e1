//! Fetch (key 1, versions 0-16): record batches from an offset on, at once or when there are enough.
//!
//! * v0-3: message sets of magic 0 and 1, converted down. v1: throttle time. v3: a limit for the whole, which the first batch may break.
//! * v4: isolation level. v5: log start offset. v7: sessions (KIP-227). v9: leader epochs (KIP-320). v12: flexible, diverging epochs
//!   (KIP-595). v13: topic ids (KIP-516). v15: replica state. v16: node endpoints (KIP-951).
//! * The call ends when the session is updated and the data was looked for once; a poll that must wait does so in the answer.

mod cache;
mod convert;
mod items;
mod read;
mod response;
mod session;
mod waiter;

use std::sync::Arc;
use std::time::Duration;

use kaas_proto::ErrorCode;
use kaas_proto::messages::{FetchRequest, FetchResponse};
use tokio::time::Instant;

pub use cache::SessionCache;
pub use convert::Conversions;
use items::{Items, Shared};
use read::{Limits, Round};
use session::Context;
use waiter::Waiter;

use crate::broker::Broker;
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The first version whose requests name topics by id.
const BY_ID_FROM: i16 = 13;

impl Handler<FetchRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: FetchRequest,
    ) -> Result<Reply<FetchResponse>, ApiError> {
        let deadline =
            Instant::now() + Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
        let limits = Limits::of(&request, cx.version, self.config.fetch_bytes_max)?;
        let by_id = cx.version >= BY_ID_FROM;
        let items = Items::of(&request, by_id, &self.engine.topics());
        let context = match self.sessions.open(&request, items, by_id) {
            Ok(context) => context,
            Err(code) => return Ok(Reply::Now(Answer::Send(session_error(code)))),
        };
        let round = read::round(&self, context.items(), &limits, read::Blocking::No);
        let ended = round.is_final(&limits) || deadline <= Instant::now() && !round.cold;
        if ended && cx.version >= convert::ZSTD_FROM {
            return Ok(Reply::Now(Answer::Send(context.answer(round))));
        }
        let pending = async move {
            let round =
                if ended { Ok(round) } else { wait(&self, context.items(), limits, round, deadline).await };
            match round {
                Ok(round) => answer(&self, context, round, cx.version).await,
                Err(error) => session_error(error.code),
            }
        };
        Ok(Reply::Later(Box::pin(async move { Answer::Send(pending.await) })))
    }
}

/// The response, in what the client's version can read.
async fn answer(broker: &Arc<Broker>, context: Context, round: Round, version: i16) -> FetchResponse {
    match convert::for_version(broker, context.items(), round, version).await {
        Ok(round) => context.answer(round),
        Err(error) => session_error(error.code),
    }
}

/// Looks again whenever something moved, until there is enough or the time is up.
async fn wait(
    broker: &Arc<Broker>,
    items: &Shared,
    limits: Limits,
    mut round: Round,
    deadline: Instant,
) -> Result<Round, ApiError> {
    loop {
        // Register first, look second, so that nothing moves unseen in between.
        let waiter = Waiter::watch(round.watched());
        round = look(broker, items, limits).await?;
        if round.is_final(&limits)
            || deadline <= Instant::now()
            || tokio::time::timeout_at(deadline, waiter.woken()).await.is_err()
        {
            return Ok(round);
        }
    }
}

/// Looks at memory, and at the disk where pages are missing: on a thread that may wait, so that no other connection does.
async fn look(broker: &Arc<Broker>, items: &Shared, limits: Limits) -> Result<Round, ApiError> {
    let round = read::round(broker, items, &limits, read::Blocking::No);
    if !round.cold {
        return Ok(round);
    }
    let items = Arc::clone(items);
    broker.blocking(move |broker| read::round(broker, &items, &limits, read::Blocking::Yes)).await
}

fn session_error(code: ErrorCode) -> FetchResponse {
    FetchResponse { error_code: code.code(), ..Default::default() }
}
