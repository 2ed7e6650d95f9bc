//! All that touches a machine: devices, memory, sessions, data, checkpoints
