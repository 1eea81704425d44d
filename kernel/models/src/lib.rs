//! Models behind the kernel: the wires of their providers, and a scripted one.
