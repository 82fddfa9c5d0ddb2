//! One connection: its requests, its limits and its end.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tower::ServiceExt;

use super::connection_state::ConnectionState;
use super::limited_io::{LimitedIo, Socket};
use super::state::{ServerState, lock};
use crate::error::ErrorReply;

/// Longest time for the head of a request, from the end of the previous response.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest memory for the head of a request, and for unsent output, in bytes.
const BUFFER_BYTES_MAX: usize = 32 << 10;
/// Largest number of header fields of a request.
const HEADERS_MAX: usize = 64;

/// Counts a request in progress.
struct RunningRequest(Arc<ConnectionState>);

impl RunningRequest {
    fn start(connection: &Arc<ConnectionState>) -> RunningRequest {
        connection.touch();
        connection.requests_running.fetch_add(1, Ordering::Relaxed);
        RunningRequest(Arc::clone(connection))
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.touch();
        self.0.requests_running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a request came over TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsTcp(pub(crate) bool);

/// Serves a connection until its end.
pub(super) async fn serve_connection(
    socket: Socket,
    connection: Arc<ConnectionState>,
    server: Arc<ServerState>,
    router: Router,
) {
    let is_tcp = matches!(socket, Socket::Tcp(_));
    let socket = Arc::new(socket);
    let io = LimitedIo::new(Arc::clone(&socket), Arc::clone(&connection), Arc::clone(&server));
    let state = Arc::clone(&connection);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let (router, state, server) = (router.clone(), Arc::clone(&state), Arc::clone(&server));
        async move { answer(request, router, state, server, IsTcp(is_tcp)).await }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        // A client on a Unix socket may close its sending half. Over TCP, a closed half is a client that left.
        .half_close(!is_tcp);
    let serve = builder.serve_connection(TokioIo::new(io), service);
    tokio::select! {
        // The client has seen all errors of this connection that concern it.
        _ = serve => {}
        () = socket.wait_for_hangup() => {}
        () = connection.close.notified() => {}
    }
}

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Answers a request within the limits of its connection.
async fn answer(
    request: hyper::Request<Incoming>,
    router: Router,
    connection: Arc<ConnectionState>,
    server: Arc<ServerState>,
    is_tcp: IsTcp,
) -> Result<Response, std::convert::Infallible> {
    let _running = RunningRequest::start(&connection);
    if !lock(&connection.requests).try_take(Instant::now()) {
        return Ok(server.refuse_excess().await.into_response());
    }
    server.wait_for_turn().await;
    if let (IsTcp(true), Some(tcp)) = (is_tcp, &server.tcp)
        && let Err(error) = tcp.check_request(request.method(), request.headers())
    {
        return Ok(ErrorReply::into_response(error));
    }
    let mut request: Request = request.map(axum::body::Body::new);
    request.extensions_mut().insert(Arc::clone(&connection));
    let answer: Answer = Box::pin(async move {
        match router.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    });
    Ok(answer.await)
}
