//! The resources of group `ax.dev`, version `v1alpha1`. Pure.
