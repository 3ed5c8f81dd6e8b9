//! The fake API server does what the real one does: the cases of `tests/contract`.

#[path = "../contract/mod.rs"]
mod cases;

use crate::Sim;
use crate::api::link::Line;
use crate::stage::NAMESPACE;
use cases::{Place, every_case};

fn play<F: Future<Output = ()>>(case: impl FnOnce(Place) -> F) {
    let sim = Sim::new(1);
    sim.block_on(async {
        let client = sim.server.client("a test", &Line::up());
        case(Place { client, namespace: NAMESPACE.to_owned() }).await;
    });
}

macro_rules! on_the_fake_one {
    ($($case:ident,)*) => {
        $(#[test]
        fn $case() {
            play(cases::$case);
        })*
    };
}

every_case!(on_the_fake_one);
