//! What the API server says becomes what the leader knows.
