//! The end of the help: exit codes, and the variables that a user may set.

pub(crate) const AFTER_HELP: &str = "\
Exit codes:
  0    success
  1    the graph or its data is at fault
  2    wrong usage
  3    the machine is at fault: no such device, out of memory, disk full
  130  interrupted, by Ctrl-C or a signal to end; training has saved its state

Environment:
  ENGINE_DATA_DIR         a folder with data sets, after --data-dir and before data/
  ENGINE_OFFLINE          1: never use the network
  ENGINE_ON_DISK_MIB      array files from so many MiB on stay on disk; by default 1024
  ENGINE_CACHE_DIR        a folder for compiled kernels; by default engine/ in the user's cache folder
  ENGINE_CUDA_CAPABILITY  the latest compute capability to compile kernels for, such as 8.0";
