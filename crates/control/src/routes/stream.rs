//! The events of a switch, as a list or as a stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use futures_util::stream::{Stream, unfold};
use tokio::sync::watch;

use super::extract::{Answer, Selected};
use super::read::snapshot;
use crate::error::{ErrorCode, ErrorReply};
use crate::events::{EventLog, StreamItem};
use crate::resources::EventGap;
use crate::server::ConnectionState;
use crate::target::ControlTarget;
use xoff_telemetry::{EventReport, SwitchSnapshot};

/// Number of events that a stream copies at once.
const BATCH: usize = 64;
/// Time without an event after which a stream sends a comment. A proxy then knows that the stream is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns the events of a switch, oldest first, at most the first 8192. With `Accept: text/event-stream`,
/// returns a stream of the events that follow the event `Last-Event-ID`, or of new events. Events `gap` have
/// the number of events that the reader has missed.
#[utoipa::path(
    get,
    path = "/events",
    params(("Last-Event-ID" = Option<String>, Header, description = "Number of the last event that the reader knows")),
    responses(
        (status = 200, content(
            (Vec<EventReport> = "application/json"),
            (String = "text/event-stream")
        )),
        (status = "default", body = ErrorReply)
    )
)]
pub(super) async fn events(
    selected: Selected,
    headers: HeaderMap,
    Extension(connection): Extension<Arc<ConnectionState>>,
) -> Answer {
    let accepts_stream = headers.get_all(header::ACCEPT).iter().any(|value| {
        value
            .to_str()
            .is_ok_and(|text| text.to_ascii_lowercase().contains("text/event-stream"))
    });
    if !accepts_stream {
        return selected
            .answer(|target: &dyn ControlTarget| Ok(event_reports(&snapshot(target)?)))
            .await;
    }
    let log = selected.target().event_log();
    let after = match headers.get("last-event-id") {
        None => log.latest(),
        Some(value) => value
            .to_str()
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| {
                ErrorReply::new(ErrorCode::BadRequest, "Last-Event-ID is not a number")
                    .fix("send the `id` of the latest event that arrived")
            })?,
    };
    connection.mark_as_stream();
    Ok(Sse::new(stream_events(log, after)).into_response())
}

/// Returns the events of a switch in the form of a report.
fn event_reports(snapshot: &SwitchSnapshot) -> Vec<EventReport> {
    let ports: Vec<String> = snapshot
        .report
        .ports
        .iter()
        .map(|port| port.name.clone())
        .collect();
    let report = |event| EventReport::new(event, &ports);
    snapshot.events.iter().map(report).collect()
}

/// A reader of an event log.
struct Reader {
    log: Arc<EventLog>,
    new_event: watch::Receiver<u64>,
    /// Sequence number of the last event that was sent.
    after: u64,
    waiting: VecDeque<StreamItem>,
}

/// Returns the events that follow the event `after`, without end.
fn stream_events(log: Arc<EventLog>, after: u64) -> impl Stream<Item = Result<Event, Infallible>> {
    let reader = Reader {
        new_event: log.subscribe(),
        log,
        after,
        waiting: VecDeque::new(),
    };
    unfold(reader, |mut reader| async move {
        let event = next_event(&mut reader).await?;
        Some((Ok(event), reader))
    })
}

/// Returns the next event of a stream. Returns `None` if the switch has ended.
async fn next_event(reader: &mut Reader) -> Option<Event> {
    loop {
        if let Some(item) = reader.waiting.pop_front() {
            return Some(match item {
                StreamItem::Event(id, event) => {
                    reader.after = id;
                    Event::default().id(id.to_string()).data(json_text(&event))
                }
                StreamItem::Gap { missed, last } => {
                    reader.after = last;
                    Event::default()
                        .id(last.to_string())
                        .event("gap")
                        .data(json_text(&EventGap { missed }))
                }
            });
        }
        // Events after this line are noticed by the receiver.
        reader.new_event.mark_unchanged();
        reader.waiting.extend(reader.log.items_after(reader.after, BATCH));
        if !reader.waiting.is_empty() {
            continue;
        }
        match tokio::time::timeout(KEEP_ALIVE, reader.new_event.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return None,
            Err(_) => return Some(Event::default().comment("")),
        }
    }
}

fn json_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("events have string keys only")
}
