//! Workers: the scratch that programs run in.

use super::super::memory::{Memory, sizes};
use super::program::Program;
use super::view::View;
use crate::device::DeviceError;

/// The scratch of one worker, for programs of up to a given size.
pub struct Worker {
    slots: Memory,
    slot_bytes: usize,
    rows: Memory,
    views: Vec<View>,
    /// The row values of all rows of a group, while its rows run one by one.
    pub saved: Vec<View>,
    /// Whether this worker runs the next block in memory next.
    pub has_next: bool,
    /// The memory of row values.
    pub row_base: *mut u8,
    /// The accumulator of a matmul.
    pub accumulator: View,
    /// The accumulator of a second matmul.
    pub second_accumulator: View,
}

// SAFETY: the pointer is to the worker's own memory, or to memory that its task owns.
unsafe impl Send for Worker {}

sizes! {
    /// The scratch that programs need.
    pub struct ScratchSize {
        /// Slots, one more than programs name, for temporary values.
        pub n_slots: usize,
        /// Bytes of a slot.
        pub slot_bytes: usize,
        /// Bytes of row values.
        pub row_bytes: usize,
        /// Places of row values.
        pub n_row_places: usize,
        /// Registers.
        pub n_regs: usize,
    }
}

/// The bytes from one place of row values to the next.
pub fn row_pitch(n_rows: usize) -> usize {
    (n_rows * 8).next_multiple_of(64)
}

impl ScratchSize {
    /// The scratch of a program on blocks of `block` points and `n_rows` rows.
    pub fn of(program: &Program, block: usize, n_rows: usize) -> ScratchSize {
        ScratchSize {
            n_slots: program.n_slots + 1,
            slot_bytes: (block * program.widest).next_multiple_of(64),
            // Two sets: long sums have accumulators for a part of the blocks.
            row_bytes: 2 * program.n_row_places() * row_pitch(n_rows),
            n_row_places: program.n_row_places(),
            n_regs: program.n_regs,
        }
    }
}

impl Worker {
    /// Scratch of a size.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(size: ScratchSize) -> Result<Worker, DeviceError> {
        // Slots a power of two apart would share cache sets; one more cache line spreads them.
        let slot_bytes = size.slot_bytes + 64;
        let rows = Memory::new(size.row_bytes)?;
        Ok(Worker {
            slots: Memory::new(size.n_slots * slot_bytes)?,
            slot_bytes,
            has_next: false,
            row_base: rows.start(),
            rows,
            views: vec![View::UNSET; size.n_regs],
            saved: vec![View::UNSET; size.n_row_places],
            accumulator: View::UNSET,
            second_accumulator: View::UNSET,
        })
    }

    /// The memory of a slot.
    pub fn slot(&self, slot: usize) -> *mut u8 {
        self.slots.start().wrapping_add(slot * self.slot_bytes)
    }

    /// The slot for temporary values.
    pub fn temporary(&self) -> *mut u8 {
        self.slots.start().wrapping_add(self.slots.bytes() - self.slot_bytes)
    }

    /// The worker's own memory of row values.
    pub fn own_rows(&self) -> *mut u8 {
        self.rows.start()
    }

    /// Sets the value of a register.
    pub fn set(&mut self, reg: usize, view: View) {
        self.views[reg] = view;
    }

    /// The value of a register.
    pub fn get(&self, reg: usize) -> View {
        self.views[reg]
    }
}
