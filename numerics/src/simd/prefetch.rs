//! Prefetching: loops request the next block's memory while they compute the present one.

/// Elements of f32 between two rounds of requests: few enough that requests do not queue.
pub const CHUNK: usize = 64;

/// Bytes of a cache line, which one request loads.
pub const LINE: usize = 64;

/// The most stretches that one loop requests.
const MOST: usize = 4;

/// Stretches of memory that a loop requests, evenly over its elements.
#[derive(Clone, Copy, Debug)]
pub struct Prefetch {
    /// The first address and the bytes of each.
    stretches: [(usize, usize); MOST],
    n: usize,
}

impl Prefetch {
    /// No requests.
    pub const NOTHING: Prefetch = Prefetch { stretches: [(0, 0); MOST], n: 0 };

    /// Adds a stretch, if there is room for it.
    pub fn push(&mut self, start: *const u8, bytes: usize) {
        if self.n < MOST {
            self.stretches[self.n] = (start.addr(), bytes);
            self.n += 1;
        }
    }

    /// The requests spread over the chunks of a loop, all stretches at the same pace.
    #[inline(always)]
    pub fn over(&self, n_chunks: usize) -> Requests<'_> {
        let stretches = &self.stretches[..self.n];
        let bytes = stretches.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let per_chunk = if bytes == 0 { 0 } else { bytes.div_ceil(LINE).div_ceil(n_chunks.max(1)) * LINE };
        Requests { stretches, at: 0, bytes, per_chunk }
    }
}

/// The requests that remain: all from byte `at` of the stretches on.
pub struct Requests<'a> {
    stretches: &'a [(usize, usize)],
    at: usize,
    bytes: usize,
    per_chunk: usize,
}

impl Requests<'_> {
    /// Requests the share of one chunk.
    #[inline(always)]
    pub fn step(&mut self) {
        let stop = self.bytes.min(self.at + self.per_chunk);
        while self.at < stop {
            for (start, bytes) in self.stretches {
                if self.at < *bytes {
                    request(start.wrapping_add(self.at));
                }
            }
            self.at += LINE;
        }
    }
}

/// Reads each cache line of a slice. Where pages are new to the core, requests would be dropped.
pub fn read_ahead<T>(elements: &[T]) {
    let start = elements.as_ptr().cast::<u8>();
    for at in (0..size_of_val(elements)).step_by(LINE) {
        // SAFETY: inside the slice.
        unsafe { start.add(at).read_volatile() };
    }
}

/// Requests the cache line of an address.
#[inline(always)]
pub fn request(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which may name any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_requested_within_the_loop() {
        for (bytes, n_chunks) in [(4096, 16), (4096, 7), (64, 100), (640, 3), (4000, 1)] {
            let values = vec![0u8; bytes];
            let mut ahead = Prefetch::NOTHING;
            ahead.push(values.as_ptr(), bytes);
            ahead.push(values.as_ptr(), bytes / 2);
            let mut requests = ahead.over(n_chunks);
            (0..n_chunks).for_each(|_| requests.step());
            assert!(requests.at >= bytes, "{bytes} bytes over {n_chunks} chunks");
        }
    }
}
