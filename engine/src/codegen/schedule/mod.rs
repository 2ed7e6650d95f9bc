//! Schedules: how the points of a kernel are divided among blocks and threads, one file per schedule.

pub mod attention;
pub mod custom_kernel;
pub mod double_buffer;
pub mod map;
pub mod matmul;
pub mod matmul_blocked;
pub mod matmul_fold;
pub mod radix_sort;
pub mod row;
pub mod scan;
pub mod scatter;
pub mod scatter_sorted;
pub mod segmented;
pub mod split_k;
pub mod topk;
pub mod topk_buffer;
pub mod unpack;
