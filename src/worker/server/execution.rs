//! The life of one execution, from its admission to its answer.
//!
//! IO: the journal and the command. Phases: (1) the start is journalled, or nothing begins; (2) the command runs;
//! (3) the answer is journalled, then its place is free, then it goes out. Whoever waits for it may be gone by
//! then; the answer is in the journal for the next to ask.

use std::sync::Arc;

use hyper::body::Bytes;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::answer::{Answer, Reply};
use super::journal::Record;
use super::request::Request;
use super::table::Finished;
use super::{Worker, exec};

/// Starts an execution that has taken its place in the table. The work belongs to no connection: dropping the
/// receiver ends nothing.
pub fn start(worker: Arc<Worker>, request: Request, payload: Bytes) -> oneshot::Receiver<Reply> {
    let (done, answered) = oneshot::channel();
    // At error level, so that a warning has these fields whatever the filter says.
    let span = tracing::error_span!(
        "execution",
        execution_id = request.id,
        attempt = request.attempt,
        term = request.term,
        namespace = named_after(request.env("AX_SOURCE"), "namespaces"),
        task = named_after(request.env("AX_SOURCE"), "axtasks"),
        template = request.env("AX_TEMPLATE"),
        topic = request.env("AX_TOPIC"),
        trace_id = request.env("TRACEPARENT").and_then(|parent| parent.split('-').nth(1)),
        business_trace_id = request.env("AX_TRACEID"),
    );
    let execution = async move {
        let reply = run(&worker, request, payload).await;
        // Fails if the connection has been closed meanwhile.
        let _ = done.send(reply);
    };
    tokio::spawn(execution.instrument(span));
    answered
}

async fn run(worker: &Worker, request: Request, payload: Bytes) -> Reply {
    // 1. Before the work, or a crash would make it run again.
    if let Err(error) = worker.journal.append(record(worker, &request, None)).await {
        tracing::error!(error = as_dyn(&error), "journal not written, refused");
        worker.change(|table| table.abandon(&request.id));
        return Reply::no_journal();
    }

    // 2.
    tracing::info!("started");
    let started = worker.clock.mono();
    let output = exec::run(&worker.config.program, &request, payload, worker.phase.clone()).await;
    let duration_ms = (worker.clock.mono() - started).as_secs_f64() * 1e3;
    let answer = Answer::of(&output);

    // 3. Before the answer goes out, or a crash would lose what somebody has been told.
    let ended = record(worker, &request, Some(answer.clone()));
    let finished = Finished::of(&ended);
    if let Err(error) = worker.journal.append(ended).await {
        tracing::error!(error = as_dyn(&error), "journal not written, a restart would forget this answer");
    }
    worker.change(|table| {
        if let Some(finished) = finished {
            table.end(&request.id, finished);
        }
    });
    tracing::info!(status = answer.status, reason = output.ending.reason(), duration_ms, "ended");
    answer.into()
}

fn record(worker: &Worker, request: &Request, answer: Option<Answer>) -> Record {
    Record { id: request.id.clone(), attempt: request.attempt, at: worker.now_ms(), answer }
}

/// The path segment after `kind`, as in `/apis/ax.dev/v1alpha1/namespaces/<ns>/axtasks/<name>`.
fn named_after<'a>(source: Option<&'a str>, kind: &str) -> Option<&'a str> {
    let mut segments = source?.split('/');
    segments.find(|segment| *segment == kind)?;
    segments.next()
}

fn as_dyn<'a>(error: &'a super::journal::Error) -> &'a (dyn std::error::Error + 'static) {
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_names_namespace_and_task() {
        let source = Some("/apis/ax.dev/v1alpha1/namespaces/shop/axtasks/close-1");
        assert_eq!(named_after(source, "namespaces"), Some("shop"));
        assert_eq!(named_after(source, "axtasks"), Some("close-1"));
        assert_eq!(named_after(Some("/else"), "axtasks"), None);
        assert_eq!(named_after(None, "axtasks"), None);
    }
}
