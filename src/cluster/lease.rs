#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetBounds {
    pub lower: jiff::SignedDuration,
    pub upper: jiff::SignedDuration,
}
pub struct Grant {
    pub term: u64,
    pub may_start_at: std::time::Duration,
}
#[derive(Clone)]
pub struct Leadership;
impl Leadership {
    pub fn grant(&self, _: std::time::Duration) -> Option<Grant> {
        None
    }
}
pub enum LeaseCommand {
    SawTerm(u64),
    RaiseTermAbove(u64),
}
#[derive(Clone)]
pub struct ServerClock;
impl ServerClock {
    pub fn bounds(&self) -> Option<OffsetBounds> {
        None
    }
}
