//! The journal of events behind the kernel: kept, delivered, retried.
