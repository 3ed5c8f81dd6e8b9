//! `ax-worker`: the worker's side of the contract, for programs that know nothing of ax.
