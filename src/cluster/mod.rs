//! The door to the API server: Lease, watches, status patches, Events.
