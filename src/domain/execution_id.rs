//! The execution id: the same for all attempts of a task, whoever computes it. Pure.

use uuid::Uuid;

/// UUIDv5 (RFC 9562) with the task's uid as name space and the item index in decimal as name.
///
/// A plain task has the single item 0. `None` if the uid is no UUID: the API server makes only UUIDs, so such an
/// object was forged or restored by hand.
pub fn execution_id(task_uid: &str, index: u32) -> Option<Uuid> {
    let space = Uuid::parse_str(task_uid).ok()?;
    Some(Uuid::new_v5(&space, index.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_example() {
        let want = "e978927a-4121-548a-b37f-7827c121a034";
        let got = execution_id("3f2a7c1e-5b64-4c0d-9a51-0d6f0c3b8e21", 0);
        assert_eq!(got.map(|id| id.to_string()).as_deref(), Some(want));
    }

    #[test]
    fn a_forged_uid_has_none() {
        assert_eq!(execution_id("not-a-uuid", 0), None);
    }
}
