//! The runtime that outlives every test: played kubelets, scripted workers, cleaning up.

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// The runtime. It is never shut down.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().worker_threads(2).thread_name("background").enable_all().build().expect("a runtime")
    })
}

/// Runs `future` there and blocks for its value, at most for `limit`. May be called from any thread but its own.
pub fn block<T, F>(limit: Duration, future: F) -> Option<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime().spawn(async move {
        let _ = sender.send(future.await);
    });
    receiver.recv_timeout(limit).ok()
}
