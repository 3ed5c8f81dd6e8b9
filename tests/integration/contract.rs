//! What the operator relies on in an API server; the simulation's stand-in is held to the same cases.

#[path = "../contract/mod.rs"]
mod cases;

use crate::support::TestNamespace;
use cases::{Place, every_case};

macro_rules! on_the_real_one {
    ($($case:ident,)*) => {
        $(#[tokio::test]
        async fn $case() {
            let ns = TestNamespace::new("contract").await;
            cases::$case(Place { client: ns.client.clone(), namespace: ns.name.clone() }).await;
        })*
    };
}

every_case!(on_the_real_one);
