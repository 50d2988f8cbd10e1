//! A broker's life: lock the folder, bind, recover, serve, and on a signal drain, sync and leave.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::Context;
use kaas_core::{Engine, EngineOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::banner;
use crate::broker::Broker;
use crate::config::{BrokerConfig, resolve};
use crate::groups;
use crate::instance_lock::InstanceLock;
use crate::listener_info::ListenerInfo;
use crate::net::admission::Admission;
use crate::net::budget::Budget;
use crate::net::conn::ConnOptions;
use crate::net::listener::{Listener, SocketBuffers};
use crate::stack::{self, Metrics, StackParts};
use crate::transactions;

/// How long a stopping broker waits for requests that are being served.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Runs a broker until SIGTERM or SIGINT.
pub fn serve(config: BrokerConfig) -> anyhow::Result<()> {
    let started = Instant::now();
    let lock = InstanceLock::acquire(&config.log_dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("kaas-net").build()?;
    let result = runtime.block_on(run(config, started));
    runtime.shutdown_timeout(Duration::from_secs(1));
    drop(lock);
    result
}

async fn run(config: BrokerConfig, started: Instant) -> anyhow::Result<()> {
    let config = Arc::new(config);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listeners = bind(&config)?;
    let engine = open_engine(Arc::clone(&config)).await?;
    let infos: Vec<Arc<ListenerInfo>> = listeners.iter().map(|listener| Arc::clone(&listener.info)).collect();
    let groups = groups::open(&engine, config.groups, config.sync_coordinators)
        .context("starting the group coordinator")?;
    let (transactions, decided) = transactions::open(&engine, config.transactions, config.sync_coordinators)
        .context("starting the transaction coordinator")?;
    let broker = Arc::new(Broker::new(engine.clone(), groups, transactions, Arc::clone(&config)));
    tokio::spawn(transactions::write_decided(Arc::clone(&broker), decided));
    tokio::spawn(Arc::clone(&broker).forget_offsets_of_missing_topics());
    let parts = StackParts {
        broker: Arc::clone(&broker),
        metrics: Arc::new(Metrics::default()),
        drain: CancellationToken::new(),
    };
    let connections = TaskTracker::new();
    accept(listeners, &config, &parts, &connections);
    announce(&config, &infos, started);

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping");
    parts.drain.cancel();
    connections.close();
    if tokio::time::timeout(DRAIN_MAX, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "some connections did not end in time");
    }
    let close = move || {
        broker.groups.close();
        broker.transactions.close();
        engine.close()
    };
    tokio::task::spawn_blocking(close).await?.context("closing the engine")?;
    tracing::info!(requests = ?parts.metrics.requests(), refused = parts.metrics.refused(), "stopped");
    Ok(())
}

fn bind(config: &BrokerConfig) -> anyhow::Result<Vec<Listener>> {
    let bind_one = |(endpoint, advertised): &(_, Option<_>)| -> anyhow::Result<Listener> {
        let endpoint: &crate::config::Endpoint = endpoint;
        Listener::bind(endpoint, advertised.as_ref(), config.backlog)
            .with_context(|| format!("cannot listen on {}:{}", endpoint.host, endpoint.port))
    };
    config.listeners.iter().map(bind_one).collect()
}

async fn open_engine(config: Arc<BrokerConfig>) -> anyhow::Result<Engine> {
    let open = move || {
        let layers = config.layers.clone();
        let options = EngineOptions::at(&config.log_dir)?
            .broker_id(config.node_id)
            .resolve(move |overrides| resolve::log_config(overrides, &layers))
            .producer_id_expiration_ms(
                i64::try_from(config.producer_id_expiration.as_millis()).unwrap_or(i64::MAX),
            )
            .sync_parallelism(config.sync_parallelism)
            .retention_check_interval(Some(config.retention_check_interval))
            .compaction(config.compaction.clone());
        #[cfg(feature = "mutants")]
        let options = crate::mutants::seed(options);
        Engine::open(options)
    };
    Ok(tokio::task::spawn_blocking(open).await??)
}

fn accept(listeners: Vec<Listener>, config: &BrokerConfig, parts: &StackParts, connections: &TaskTracker) {
    let options = ConnOptions {
        stack: stack::assemble(parts.clone()),
        frame_bytes_max: config.request_bytes_max,
        budget: Budget::new(config.request_memory_max),
        idle_max: config.connection_idle_max,
        drain: parts.drain.clone(),
    };
    let buffers = SocketBuffers::of(config);
    let admission = Admission::new(config.connections_max, config.connections_per_ip_max);
    let ids = Arc::new(AtomicU64::new(1));
    for listener in listeners {
        let run = listener.run(
            options.clone(),
            buffers,
            Arc::clone(&admission),
            Arc::clone(&ids),
            connections.clone(),
        );
        tokio::spawn(run);
    }
}

fn announce(config: &BrokerConfig, listeners: &[Arc<ListenerInfo>], started: Instant) {
    let told: Vec<(String, i32)> = listeners.iter().map(|listener| listener.told(listener.bound)).collect();
    if std::io::stdout().is_terminal() {
        print!("{}", banner::banner(&config.log_dir, banner::free_bytes(&config.log_dir), &told));
    } else {
        tracing::info!(
            node_id = config.node_id,
            log_dir = %config.log_dir.display(),
            listeners = ?told,
            ready_ms = started.elapsed().as_millis() as u64,
            "ready"
        );
    }
}
