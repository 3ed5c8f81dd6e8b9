//! One attempt at one pod, to its end. IO.
//!
//! Three outcomes of a send: refused (nothing ran; reported, the leader loop sends it elsewhere), answered, and
//! ambiguous: cut after the first byte. Then the same request goes to the same pod after 1, 2, 4, 8, 15 s, with the
//! time that remains: its journal answers. 30 s without contact, or the pod gone: the worker is lost.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderValue, Method};
use hyper::body::Bytes;
use tokio::sync::broadcast;
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use super::{Hand, Told};
use crate::api::duration;
use crate::domain::answer::{Answer, Failure, Refused, Verdict, verdict};
use crate::domain::credit::{RateLimit, rate_limit_parameter};
use crate::domain::dispatch::{Dispatch, Report, What};
use crate::worker::client::{Exchange, Outgoing, Reply, header_map};
use crate::worker::wire;

/// Waits before the same pod is asked again.
const ASK_AGAIN: [u64; 5] = [1, 2, 4, 8, 15];
/// Without contact for so long the worker is lost.
const LOST_AFTER: Duration = Duration::from_secs(30);
/// How long a timed-out request is kept open for a late answer.
const LATE: Duration = Duration::from_secs(30);
/// An answer that is on its way when the pod vanishes still counts.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// An attempt under way.
struct Attempt {
    hand: Hand,
    dispatch: Dispatch,
    /// Why the pod was cut off, each time it is.
    cut: broadcast::Receiver<&'static str>,
    outgoing: Outgoing,
    /// The request may have reached the pod.
    reached: bool,
    /// The first send was answered 409: this attempt has not started.
    busy: bool,
    asked: usize,
    last_contact: Duration,
}

/// How one exchange went on.
enum Turn {
    /// Ask again after this.
    Again(Duration),
    /// Report this and end.
    End(What),
    /// End without a word: this replica leads no more.
    Silent,
}

pub(super) async fn run(hand: Hand, dispatch: Dispatch, cut: broadcast::Receiver<&'static str>) {
    let outgoing = Outgoing {
        method: Method::POST,
        path: dispatch.path.clone(),
        headers: header_map(&dispatch.headers),
        body: dispatch.payload.as_ref().map_or(Bytes::from_static(b"null"), |p| Bytes::from(p.get().to_owned())),
        read: wire::MAX_RESPONSE_READ,
    };
    let last_contact = hand.clock.mono();
    let reached = dispatch.repeat;
    let attempt = Attempt { hand, dispatch, cut, outgoing, reached, busy: false, asked: 0, last_contact };
    attempt.finish().await;
}

impl Attempt {
    async fn finish(mut self) {
        let started = self.hand.clock.mono();
        let end = started + self.dispatch.timeout;
        debug!(
            task = %self.dispatch.name,
            execution_id = %self.dispatch.execution,
            attempt = self.dispatch.attempt,
            pod = %self.dispatch.pod.name,
            repeat = self.dispatch.repeat,
            "sending"
        );
        loop {
            let remains = end.saturating_sub(self.hand.clock.mono());
            if remains.is_zero() {
                self.report(What::TimedOut, None).await;
                // No request is open: nobody will say when the place is free.
                _ = self.cut_within(LATE).await;
                self.report(What::Freed, None).await;
                return;
            }
            let turn = match self.exchange(remains).await {
                Some(exchange) => self.judge(exchange).await,
                None => return,
            };
            let wait = match turn {
                Turn::Silent => return,
                Turn::End(what) => {
                    self.report(what, None).await;
                    return;
                }
                Turn::Again(wait) => wait,
            };
            if self.hand.clock.mono().saturating_sub(self.last_contact) >= LOST_AFTER {
                let failure = Failure::stated("WorkerLost", "no contact for 30 s");
                self.report(What::Lost(failure), None).await;
                return;
            }
            let wait = wait.min(end.saturating_sub(self.hand.clock.mono()));
            if let Some(why) = self.cut_within(wait).await {
                self.report(self.never_heard(why), None).await;
                return;
            }
        }
    }

    /// One request and its answer. `None`: the attempt is over, and reported.
    async fn exchange(&mut self, remains: Duration) -> Option<Exchange> {
        let mut outgoing = self.outgoing.clone();
        // The first request has all its time, whatever it took to come to this.
        let told = if self.reached || self.busy { remains } else { self.dispatch.timeout };
        if let Ok(value) = HeaderValue::from_str(&duration::format(told)) {
            outgoing.headers.insert(wire::REQUEST_TIMEOUT, value);
        }
        let hand = self.hand.clone();
        let pod = self.dispatch.pod.clone();
        let end = hand.clock.mono() + remains;
        // A first send belongs to the reign that decided it; a question may be asked by the next.
        let decided_in = (!self.reached).then_some(self.dispatch.term);
        let gone_out = Arc::new(AtomicBool::new(false));
        let goes_out = gone_out.clone();
        let mut exchange = pin!(async move {
            let trusted = || {
                let now = hand.clock.mono();
                let term = hand.trusted().filter(|term| decided_in.is_none_or(|decided| decided == *term));
                let term = term.filter(|_| now < end);
                goes_out.store(term.is_some(), Ordering::Relaxed);
                term
            };
            hand.connections.exchange(&pod, outgoing, wire::CE_TERM, trusted).await
        });
        tokio::select! {
            biased;
            done = &mut exchange => return Some(done),
            why = cut_off(&mut self.cut) => {
                match timeout(LAST_WORDS, &mut exchange).await {
                    Ok(done @ Exchange::Answered(_)) => return Some(done),
                    // An open request may have begun to work, whatever was answered before it.
                    Ok(_) | Err(_) if gone_out.load(Ordering::Relaxed) => {
                        self.report(What::Lost(Failure::stated("WorkerLost", why)), None).await;
                    }
                    Ok(_) | Err(_) if !self.reached && !self.busy => {
                        return Some(Exchange::Unsent(why.to_owned()));
                    }
                    Ok(_) | Err(_) => self.report(self.never_heard(why), None).await,
                }
                return None;
            }
            () = sleep(remains) => {}
        }
        // Not a byte has gone out: the pod was out of reach, which uses no attempt up.
        if !gone_out.load(Ordering::Relaxed) && !self.reached && !self.busy {
            return Some(Exchange::Unsent("no connection within the timeout".to_owned()));
        }
        self.report(What::TimedOut, None).await;
        let late = tokio::select! {
            biased;
            late = timeout(LATE, &mut exchange) => late.ok(),
            _ = cut_off(&mut self.cut) => None,
        };
        match late {
            Some(Exchange::Answered(reply)) => {
                let what = What::Late(self.verdict(&reply));
                self.report(what, Some(&reply)).await;
            }
            _ => self.report(What::Freed, None).await,
        }
        None
    }

    async fn judge(&mut self, exchange: Exchange) -> Turn {
        match exchange {
            // Asked again under a lost lease: the next leader asks. First send: nothing went out.
            Exchange::NotTrusted if self.reached => Turn::Silent,
            Exchange::NotTrusted => Turn::End(What::NotLeader),
            Exchange::Unsent(why) if !self.reached => {
                Turn::End(What::Answered(Verdict::Refused(Refused::Unreachable(why))))
            }
            Exchange::Unsent(why) | Exchange::Cut(why) => {
                // An open request is a sign of life up to the moment it is cut.
                if !self.reached {
                    self.last_contact = self.hand.clock.mono();
                }
                self.busy = false;
                info!(
                    task = %self.dispatch.name,
                    attempt = self.dispatch.attempt,
                    pod = %self.dispatch.pod.name,
                    error = %why,
                    "no answer; asking the same pod again"
                );
                self.reached = true;
                Turn::Again(self.next_wait())
            }
            Exchange::Answered(reply) => {
                self.last_contact = self.hand.clock.mono();
                self.answered(&reply).await
            }
        }
    }

    async fn answered(&mut self, reply: &Reply) -> Turn {
        match self.verdict(reply) {
            Verdict::Busy(after) => {
                if !self.reached && !self.busy {
                    self.busy = true;
                    self.report(What::Busy, Some(reply)).await;
                }
                Turn::Again(after)
            }
            Verdict::Refused(refused) if self.reached || self.busy => self.refused_again(refused, reply).await,
            verdict => {
                self.report(What::Answered(verdict), Some(reply)).await;
                Turn::Silent
            }
        }
    }

    /// A refusal of a repeated request says nothing of the first one.
    async fn refused_again(&mut self, refused: Refused, reply: &Reply) -> Turn {
        match refused {
            Refused::WrongPod => Turn::End(self.never_heard("the address belongs to another pod now")),
            Refused::LowerTerm(seen) => {
                self.report(What::HigherTerm(seen), Some(reply)).await;
                Turn::Again(self.next_wait())
            }
            Refused::Full(after) | Refused::Draining(after) => Turn::Again(after.max(Duration::from_secs(1))),
            Refused::Unreachable(_) => Turn::Again(self.next_wait()),
        }
    }

    fn never_heard(&self, why: &str) -> What {
        if self.busy { What::NeverStarted } else { What::Lost(Failure::stated("WorkerLost", why)) }
    }

    fn next_wait(&mut self) -> Duration {
        let seconds = ASK_AGAIN.get(self.asked).or(ASK_AGAIN.last()).copied().unwrap_or(15);
        self.asked += 1;
        Duration::from_secs(seconds)
    }

    /// Why the pod was cut off, if it was before the wait was over.
    async fn cut_within(&mut self, wait: Duration) -> Option<&'static str> {
        timeout(wait, cut_off(&mut self.cut)).await.ok()
    }

    fn verdict(&self, reply: &Reply) -> Verdict {
        let answer = Answer {
            status: reply.status,
            retry_after: reply.header("retry-after"),
            retryable: reply.header(wire::RETRYABLE),
            term: reply.header(wire::TERM),
            body: &reply.body,
            cut: reply.cut,
        };
        verdict(&answer, self.hand.clock.now().wall)
    }

    async fn report(&self, what: What, reply: Option<&Reply>) {
        let room = reply.map(|reply| RateLimit {
            capacity: reply.header(wire::RATE_LIMIT_POLICY).and_then(|h| rate_limit_parameter(h, "q")),
            room: reply.header(wire::RATE_LIMIT).and_then(|h| rate_limit_parameter(h, "r")),
        });
        let report = Report {
            task: self.dispatch.task,
            execution: self.dispatch.execution,
            attempt: self.dispatch.attempt,
            term: self.dispatch.term,
            pod: self.dispatch.pod.uid.clone(),
            room,
            what,
        };
        self.hand.tell(Told::Report(report)).await;
    }
}

/// Why the pod is cut off, when it is.
async fn cut_off(cuts: &mut broadcast::Receiver<&'static str>) -> &'static str {
    loop {
        match cuts.recv().await {
            Ok(why) => return why,
            // The newest is still there.
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
